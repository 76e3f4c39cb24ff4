//! `decide` on states made by hand and by chance.

mod asks;
mod every_refusal;
mod histories;
mod line;
mod named_twice;
mod requests;
mod which_refusal;

use super::decide;
use crate::locking::{
    Change, Command, Decision, EventKind, Lock, LockDocuments, NotRead, State, Timestamp,
    names::DocumentVersion,
    testing::{
        StateBuilder,
        commands::{extend, lock, wanted},
        samples::{NOW, key},
        state,
    },
};

fn decide_now(state: &State, command: impl Into<Command>) -> Decision {
    decide(&mut state.clone(), &command.into(), NOW).unwrap()
}

/// Fails unless all that happened is that overdue locks ended.
fn assert_nothing_happened(decision: &Decision, why: &str) {
    let is_expiry = |change: &Change| matches!(change, Change::End { lock, .. } if !lock.is_live(NOW));
    assert!(decision.changes.iter().all(is_expiry), "{why}: {:?}", decision.changes);
    assert_eq!(decision.events.len(), decision.changes.len(), "{why}");
}

fn granted(decision: &Decision) -> Vec<&Lock> {
    let grants = decision.changes.iter().filter_map(|change| match change {
        Change::Grant(lock) => Some(lock),
        _ => None,
    });
    grants.collect()
}

/// The state once the command is decided.
fn after(state: StateBuilder, command: impl Into<Command>, now: Timestamp) -> State {
    let mut state = state.build();
    decide(&mut state, &command.into(), now).unwrap();
    state
}

/// What happened and whose lock it was about, in the order of the log.
fn events(decision: &Decision) -> Vec<String> {
    let told = decision.events.iter().map(|event| {
        let what = match &event.kind {
            EventKind::Locked { .. } => "locked",
            EventKind::Unlocked { .. } => "unlocked",
            EventKind::Saved => "saved",
            EventKind::HandoverAsked(_) => "asked",
            EventKind::HandoverAnswered(ask) => ask.outcome.unwrap().name(),
        };
        format!("{what} {}", event.lock.holder.owner)
    });
    told.collect()
}

#[test]
fn nothing_is_granted_on_a_document_that_was_not_read() {
    let mut state = state().document(1).held_by("alice").build();
    state.documents.remove(&key(1));
    let both = LockDocuments { wanted: vec![wanted(0), wanted(1)], ..lock("bob") };
    assert_eq!(decide(&mut state, &both.into(), NOW), Err(NotRead(key(1))));
}

#[test]
fn ls_inv_002_a_grant_gets_the_next_token_of_its_document() {
    for (before, expected) in [
        (state(), 1),
        (state().held_by("alice").token(7).overdue(), 8),
        (state().held_by("alice").token(1).capacity(2), 2),
    ] {
        let decision = decide_now(&before.clone().build(), lock("bob"));
        let tokens: Vec<_> = granted(&decision).iter().map(|lock| lock.fencing_token).collect();
        assert_eq!(tokens, [expected], "{before:?}");
    }
}

#[test]
fn overdue_locks_end_in_the_order_in_which_their_time_ran_out() {
    let before = state().held_by("alice").left_ms(-1).held_by("alice").left_ms(-3).held_by("bob").left_ms(-2);
    let decision = decide_now(&before.build(), extend("alice"));
    let tokens: Vec<_> = decision.events.iter().map(|event| event.lock.fencing_token).collect();
    assert_eq!(tokens, [2, 3, 1]);
}

#[test]
fn a_grant_answers_the_version_that_the_holder_before_it_left() {
    let command = LockDocuments { document_version: Some(DocumentVersion::from_stored("mine")), ..lock("bob") };
    for (before, expected) in [(state().version("left"), "left"), (state(), "mine")] {
        let decision = decide_now(&before.build(), command.clone());
        let versions: Vec<_> = granted(&decision).iter().map(|lock| lock.document_version.clone()).collect();
        assert_eq!(versions, [Some(DocumentVersion::from_stored(expected))]);
    }
}
