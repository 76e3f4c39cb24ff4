//! LS-ACQ-004, LS-REL-003: what is sent again does not act again; what was refused has not acted; and nothing is granted
//! or ended that nobody asked for.

use std::collections::HashMap;

use super::{
    Findings, Planted, right,
    samples::{Sample, by, ended, lease, live, refused, request},
    wrong,
};
use crate::{
    history::History,
    log::{Committed, Event, Happened, Reason},
    record::{Answer, Call, Ended, Failed, Refused},
    request::{Request, Verb},
};

pub fn check(history: &History) -> Findings {
    let mut findings = Findings::of("LS-ACQ-004, LS-REL-003: a re-sent request acts once, a refused one never");
    history.requests().for_each(|calls| one_id(&calls, &mut findings));
    grants_were_asked_for(history, &mut findings);
    ends_were_asked_for(history, &mut findings);
    findings
}

/// All that was sent with one id of one owner.
fn one_id(calls: &[&Call], findings: &mut Findings) {
    for (index, call) in calls.iter().enumerate() {
        let key = call.request.keys().next().unwrap_or_default();
        let mut check = |is_so: bool, what: &str| {
            findings.check(is_so, &key, call.settled, || format!("{what}: {} {:?}", call.request.told(), call.answer));
        };
        let has_twin = calls.iter().any(|other| other.request != call.request);
        let is_reused = |failed: &Failed| failed.code == "REQUEST_ID_REUSED";
        check(has_twin || !call.answer.failed().iter().any(is_reused), "refused as reused, but the id was not");
        let earlier = calls[..index].iter().filter(|earlier| earlier.returned() < call.invoked);
        for earlier in earlier.filter(|earlier| has_done(earlier)) {
            if call.request != earlier.request {
                check(!has_done(call), "an id that had done something has done something else");
            } else if call.verb() == Verb::Lock {
                check(answers_again(earlier, call), "a lock was sent again and neither it nor its end was answered");
            } else if call.verb() == Verb::Unlock {
                check(tells_again(earlier, call), "an unlock was sent again and answered otherwise");
            }
        }
    }
}

/// Only successes of locks and unlocks are remembered; of several documents, only if all succeeded.
fn has_done(call: &Call) -> bool {
    match call.verb() {
        Verb::Lock => matches!(call.answer, Answer::Live(_)),
        Verb::Unlock => matches!(call.answer, Answer::Ended(_)),
        _ => false,
    }
}

fn answers_again(earlier: &Call, call: &Call) -> bool {
    let same =
        |call: &Call| -> Vec<_> { call.answer.live().iter().map(|seen| (seen.key.clone(), seen.lease)).collect() };
    let is_an_end = |failed: &Failed| failed.code.starts_with("LEASE_") && failed.code != "LEASE_MISMATCH";
    match &call.answer {
        Answer::Live(_) => same(call) == same(earlier),
        Answer::Refused(refused) if refused.status != 503 => refused.failed.iter().all(is_an_end),
        _ => true,
    }
}

fn tells_again(earlier: &Call, call: &Call) -> bool {
    match &call.answer {
        Answer::Ended(ended) => ended == earlier.answer.ended(),
        Answer::Refused(refused) => refused.status == 503,
        _ => true,
    }
}

/// Every grant in the log carries the tag of the request that was granted.
fn grants_were_asked_for(history: &History, findings: &mut Findings) {
    let mut granted = HashMap::new();
    for (index, event) in history.log.iter().enumerate().filter(|(_, event)| event.is_lock()) {
        let Some(tag) = event.tag else { continue };
        let at = history.committed[index].not_before;
        let times = granted.entry((tag, event.key.clone())).or_insert(0);
        *times += 1;
        findings.check(*times == 1, &event.key, at, || format!("one request was granted twice: {}", event.told()));
        let may_be = |call: &Call| match &call.answer {
            Answer::Live(live) => live.iter().any(|seen| seen.lease == Some(event.lease)),
            answer => answer.is_open(),
        };
        let is_its = |call: &Call| call.owner == event.owner && call.request.is_about(&event.key) && may_be(call);
        findings.check(history.sent_with_tag(tag).any(is_its), &event.key, at, || {
            format!("granted, though no request was answered so: {}", event.told())
        });
    }
}

