//! Decision 0004, row by row: which of the caller's locks a heartbeat or an unlock means, and what it hears if there is none.
//!
//! The caller is always Alice, on document 0.

use super::{assert_nothing_happened, decide_now};
use crate::locking::{
    Command, Done, EndReason, Extend, Lock, Named, Outcome, Refusal, Unlock,
    testing::{
        DAY_MS, StateBuilder,
        commands::{extend, release, unlock},
        samples::{lease, session},
        state,
    },
};

struct Row {
    says: &'static str,
    state: StateBuilder,
    named: Named,
    hears: Hears,
}

#[derive(Debug, Clone, PartialEq)]
enum Hears {
    /// The lock with this number is meant.
    Lock(u128),
    Ended(EndReason),
    Mismatch,
    NotOwner,
    NotFound,
}

use EndReason::{Expired, HandedOver, Released, Revoked, TakenOver};
use Hears::{Ended, Mismatch, NotFound, NotOwner};

fn nothing() -> Named {
    Named::default()
}

fn by_lease(number: u128) -> Named {
    Named { lease_id: Some(lease(number)), ..nothing() }
}

fn by_session(name: &str) -> Named {
    Named { session: Some(session(name)), ..nothing() }
}

fn by_both(number: u128, name: &str) -> Named {
    Named { session: Some(session(name)), ..by_lease(number) }
}

fn by_hold(hold: u32) -> Named {
    Named { hold: Some(hold), ..nothing() }
}

fn alice() -> StateBuilder {
    state().held_by("alice")
}

fn row(says: &'static str, state: StateBuilder, named: Named, hears: Hears) -> Row {
    Row { says, state, named, hears }
}

fn step_1_a_live_lock_that_fits() -> Vec<Row> {
    let beside_bob = || state().held_by("bob").session("tab").held_by("alice").session("tab");
    let two = || alice().session("tab").held_by("alice").session("other");
    vec![
        row("nothing named, one lock without session", alice(), nothing(), Hears::Lock(1)),
        row("nothing named, beside another owner", state().held_by("bob").held_by("alice"), nothing(), Hears::Lock(2)),
        row("its lease", alice(), by_lease(1), Hears::Lock(1)),
        row("its session", alice().session("tab"), by_session("tab"), Hears::Lock(1)),
        row("its hold", alice().hold(2), by_hold(2), Hears::Lock(1)),
        row("lease and session", alice().session("tab"), by_both(1, "tab"), Hears::Lock(1)),
        row("a session that another owner has too", beside_bob(), by_session("tab"), Hears::Lock(2)),
        row("one of several by lease", two(), by_lease(2), Hears::Lock(2)),
        row("one of several by session", two(), by_session("other"), Hears::Lock(2)),
        row("a lingering lock is live", alice().lingering(), nothing(), Hears::Lock(1)),
        row("nothing named, the other one is overdue", alice().overdue().held_by("alice"), nothing(), Hears::Lock(2)),
        row("until its last millisecond", alice().left_ms(1), by_lease(1), Hears::Lock(1)),
    ]
}

fn step_2_a_named_lease_that_ended() -> Vec<Row> {
    let ended = |reason| alice().that_ended(reason, 1000);
    let long_ago = |ago_ms| alice().that_ended(Expired, ago_ms);
    let bobs = state().held_by("bob").that_ended(Released, 1000);
    vec![
        row("released", ended(Released), by_lease(1), Ended(Released)),
        row("expired", ended(Expired), by_lease(1), Ended(Expired)),
        row("taken over", ended(TakenOver), by_lease(1), Ended(TakenOver)),
        row("revoked", ended(Revoked), by_lease(1), Ended(Revoked)),
        row("handed over", ended(HandedOver), by_lease(1), Ended(HandedOver)),
        row("whoever holds it now", ended(TakenOver).held_by("bob"), by_lease(1), Ended(TakenOver)),
        row("before the caller's own live lock", ended(Revoked).held_by("alice"), by_lease(1), Ended(Revoked)),
        row("overdue, noticed only now", alice().overdue(), by_lease(1), Ended(Expired)),
        row("lingered to its end, noticed only now", alice().lingering().overdue(), by_lease(1), Ended(Released)),
        row("as long as the log remembers", long_ago(30 * DAY_MS - 1), by_lease(1), Ended(Expired)),
        row("but no longer", long_ago(30 * DAY_MS), by_lease(1), NotFound),
        row("somebody else's lease", bobs.clone(), by_lease(1), NotFound),
        row("somebody else's lease, held again", bobs.held_by("bob"), by_lease(1), NotOwner),
    ]
}

fn step_3_names_that_do_not_fit_the_live_lock() -> Vec<Row> {
    let session_ended = alice().session("old").that_ended(Expired, 1000).held_by("alice").session("tab");
    vec![
        row("nothing named, but it has a session", alice().session("tab"), nothing(), Mismatch),
        row("nothing named, but there are two", alice().held_by("alice"), nothing(), Mismatch),
        row("another lease", alice(), by_lease(9), Mismatch),
        row("another session", alice().session("tab"), by_session("other"), Mismatch),
        row("a session, but it has none", alice(), by_session("tab"), Mismatch),
        row("its lease, another session", alice().session("tab"), by_both(1, "other"), Mismatch),
        row("an older hold", alice().hold(2), by_hold(1), Mismatch),
        row("its lease, a hold yet to come", alice(), Named { hold: Some(2), ..by_lease(1) }, Mismatch),
        row("another lease, its session", alice().session("tab"), by_both(9, "tab"), Mismatch),
        row("before a named session that ended", session_ended, by_session("old"), Mismatch),
        row("before somebody else's", state().held_by("bob").held_by("alice"), by_lease(9), Mismatch),
    ]
}

