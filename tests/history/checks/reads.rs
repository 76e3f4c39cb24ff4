//! LS-FENCE-001 and what can be looked at: what is shown was so at some moment of the call, and what a holder can count
//! on is not denied to anyone.

use super::{
    Findings, Planted,
    holds::{self, Hold},
    right,
    samples::{Sample, expired, lease, live, page, request, seen},
    wrong,
};
use crate::{
    history::History,
    record::{Answer, Call, Name, Refused, Seen},
    request::{Request, Verb},
};

pub fn check(history: &History) -> Findings {
    let mut findings = Findings::of("LS-FENCE-001: what is read was so at some moment of the call");
    let holds = holds::all(history);
    let none = Vec::new();
    for call in &history.calls {
        let Some(key) = call.request.keys().next() else {
            if let Answer::Listed(items) = &call.answer {
                let of_the_room = holds.iter().filter(|(key, _)| key.split('/').next() == Some(&*call.request.room));
                list(history, call, items, of_the_room.flat_map(|(_, holds)| holds), &mut findings);
            }
            continue;
        };
        let mut certain =
            holds.get(&key).unwrap_or(&none).iter().filter(|hold| hold.covers(call.invoked, call.settled));
        match &call.answer {
            Answer::Verified { valid, current_token } => {
                let token = call.request.token;
                let is_so = if *valid {
                    history.grants(&key, token).any(|lease| history.was_live(lease, call.invoked, call.settled))
                } else {
                    !certain.any(|hold| hold.token == token)
                };
                findings.check(is_so, &key, call.settled, || format!("token {token} was verified as {valid}"));
                last_token(history, call, &key, *current_token, &mut findings);
            }
            Answer::Looked { lock, last_token: last } => {
                let is_so = match lock {
                    Some(lock) => history.shows(lock, call),
                    None => certain.next().is_none(),
                };
                findings.check(is_so, &key, call.settled, || format!("{} was shown {lock:?}", call.owner));
                last_token(history, call, &key, *last, &mut findings);
            }
            Answer::Refused(refused) if call.verb() == Verb::ForceUnlock && refused.status == 404 => {
                let is_held = certain.any(|hold| Some(hold.lease) == call.request.lease);
                findings.check(!is_held, &key, call.settled, || "not found, though it was held for certain".to_owned());
            }
            _ => {}
        }
    }
    findings
}

/// Not one that had been given before the last was, and not one that had not been given yet.
fn last_token(history: &History, call: &Call, key: &Name, told: i64, findings: &mut Findings) {
    let (mut least, mut most) = (0, 0);
    for (event, lease) in history.leases_of(key) {
        let committed = history.committed[lease.lock];
        if committed.not_after < call.invoked {
            least = event.token.max(least);
        }
        if committed.not_before <= call.settled {
            most = event.token.max(most);
        }
    }
    findings.check((least..=most).contains(&told), key, call.settled, || {
        format!("the last token was told to be {told}, between {least} and {most} it was")
    });
}

fn list<'h>(
    history: &History,
    call: &Call,
    items: &[Seen],
    holds: impl Iterator<Item = &'h Hold>,
    findings: &mut Findings,
) {
    for item in items {
        findings.check(history.shows(item, call), &item.key, call.settled, || {
            format!("listed with token {}, which was not live then", item.token)
        });
    }
    // On a page that is not full.
    for hold in holds.filter(|hold| items.len() < 1000 && hold.covers(call.invoked, call.settled)) {
        let is_listed = items.iter().any(|item| item.key == hold.key && item.token == hold.token);
        findings.check(is_listed, &hold.key, call.settled, || {
            format!("not listed, though {} held it for certain with token {}", hold.owner, hold.token)
        });
    }
}

pub fn planted() -> Vec<Planted> {
    let over = || Sample::default().granted("ann", 1, 0..5, 1000).event(1000, "ann", 1, expired()).heard(&[1, 2]);
    let verify = |at: u64, valid, current_token| {
        let request = Request { token: 1, ..request(Verb::Verify) };
        over().call("ben", request, at..at + 5, Answer::Verified { valid, current_token }).history()
    };
    let look = |at: u64, lock| {
        over().call("ben", request(Verb::Look), at..at + 5, Answer::Looked { lock, last_token: 1 }).history()
    };
    let list = |at: u64, items: Vec<Seen>| {
        let request = Request { documents: Vec::new(), ..request(Verb::List) };
        over().call("ben", request, at..at + 5, Answer::Listed(items)).history()
    };
    let anns = || seen("ann", 1, 500);
    let other = || Seen { key: page(), token: 2, ..seen("ann", 1, 500) };
    vec![
        right("valid while it lives", check, verify(500, true, 1)),
        wrong("valid when it is over", check, verify(4000, true, 1)),
        wrong("not valid while it is held", check, verify(500, false, 1)),
        wrong("a last token of the past", check, verify(4000, false, 0)),
        wrong("a last token of the future", check, verify(4000, false, 2)),
        right("not shown while it is overdue, though it was given grace", check, {
            let late =
                over().call("ben", request(Verb::Look), 1100..1105, Answer::Looked { lock: None, last_token: 1 });
            late.call("ann", request(Verb::Heartbeat), 1200..1205, live("ann", 1, 1000)).history()
        }),
        right("shown while it lives", check, look(500, Some(anns()))),
        wrong("shown when it is over", check, look(4000, Some(anns()))),
        wrong("not shown while it is held", check, look(500, None)),
        wrong("not found by an admin while it is held", check, {
            let force = Request { lease: Some(lease(1)), ..request(Verb::ForceUnlock) };
            let refused = Refused { status: 404, code: "LOCK_NOT_FOUND".to_owned(), ..Refused::default() };
            over().call("root", force, 500..505, Answer::Refused(refused)).history()
        }),
        right("listed while it lives", check, list(500, vec![anns()])),
        wrong("listed as another", check, list(500, vec![other()])),
        wrong("not listed while it is held", check, list(500, Vec::new())),
    ]
}
