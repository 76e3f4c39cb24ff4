//! LS-INV-001: never more live locks than the capacity, by the log, and independently by what clients were told.

use std::collections::HashSet;

use super::{
    Findings, Planted, holds, right,
    samples::{Sample, by, ended, expired, live, request},
    wrong,
};
use crate::{
    history::History,
    log::{Event, Happened, Reason},
    record::{Answer, Name},
    request::{Request, Verb},
};

pub fn check(history: &History) -> Findings {
    let mut findings =
        Findings::of("LS-INV-001: at most capacity live locks, by the log and by what clients were told");
    for key in history.keys() {
        by_the_log(history, key, &mut findings);
    }
    by_the_clients(history, &mut findings);
    findings
}

fn by_the_log(history: &History, key: &Name, findings: &mut Findings) {
    let (mut live, mut capacity) = (HashSet::new(), 1);
    for index in history.events_of(key) {
        let (event, at) = (&history.log[*index], history.committed[*index].not_before);
        if !event.is_lock() {
            live.remove(&event.lease);
            continue;
        }
        if live.is_empty() {
            capacity = asked(history, event);
        }
        live.insert(event.lease);
        findings.check(live.len() <= capacity, key, at, || {
            format!("{} live locks where {capacity} may be: {}", live.len(), event.told())
        });
    }
}

/// The capacity a free document gets: what the request said, or else one; the most anyone said if it is not known which
/// request it was.
fn asked(history: &History, grant: &Event) -> usize {
    let request = grant.tag.and_then(|tag| history.sent_with_tag(tag).next());
    match request {
        Some(call) => call.request.capacity.unwrap_or(1) as usize,
        None => history.largest_capacity(&grant.key),
    }
}

fn by_the_clients(history: &History, findings: &mut Findings) {
    for (key, holds) in holds::all(history) {
        let capacity = history.largest_capacity(&key);
        let holds: Vec<_> = holds.into_iter().filter(holds::Hold::is_certain).collect();
        for hold in &holds {
            let others = holds
                .iter()
                .filter(|other| other.lease != hold.lease && other.from <= hold.from && other.until > hold.from);
            let others: Vec<_> = others.collect();
            findings.check(others.len() < capacity, &key, hold.from, || {
                let told = |hold: &holds::Hold| {
                    format!("{} with token {} from {:?} until {:?}", hold.owner, hold.token, hold.from, hold.until)
                };
                let others: Vec<_> = others.iter().map(|other| told(other)).collect();
                format!("held for certain by {}, and also by {}", told(hold), others.join(", "))
            });
        }
    }
}

pub fn planted() -> Vec<Planted> {
    let one = || Sample::default().granted("ann", 1, 0..5, 1000);
    let end = |sample: Sample| sample.event(900, "ann", 1, expired());
    let lost = Request { ttl_seconds: Some(1), ..request(Verb::Unlock) };
    let takeover = || Request { takeover: true, ..request(Verb::Lock) };
    let semaphore = |capacity| {
        let wish = |tag| Request { capacity: Some(capacity), tag: Some(tag), ..request(Verb::Lock) };
        let granted = |sample: Sample, owner, number| {
            let answer = live(owner, u128::from(number), 1000);
            sample.call(owner, wish(number), 0..5, answer).event(0, owner, u128::from(number), Happened::Locked)
        };
        granted(granted(Sample::default(), "ann", 1), "ben", 2).history()
    };
    vec![
        right("one after the other", check, end(one()).granted("ben", 2, 1100..1105, 1000).history()),
        wrong("two by the log", check, one().event(7, "ben", 2, Happened::Locked).history()),
        wrong(
            "two by what they were told, one by the log",
            check,
            end(one()).granted("ben", 2, 500..505, 1000).history(),
        ),
        right("unlocked by an answer that was lost", check, {
            end(one().call("ann", lost.clone(), 100..101, Answer::Lost)).granted("ben", 2, 500..505, 1000).history()
        }),
        right(
            "unlocked",
            check,
            end(one().call("ann", lost, 100..101, ended(1))).granted("ben", 2, 500..505, 9).history(),
        ),
        wrong("extended by a heartbeat", check, {
            let extended = one().call("ann", request(Verb::Heartbeat), 900..905, live("ann", 1, 1000));
            end(extended).granted("ben", 2, 1500..1505, 1000).history()
        }),
        right("shortened by a heartbeat that was lost", check, {
            let shortened = Sample::default().granted("ann", 1, 0..5, 5000);
            let shortened = shortened.call("ann", request(Verb::Heartbeat), 100..105, Answer::Lost);
            end(shortened).granted("ben", 2, 1500..1505, 1000).history()
        }),
        right("taken over", check, {
            let taken = one().event(500, "ann", 1, by(Reason::TakenOver, "ben"));
            taken.call("ben", takeover(), 500..505, live("ben", 2, 9)).event(500, "ben", 2, Happened::Locked).history()
        }),
        right("a full semaphore", check, semaphore(2)),
        wrong("a semaphore that is too full", check, semaphore(1)),
    ]
}
