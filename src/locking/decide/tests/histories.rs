//! Histories by chance: `decide` and `apply` against the model.

use std::{cell::RefCell, collections::BTreeMap};

use proptest::{
    prelude::*,
    test_runner::{FileFailurePersistence, TestRunner},
};

use super::every_refusal;
use crate::locking::{
    AskOutcome, Command, DocumentKey, Done, EndReason, Event, EventKind, Expire, Timestamp,
    testing::{
        core::{Came, Core},
        history::{Act, History, history, keys, long_pauses},
        model::{Model, ToldEvent},
        samples::NOW,
    },
};

/// What was met in all histories, and how often.
type Met = BTreeMap<&'static str, u32>;

#[test]
fn ls_inv_001_to_004_hold_in_ten_thousand_histories() {
    let config = ProptestConfig {
        cases: 10_000,
        source_file: Some(file!()),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    };
    let met = RefCell::new(Met::new());
    let checked = TestRunner::new(config)
        .run(&history(long_pauses()), |history| check(&history, &mut met.borrow_mut()).map_err(TestCaseError::fail));
    if let Err(failure) = checked {
        panic!("{failure}");
    }
    let met = met.into_inner();
    let answers = [
        "granted",
        "resumed",
        "repeated",
        "extended",
        "lingers",
        "saved",
        "waits",
        "waits on",
        "served",
        "claimed",
        "left",
        "asked",
        "asked again",
        "gone",
        "dead",
    ];
    let reasons = EndReason::ALL.into_iter().map(EndReason::name);
    let outcomes = AskOutcome::ALL.into_iter().map(AskOutcome::name);
    let expected = every_refusal::VARIANTS.iter().copied().chain(answers).chain(reasons).chain(outcomes);
    for name in expected {
        assert!(met.get(name).is_some_and(|count| *count >= 100), "{name} was hardly ever met: {met:?}");
    }
}

fn check(history: &History, met: &mut Met) -> Result<(), String> {
    let (mut core, mut model, mut now) = (Core::new(history.policy()), Model::new(history.policy()), NOW);
    let everything = Act::Decide(Command::Expire(Expire { keys: keys() }));
    let (mut play, mut is_over) = (history.play(), false);
    while !is_over {
        let (after_ms, act) = play.next(&core, now).unwrap_or_else(|| {
            is_over = true;
            (0, everything.clone())
        });
        now = now.plus_millis(after_ms.into());
        let (came, expected) = (core.act(&act, now), model.act(&act, now));
        if came != expected {
            return Err(format!("of {act:#?}\ncame {came:#?}\ninstead of {expected:#?}"));
        }
        tally(&act, &came, met);
        if core.open_asks() != model.open_asks() {
            return Err(format!("{act:#?}\nleft {:#?}\ninstead of {:#?}", core.open_asks(), model.open_asks()));
        }
        for key in keys() {
            let left = (core.live(&key, now), core.line(&key, now));
            let expected = (model.live(&key), model.waiting(&key));
            if left != expected {
                return Err(format!("{act:#?}\nleft {left:#?}\ninstead of {expected:#?}"));
            }
            check_slots(&core, &key, now).map_err(|reason| format!("{reason} after {act:#?}"))?;
        }
    }
    for key in keys() {
        let told: Vec<_> = core.events.iter().filter(|event| event.lock.key == key).map(ToldEvent::by).collect();
        let expected = model.log_of(&key);
        if told != expected {
            return Err(format!("the log tells {told:#?}\ninstead of {expected:#?}"));
        }
    }
    core.events.iter().for_each(|event| tally_event(event, met));
    Ok(())
}

/// What must hold of every document at any time, said once more without the model: as many live locks as there may be at
/// most, each in a slot of its own, and as many as that while anyone waits, as soon as what is overdue has been noticed.
fn check_slots(core: &Core, key: &DocumentKey, now: Timestamp) -> Result<(), String> {
    let (live, capacity) = (core.live(key, now), core.state.documents[key].capacity);
    let mut slots: Vec<_> = live.iter().map(|lock| lock.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    if slots.len() != live.len() || slots.iter().any(|slot| *slot >= capacity) {
        return Err(format!("{live:#?} are too many for {capacity}"));
    }
    let is_noticed = core.state.locks_of(key).len() == live.len();
    let line = core.line(key, now);
    if is_noticed && !line.is_empty() && live.len() < capacity as usize {
        return Err(format!("a slot is free while {line:?} wait"));
    }
    Ok(())
}

fn tally(act: &Act, came: &Came, met: &mut Met) {
    let mut count = |name| *met.entry(name).or_default() += 1;
    let (command, outcome) = match (act, came) {
        (Act::Decide(command), Came::Decided(outcome)) => (command, outcome),
        (_, Came::Gone(gone)) => return gone.iter().for_each(|_| count("gone")),
        (_, Came::Deleted(deleted)) => return (0..*deleted).for_each(|_| count("dead")),
        (_, Came::Decided(_)) => return,
    };
    outcome.failed.iter().for_each(|failed| count(every_refusal::name(&failed.refusal)));
    outcome.done.iter().filter_map(|done| what(command, done)).for_each(count);
}

fn what(command: &Command, done: &Done) -> Option<&'static str> {
    Some(match (command, done) {
        (Command::Lock(_), Done::Live { resumed: true, .. }) => "resumed",
        (Command::Lock(asked), Done::Live { lock, .. }) => {
            let is_new = asked.wanted.iter().any(|wanted| wanted.lease_id == lock.lease_id);
            if is_new { "granted" } else { "repeated" }
        }
        (Command::Lock(asked), Done::Waiting { ticket, .. }) => {
            if asked.wanted[0].lease_id == ticket.lease_id {
                "waits"
            } else {
                "waits on"
            }
        }
        (Command::Extend(_), Done::Live { .. }) => "extended",
        (Command::Release(_), Done::Live { .. }) => "lingers",
        (Command::Renew(_), Done::Live { .. }) => "claimed",
        (_, Done::LeftLine) => "left",
        (Command::Ask(asked), Done::Asked(ask)) => {
            if asked.id == ask.id {
                "asked"
            } else {
                "asked again"
            }
        }
        _ => return None,
    })
}

fn tally_event(event: &Event, met: &mut Met) {
    let name = match &event.kind {
        EventKind::Locked { waited_ms: Some(_) } => "served",
        EventKind::Locked { waited_ms: None } | EventKind::HandoverAsked(_) => return,
        EventKind::Unlocked { reason, .. } => reason.name(),
        EventKind::Saved => "saved",
        EventKind::HandoverAnswered(ask) => ask.outcome.map_or("open", AskOutcome::name),
    };
    *met.entry(name).or_default() += 1;
}