fn ends_were_asked_for(history: &History, findings: &mut Findings) {
    let by_admins: Vec<&Call> = history.calls.iter().filter(|call| call.verb() == Verb::ForceMatching).collect();
    for call in &by_admins {
        as_many_as_told(history, call, findings);
    }
    for (index, event) in history.log.iter().enumerate() {
        let committed = history.committed[index];
        let mut calls = history.calls_on(&event.key).chain(by_admins.iter().copied());
        let is_asked_for = match event.reason() {
            Some(Reason::Released) => calls.any(|call| may_have_released(history, call, event, committed)),
            Some(Reason::Revoked) => calls.any(|call| may_have_revoked(call, event, committed)),
            Some(Reason::Expired | Reason::TakenOver) | None => true,
        };
        findings.check(is_asked_for, &event.key, committed.not_before, || {
            format!("ended, though no request can have done it: {}", event.told())
        });
    }
}

/// A filtered force-unlock says how many it has ended.
fn as_many_as_told(history: &History, call: &Call, findings: &mut Findings) {
    let Answer::Unlocked(told) = call.answer else { return };
    let revoked = history.log.iter().zip(&history.committed).filter(|(event, committed)| {
        event.reason() == Some(Reason::Revoked) && may_have_revoked(call, event, **committed)
    });
    let most = i64::try_from(revoked.count()).unwrap_or(i64::MAX);
    findings.check(told <= most, &call.request.room, call.settled, || {
        format!("told to have ended {told}, the log has {most} at most: {}", call.request.told())
    });
}

fn was_under_way(call: &Call, committed: Committed) -> bool {
    call.invoked <= committed.not_after && call.returned() >= committed.not_before
}

fn may_have_released(history: &History, call: &Call, event: &Event, committed: Committed) -> bool {
    let request = &call.request;
    let lingers = call.verb() == Verb::Release && request.linger_ms > 0;
    let is_named = (matches!(call.verb(), Verb::Unlock | Verb::Release))
        && call.owner == event.owner
        && request.lease.is_none_or(|lease| lease == event.lease)
        && (request.session.is_none() || request.session == event.session);
    if !is_named || lingers {
        // When a linger runs out the lock ends as released, whenever that is.
        return is_named && call.invoked <= committed.not_after && call.answer.failed().is_empty();
    }
    let has_ended_it =
        |sent: &Call| sent.answer.ended().iter().any(|end| end.key == event.key && end.token == event.token);
    let may_be = call.answer.is_open() && was_under_way(call, committed);
    // One that has done a part of what it was asked for is not remembered, and does another part the next time.
    if request.many {
        return has_ended_it(call) || may_be;
    }
    // Answered once, it has ended what it was answered for and nothing else, however often it was sent.
    match history.sent_alike(call).find(|sent| matches!(sent.answer, Answer::Ended(_))) {
        Some(sent) => has_ended_it(sent),
        None => may_be,
    }
}

fn may_have_revoked(call: &Call, event: &Event, committed: Committed) -> bool {
    let request = &call.request;
    let is_meant = match call.verb() {
        Verb::ForceUnlock => request.lease == Some(event.lease),
        Verb::ForceMatching => {
            request.is_about(&event.key) && request.filter_owner.as_ref().is_none_or(|owner| *owner == event.owner)
        }
        _ => false,
    };
    let is_refused = matches!(&call.answer, Answer::Refused(_));
    is_meant && !is_refused && event.by() == Some(&call.owner) && was_under_way(call, committed)
}

