//! Histories by chance: `decide` and `apply` against the model.

use std::{cell::RefCell, collections::BTreeMap};

use proptest::{
    prelude::*,
    test_runner::{FileFailurePersistence, TestRunner},
};

use super::every_refusal;
use crate::locking::{
    Command, Done, EndReason, Event, EventKind, Expire, Outcome, Policy, Refusal,
    testing::{
        core::{Core, seen},
        history::{History, history, keys, long_pauses},
        model::{Known, Model},
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
    // The histories know neither lines nor asks yet.
    let reasons = EndReason::ALL.into_iter().filter(|reason| *reason != EndReason::HandedOver).map(EndReason::name);
    let answers = ["granted", "resumed", "repeated", "extended", "lingers"];
    let is_new = |name: &&str| ["TooManyWaits", "AskedTooSoon", "AskNotFound"].contains(name);
    let refusals = every_refusal::VARIANTS.iter().copied().filter(|name| !is_new(name));
    let expected = refusals.chain(answers).chain(reasons);
    for name in expected {
        assert!(met.get(name).is_some_and(|count| *count >= 100), "{name} was hardly ever met: {met:?}");
    }
}

fn check(history: &History, met: &mut Met) -> Result<(), String> {
    let policy = Policy { locks_per_owner: history.locks_per_owner, ..Policy::default() };
    let (mut core, mut model, mut now) = (Core::new(policy), Model::new(policy), NOW);
    let everything = Command::Expire(Expire { keys: keys() });
    let commands = history.commands();
    for (after_ms, command) in commands.iter().chain([&(0, everything)]) {
        now = now.plus_millis((*after_ms).into());
        let answered = as_seen(core.commit(command, now));
        let expected = model.answer(command, now);
        if answered != expected {
            return Err(format!("{command:#?}\nwas answered {answered:#?}\ninstead of {expected:#?}"));
        }
        tally(command, &answered, met);
        for key in keys() {
            let live = core.live(&key, now);
            let expected = model.live(&key);
            if live != expected {
                return Err(format!("{command:#?}\nleft {live:#?}\ninstead of {expected:#?}"));
            }
        }
    }
    for known in &model.locks {
        check_log(known, &core.events)?;
        if let Some(ending) = &known.ended {
            *met.entry(ending.reason.name()).or_default() += 1;
        }
    }
    Ok(())
}

fn tally(command: &Command, outcome: &Outcome, met: &mut Met) {
    let refused = outcome.failed.iter().map(|failed| every_refusal::name(&failed.refusal));
    let done = outcome.done.iter().filter_map(|done| match (command, done) {
        (Command::Lock(_), Done::Live { resumed: true, .. }) => Some("resumed"),
        (Command::Lock(asked), Done::Live { lock, .. }) => {
            let is_new = asked.wanted.iter().any(|wanted| wanted.lease_id == lock.lease_id);
            Some(if is_new { "granted" } else { "repeated" })
        }
        (Command::Extend(_), Done::Live { .. }) => Some("extended"),
        (Command::Release(_), Done::Live { .. }) => Some("lingers"),
        _ => None,
    });
    for name in refused.chain(done) {
        *met.entry(name).or_default() += 1;
    }
}

/// Each lock begins once and ends once, and the log says how.
fn check_log(known: &Known, log: &[Event]) -> Result<(), String> {
    let of_lock = log.iter().filter(|event| event.lock.lease_id == known.lock.lease_id);
    let told: Vec<_> = of_lock
        .filter_map(|event| match &event.kind {
            EventKind::Locked { .. } => Some(None),
            EventKind::Unlocked { reason, .. } => Some(Some(*reason)),
            EventKind::Saved | EventKind::HandoverAsked(_) | EventKind::HandoverAnswered(_) => None,
        })
        .collect();
    let mut expected = vec![None];
    expected.extend(known.ended.iter().map(|ending| Some(ending.reason)));
    if told == expected { Ok(()) } else { Err(format!("the log tells {told:?} of {known:#?}")) }
}

fn as_seen(mut outcome: Outcome) -> Outcome {
    for done in &mut outcome.done {
        if let Done::Live { lock, .. } = done {
            *lock = seen(lock);
        }
    }
    for failed in &mut outcome.failed {
        if let Refusal::Held { lock, .. } | Refusal::NotOwner { lock } | Refusal::TakeOverForbidden { lock } =
            &mut failed.refusal
        {
            **lock = seen(lock);
        }
    }
    outcome
}
