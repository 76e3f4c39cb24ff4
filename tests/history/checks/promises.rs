//! LS-EXP-001, LS-RNW-001: no lock expires before the moment its holder was told, and none is extended after it.

use super::{
    Findings, Planted, holds, right,
    samples::{Sample, expired, live, page, request},
    wrong,
};
use crate::{
    history::History,
    log::Reason,
    record::{Answer, Call, Moment, Seen},
    request::{Request, Verb},
};

/// Time without a commit after which the next one may find an outage: three seconds since the last sign of life, which
/// may be a second older than the last commit.
const MAY_BE_AN_OUTAGE: Moment = Moment::from_millis(1500);

pub fn check(history: &History) -> Findings {
    let mut findings = Findings::of("LS-EXP-001, LS-RNW-001: locks live as long as was told, and not again after that");
    for (key, holds) in holds::all(history) {
        for hold in &holds {
            let Some(lease) = history.lease(hold.lease) else { continue };
            let end = lease.end.filter(|_| history.reason(lease) == Some(Reason::Expired));
            let Some((event, committed)) = end.map(|end| (&history.log[end], history.committed[end])) else { continue };
            if let Some(promised) = hold.promised {
                findings.check(event.at >= promised, &key, committed.not_before, || {
                    let early = promised - event.at;
                    format!("expired {early} ms before the time its holder was told: {}", event.told())
                });
            }
            findings.check(!hold.is_certain() || committed.not_after >= hold.until, &key, committed.not_after, || {
                let (after, until) = (committed.not_after, hold.until);
                format!("expired by {after:?}, while its holder could count on it until {until:?}: {}", event.told())
            });
        }
    }
    heartbeats(history, &mut findings);
    findings
}

fn heartbeats(history: &History, findings: &mut Findings) {
    let mut commits: Vec<Moment> =
        history.calls.iter().filter(|call| has_committed(call)).map(|call| call.settled).collect();
    commits.sort();
    for call in history.calls.iter().filter(|call| call.verb() == Verb::Heartbeat) {
        // One that was sent before may have been answered from memory.
        if history.sent_alike(call).nth(1).is_some() {
            continue;
        }
        for seen in call.answer.live() {
            let Some((first, overdue_at)) = last_end(history, call, seen) else { continue };
            if may_have_had_grace(history, &commits, first, call.settled) {
                continue;
            }
            let decided_at = seen.expires_at - i64::from(seen.ttl_seconds) * 1000;
            findings.check(decided_at < overdue_at, &seen.key, call.settled, || {
                format!("extended {} ms after it was overdue: {}", decided_at - overdue_at, call.request.told())
            });
        }
    }
}

fn has_committed(call: &Call) -> bool {
    matches!(call.answer, Answer::Live(_) | Answer::Ended(_))
}

/// When the lock was to end by the last word before the call, and when that word was sent; none if another may have come
/// in between.
fn last_end(history: &History, call: &Call, seen: &Seen) -> Option<(Moment, i64)> {
    let mut last: Option<(Moment, i64)> = None;
    for other in history.calls_on(&seen.key).filter(|other| !std::ptr::eq(*other, call)) {
        let moves = matches!(other.verb(), Verb::Lock | Verb::Heartbeat | Verb::Release);
        if !moves || other.owner != call.owner || other.invoked > call.settled {
            continue;
        }
        let told = other.answer.live().iter().find(|told| told.lease == seen.lease && told.key == seen.key);
        match told {
            Some(_) if other.returned() >= call.invoked => return None,
            Some(told) => {
                let end = last.map_or(told.expires_at, |(_, end)| end.max(told.expires_at));
                last = Some((other.invoked, end));
            }
            None if other.answer.is_open() => return None,
            None => {}
        }
    }
    last
}

/// After an outage, or when the clock was stepped, a lock lives longer than was told.
fn may_have_had_grace(history: &History, commits: &[Moment], from: Moment, until: Moment) -> bool {
    let stepped = history.troubles.iter().any(|trouble| {
        trouble.kind.starts_with("clock") && trouble.from <= until && trouble.until + MAY_BE_AN_OUTAGE >= from
    });
    let first = commits.partition_point(|commit| *commit < from);
    let mut last = from;
    for commit in commits[first..].iter().take_while(|commit| **commit < until).chain(std::iter::once(&until)) {
        if commit.saturating_sub(last) > MAY_BE_AN_OUTAGE {
            return true;
        }
        last = *commit;
    }
    stepped
}

pub fn planted() -> Vec<Planted> {
    let one = || Sample::default().granted("ann", 1, 0..5, 1000);
    let beat = |decided_at: u64| {
        let at = i64::try_from(decided_at).unwrap_or_default();
        let mut seen = super::samples::seen("ann", 1, 1000);
        seen.expires_at = 1_000_000 + at + 1000;
        // Someone else's, so that there is no silence long enough for an outage.
        let busy = (0..4).fold(one(), |sample, step| {
            let other = Request { documents: vec!["other".into()], ..request(Verb::Lock) };
            sample.call("ben", other, step * 300..step * 300 + 1, live("ben", 9, 1))
        });
        busy.call("ann", request(Verb::Heartbeat), decided_at..decided_at + 5, Answer::Live(vec![seen])).history()
    };
    let ends = |at: i64, heard: &[i64]| one().event(at, "ann", 1, expired()).heard(heard).history();
    vec![
        right("expired when it was to", check, ends(1000, &[])),
        wrong("expired a millisecond early", check, ends(999, &[])),
        wrong("expired while its holder counts on it", check, {
            let mut history =
                Sample::default().granted("ann", 1, 0..5, 4000).event(5000, "ann", 1, expired()).heard(&[2]);
            history = history.call("ben", request(Verb::Look), 10..20, Answer::Looked { lock: None, last_token: 1 });
            history.history()
        }),
        right("a heartbeat in time", check, beat(990)),
        wrong("a heartbeat that was late", check, beat(1100)),
        right("a late one after an outage", check, {
            let late = one().call("ann", request(Verb::Heartbeat), 4000..4005, live("ann", 1, 1000));
            late.call("ben", Request { documents: vec![page()], ..request(Verb::Look) }, 0..1, Answer::Lost).history()
        }),
    ]
}