pub fn planted() -> Vec<Planted> {
    let wish = || Request { id: Some("id".into()), tag: Some(1), ..request(Verb::Lock) };
    let first = || {
        let sample = Sample::default().call("ann", wish(), 0..5, live("ann", 1, 1000));
        sample.event(0, "ann", 1, Happened::Locked)
    };
    let again = |answer| first().call("ann", wish(), 10..15, answer).history();
    let unlock = || Request { id: Some("id".into()), ..request(Verb::Unlock) };
    let unlocked = |token: i64| {
        let sample = first().event(20, "ann", 1, by(Reason::Released, "ann"));
        let sample = sample.call("ann", Request { id: Some("un".into()), ..unlock() }, 20..25, ended(1));
        let sample = sample.event(30, "ann", 2, Happened::Locked).event(40, "ann", 2, by(Reason::Released, "ann"));
        sample.call("ann", Request { id: Some("un".into()), ..unlock() }, 40..45, ended(token))
    };
    let mut twice = first().event(20, "ann", 1, by(Reason::Released, "ann")).event(30, "ann", 2, Happened::Locked);
    twice = twice.call("ann", wish(), 30..35, Answer::Lost);
    let mut twice = twice.history();
    twice.log[2].tag = Some(1);
    vec![
        right("the same lock again", check, again(live("ann", 1, 900))),
        right("its end", check, again(refused("LEASE_EXPIRED", None))),
        wrong("another lock", check, again(live("ann", 2, 900))),
        wrong("decided anew", check, again(refused("LOCK_HELD", None))),
        wrong("refused as reused", check, again(refused("REQUEST_ID_REUSED", None))),
        wrong("another body that acted", check, {
            let other = Request { ttl_seconds: Some(5), ..wish() };
            first().call("ann", other, 10..15, live("ann", 1, 900)).history()
        }),
        wrong("two grants for one request", check, twice),
        wrong("granted, and refused", check, {
            let refused = Sample::default().call("ann", wish(), 0..5, refused("LOCK_HELD", None));
            refused.event(0, "ann", 1, Happened::Locked).history()
        }),
        wrong("an unlock that ended two", check, unlocked(2).history()),
        wrong("an unlock whose first answer was kept to", check, unlocked(1).history()),
        wrong("an unlock that is decided anew", check, {
            let named = || Request { id: Some("un".into()), ..request(Verb::Unlock) };
            let sample = first().event(20, "ann", 1, by(Reason::Released, "ann"));
            let sample = sample.call("ann", named(), 20..25, ended(1));
            sample.call("ann", named(), 40..45, refused("LEASE_RELEASED", None)).history()
        }),
        wrong("an end that nobody asked for", check, first().event(9, "ann", 1, by(Reason::Released, "ann")).history()),
        wrong("a revocation that no admin asked for", check, {
            first().event(9, "ann", 1, by(Reason::Revoked, "root")).history()
        }),
        right("a release", check, {
            let release = Request { lease: Some(lease(1)), ..request(Verb::Release) };
            first().event(9, "ann", 1, by(Reason::Released, "ann")).call("ann", release, 8..12, ended(1)).history()
        }),
        right("a part of an unlock that was lost, and another part", check, {
            let several = || Request {
                many: true,
                documents: vec!["page".into(), "other".into()],
                id: Some("un".into()),
                ..request(Verb::Unlock)
            };
            let other = Ended { key: "room/other".into(), token: 1 };
            let part = Answer::Refused(Refused { status: 409, ended: vec![other], ..Refused::default() });
            let sample = first().event(20, "ann", 1, by(Reason::Released, "ann"));
            sample.call("ann", several(), 20..25, Answer::Lost).call("ann", several(), 40..45, part).history()
        }),
        wrong("a force-unlock that tells of more than it ended", check, {
            let force = Request { filter_document: Some("page".into()), ..request(Verb::ForceMatching) };
            first().call("root", force, 8..12, Answer::Unlocked(1)).history()
        }),
        right("a revocation", check, {
            let force = Request { lease: Some(lease(1)), ..request(Verb::ForceUnlock) };
            first().event(9, "ann", 1, by(Reason::Revoked, "root")).call("root", force, 8..12, ended(1)).history()
        }),
    ]
}
