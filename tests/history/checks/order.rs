//! The log itself: gap-free, in the order in which things were seen to happen, its times never turn back, and every lease
//! has one beginning and one end.

use std::collections::HashMap;

use super::{
    Findings, Planted, right,
    samples::{Sample, by, expired, live, request},
    wrong,
};
use crate::{
    history::History,
    log::{Committed, Event, Happened, Reason},
    request::Verb,
};

/// Two servers that work on different documents read the time before either takes its sequence, so their events may stand
/// in the other order; never for longer than a statement may take.
const OVERLAP_MS: i64 = 4000;

pub fn check(history: &History) -> Findings {
    let mut findings = Findings::of("log: gap-free, times never turn back, each lease begins and ends once");
    let mut last: Option<&Event> = None;
    let mut times: HashMap<&str, i64> = HashMap::new();
    let overlap = if history.has_several_servers() { OVERLAP_MS } else { 0 };
    let mut lives: HashMap<_, (&Event, bool)> = HashMap::new();
    for (index, event) in history.log.iter().enumerate() {
        let at = history.committed[index].not_before;
        let mut check =
            |is_so: bool, what: &str| findings.check(is_so, &event.key, at, || format!("{what}: {}", event.told()));
        let (sequence, time) = last.map_or((history.start, i64::MIN), |last| (last.sequence, last.at));
        check(event.sequence == sequence + 1, "sequences have a gap");
        check(event.at >= time.saturating_sub(overlap), "time has turned back");
        let of_the_document = times.insert(&event.key, event.at).unwrap_or(i64::MIN);
        check(event.at >= of_the_document, "time has turned back for the document");
        let Committed { not_before, not_after } = history.committed[index];
        check(not_before <= not_after, "logged after something that was asked for when it had been seen already");
        last = Some(event);
        match (lives.get_mut(&event.lease), event.is_lock()) {
            (None, true) => {
                lives.insert(event.lease, (event, false));
            }
            (Some(_), true) => check(false, "a lease was granted twice"),
            (None, false) => check(false, "a lease ended that was never granted"),
            (Some((lock, has_ended)), false) => {
                check(!*has_ended, "a lease ended twice");
                check(
                    lock.key == event.key && lock.token == event.token && lock.owner == event.owner,
                    "a lease ended as another one's",
                );
                *has_ended = true;
            }
        }
        // By its next event the document is the one's who took it over.
        if let Happened::Ended { reason: Reason::TakenOver, by } = &event.happened {
            let next = history.log.get(index + 1).filter(|next| next.is_lock() && next.key == event.key);
            check(
                next.is_some_and(|next| Some(&next.owner) == by.as_ref()),
                "taken over by someone who did not get it",
            );
        }
        if let Happened::Ended { reason: Reason::Expired, by } = &event.happened {
            check(by.is_none(), "expired by someone");
        }
    }
    for (lock, has_ended) in lives.values() {
        let at = history.calls.last().map_or_else(Default::default, |call| call.settled);
        findings.check(*has_ended, &lock.key, at, || format!("overdue, and never ended: {}", lock.told()));
    }
    findings
}

pub fn planted() -> Vec<Planted> {
    let lived = || Sample::default().event(0, "ann", 1, Happened::Locked);
    let once = || lived().event(1000, "ann", 1, expired());
    vec![
        right("a life", check, once().history()),
        wrong("a gap", check, once().with_sequence(3).history()),
        wrong("time that turns back", check, lived().event(-1, "ann", 1, expired()).history()),
        wrong("an order that was not seen", check, {
            let early = Sample::default().granted("ann", 1, 500..505, 1000).event(500, "ann", 1, expired());
            let late = early.event(501, "ben", 2, Happened::Locked).event(502, "ben", 2, expired());
            late.call("ben", request(Verb::Lock), 0..5, live("ben", 2, 1000)).history()
        }),
        wrong("two ends", check, once().event(1001, "ann", 1, by(Reason::Released, "ann")).history()),
        wrong("two beginnings", check, once().event(1001, "ann", 1, Happened::Locked).history()),
        wrong("no end", check, lived().history()),
        wrong("an end of nothing", check, Sample::default().event(0, "ann", 1, expired()).history()),
        wrong("an end of another's", check, lived().event(9, "ben", 1, expired()).history()),
        wrong("taken over by nobody", check, lived().event(9, "ann", 1, by(Reason::TakenOver, "ben")).history()),
    ]
}