fn step_4_a_named_session_that_ended() -> Vec<Row> {
    let ended = |ago_ms| alice().session("tab").that_ended(Expired, ago_ms);
    let twice = ended(2000).held_by("alice").session("tab").that_ended(Released, 1000);
    vec![
        row("on a free document", ended(1000), by_session("tab"), Ended(Expired)),
        row("whoever holds it now", ended(1000).held_by("bob"), by_session("tab"), Ended(Expired)),
        row("its last lock counts", twice, by_session("tab"), Ended(Released)),
        row("overdue, noticed only now", alice().session("tab").overdue(), by_session("tab"), Ended(Expired)),
        row("within a day", ended(DAY_MS - 1), by_session("tab"), Ended(Expired)),
        row("a day ago", ended(DAY_MS), by_session("tab"), NotFound),
        row("a day ago, held by another", ended(DAY_MS).held_by("bob"), by_session("tab"), NotOwner),
        row("another session", ended(1000), by_session("other"), NotFound),
    ]
}

fn step_5_somebody_elses_or_nobodys() -> Vec<Row> {
    let bob = || state().held_by("bob").session("tab");
    vec![
        row("unknown lease, held by another", bob(), by_lease(9), NotOwner),
        row("another's lease", bob(), by_lease(1), NotOwner),
        row("another's session", bob(), by_session("tab"), NotOwner),
        row("unknown lease, free", state(), by_lease(9), NotFound),
        row("unknown session, free", state(), by_session("tab"), NotFound),
        row("another's overdue lock refuses nobody", bob().overdue(), by_session("tab"), NotFound),
    ]
}

fn with_nothing_named_the_document_is_meant() -> Vec<Row> {
    let ended = |ago_ms| alice().that_ended(Revoked, ago_ms);
    let expired_last = || alice().left_ms(-1).held_by("alice").lingering().left_ms(-2);
    let lingered_last = || alice().left_ms(-2).held_by("alice").lingering().left_ms(-1);
    vec![
        row("of two overdue locks the last to end", expired_last(), nothing(), Ended(Expired)),
        row("of two overdue locks the last to end", lingered_last(), nothing(), Ended(Released)),
        row("somebody else's before how it ended", ended(1000).held_by("bob"), nothing(), NotOwner),
        row("free: how the caller's last lock ended", ended(1000), nothing(), Ended(Revoked)),
        row("overdue, noticed only now", alice().overdue(), nothing(), Ended(Expired)),
        row("the lock had a session", alice().session("tab").overdue(), nothing(), Ended(Expired)),
        row("within a day", ended(DAY_MS - 1), nothing(), Ended(Revoked)),
        row("a day ago", ended(DAY_MS), nothing(), NotFound),
        row("never held", state(), nothing(), NotFound),
        row("held by another", state().held_by("bob"), nothing(), NotOwner),
        row("another's overdue lock refuses nobody", state().held_by("bob").overdue(), nothing(), NotFound),
    ]
}

fn check(rows: Vec<Row>) {
    for Row { says, state, named, hears } in rows {
        let heartbeat = Extend { named: named.clone(), ..extend("alice") };
        let goodbye = Unlock { named: named.clone(), ..unlock("alice") };
        assert_eq!(heard(&state, heartbeat.into()), hears, "heartbeat, {says}");
        assert_eq!(heard(&state, goodbye.into()), hears, "unlock, {says}");
        if let Named { lease_id: Some(lease_id), session: None, hold: None } = named {
            assert_eq!(heard(&state, release("alice", lease_id.as_u128()).into()), hears, "release, {says}");
        }
    }
}

fn heard(state: &StateBuilder, command: Command) -> Hears {
    let before = state.clone().build();
    let decision = decide_now(&before, command);
    if !decision.outcome.failed.is_empty() {
        assert_nothing_happened(&decision, "refused");
    }
    let Outcome { done, failed } = decision.outcome;
    match (done.first(), failed.first().map(|failed| &failed.refusal)) {
        (Some(Done::Live { lock, .. }), None) => Hears::Lock(lock.lease_id.as_u128()),
        (Some(Done::Ended { fencing_token, .. }), None) => {
            let is_it = |lock: &&Lock| lock.fencing_token == *fencing_token;
            Hears::Lock(before.locks.values().flatten().find(is_it).unwrap().lease_id.as_u128())
        }
        (None, Some(Refusal::Ended(reason))) => Ended(*reason),
        (None, Some(Refusal::Mismatch)) => Mismatch,
        (None, Some(Refusal::NotOwner { .. })) => NotOwner,
        (None, Some(Refusal::NotFound)) => NotFound,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ls_inv_003_a_live_lock_that_fits_what_is_named_is_meant() {
    check(step_1_a_live_lock_that_fits());
}

#[test]
fn ls_inv_004_a_named_lease_that_ended_is_answered_with_how() {
    check(step_2_a_named_lease_that_ended());
}

#[test]
fn names_that_do_not_fit_the_callers_live_lock_are_a_mismatch() {
    check(step_3_names_that_do_not_fit_the_live_lock());
}

#[test]
fn ls_inv_004_a_named_session_that_ended_within_a_day_is_answered_with_how() {
    check(step_4_a_named_session_that_ended());
}

#[test]
fn otherwise_the_document_is_somebody_elses_or_nobodys() {
    check(step_5_somebody_elses_or_nobodys());
}

#[test]
fn with_nothing_named_somebody_elses_lock_comes_before_how_ones_own_ended() {
    check(with_nothing_named_the_document_is_meant());
}
