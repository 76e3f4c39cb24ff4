//! Every way a rule says no, with what it tells.

use super::{assert_nothing_happened, decide_now};
use crate::locking::{
    AnswerAsk, AskOutcome, Command, EndReason, Extend, Failed, LockDocuments, Named, Refusal, Release, TakeOver,
    Unlock,
    testing::{
        StateBuilder,
        commands::{
            ask, cancel_ask, deny, extend, force_unlock, leave_line, lock, other_request, release, renew, take_over,
            unlock, wait, wanted,
        },
        samples::{NOW, key, lease, session},
        state,
    },
};

macro_rules! variants {
    ($($Variant:ident)+) => {
        pub(super) const VARIANTS: &[&str] = &[$(stringify!($Variant)),+];

        pub(super) fn name(refusal: &Refusal) -> &'static str {
            match refusal {
                $(Refusal::$Variant { .. } => stringify!($Variant),)+
            }
        }
    };
}

// A new refusal does not compile until it is in this list, and the list fails until the table below has it.
variants! {
    Held NotFound NotOwner Ended Mismatch CapacityMismatch RequestIdReused TakeOverForbidden LimitReached TooManyWaits
    AskedTooSoon AskNotFound
}

struct Row {
    says: &'static str,
    state: StateBuilder,
    command: Command,
    hears: Refusal,
}

fn row(says: &'static str, state: StateBuilder, command: impl Into<Command>, hears: Refusal) -> Row {
    Row { says, state, command: command.into(), hears }
}

/// Shows the lock that was built last.
fn held(state: &StateBuilder, is_you: bool, free_in_ms: i64) -> Refusal {
    Refusal::Held { lock: Box::new(state.lock()), is_you, free_at: NOW.plus_millis(free_in_ms) }
}

fn with_session(name: &str) -> LockDocuments {
    let mut command = lock("alice");
    command.holder.session = Some(session(name));
    command
}

fn locking() -> Vec<Row> {
    let bob = || state().held_by("bob");
    let alice = || state().held_by("alice").session("tab");
    let full = || bob().left_ms(9000).held_by("carol").left_ms(4000);
    let with_own = || bob().left_ms(4000).held_by("alice").left_ms(9000);
    let two = LockDocuments { capacity: Some(2), ..lock("alice") };
    vec![
        row("LS-ACQ-001 somebody holds it", bob(), lock("alice"), held(&bob(), false, 5000)),
        row("it is the caller, without session", alice(), lock("alice"), held(&alice(), true, 5000)),
        row("it is the caller, in another session", alice(), with_session("other"), held(&alice(), true, 5000)),
        row("of several the first to end is shown", full(), lock("alice"), held(&full(), false, 4000)),
        row("but the caller's own before it", with_own(), lock("alice"), held(&with_own(), true, 4000)),
        row("another capacity", bob(), two, Refusal::CapacityMismatch { in_force: 1 }),
    ]
}

fn taking_over() -> Vec<Row> {
    let bob = || state().held_by("bob").token(3);
    let by = |takeover| LockDocuments { takeover: Some(takeover), ..lock("alice") };
    let expecting = |token| TakeOver { expected_token: Some(token), ..take_over() };
    let oldest = || state().held_by("bob");
    let forbidden = |lock| Refusal::TakeOverForbidden { lock: Box::new(lock) };
    vec![
        row("of another without the right", bob(), by(take_over()), forbidden(bob().lock())),
        row("of another by its token, without the right", bob(), by(expecting(3)), forbidden(bob().lock())),
        row("of the oldest", oldest().held_by("carol"), by(take_over()), forbidden(oldest().lock())),
        row("of a lock that is not there any more", bob(), by(expecting(2)), held(&bob(), false, 5000)),
    ]
}

fn limits() -> Vec<Row> {
    let one = || state().document(1).held_by("alice").locks_per_owner(1);
    let both = LockDocuments { wanted: vec![wanted(0), wanted(1)], ..lock("alice") };
    vec![
        row("as many as allowed", one(), lock("alice"), Refusal::LimitReached { limit: 1 }),
        row("several at once", state().locks_per_owner(1), both, Refusal::LimitReached { limit: 1 }),
    ]
}

fn requests() -> Vec<Row> {
    let got = || state().held_by("alice").got_by_request("r");
    let other = || Some(other_request("r"));
    let reused = || Refusal::RequestIdReused;
    vec![
        row("another lock", got(), LockDocuments { request: other(), ..lock("alice") }, reused()),
        row("another heartbeat", got(), Extend { request: other(), ..extend("alice") }, reused()),
        row("another unlock", got(), Unlock { request: other(), ..unlock("alice") }, reused()),
    ]
}

/// Which of these it is stands in `which_refusal.rs`; here is what they tell.
fn of_a_heartbeat_or_an_unlock() -> Vec<Row> {
    let bob = || state().held_by("bob");
    let not_owner = || Refusal::NotOwner { lock: Box::new(bob().lock()) };
    let alice = || state().held_by("alice");
    let ended = |reason| Refusal::Ended(reason);
    let other = Named { lease_id: Some(lease(9)), ..Named::default() };
    vec![
        row("nobody's", state(), extend("alice"), Refusal::NotFound),
        row("nobody's", state(), unlock("alice"), Refusal::NotFound),
        row("somebody else's", bob(), extend("alice"), not_owner()),
        row("the oldest is shown", bob().held_by("carol"), unlock("alice"), not_owner()),
        row("a page that is back already", alice().hold(2), release("alice", 1), Refusal::Mismatch),
        row("a hold yet to come", alice(), Release { hold: 2, ..release("alice", 1) }, Refusal::Mismatch),
        row("another lease", alice(), Extend { named: other, ..extend("alice") }, Refusal::Mismatch),
        row("LS-INV-004 an overdue lock", alice().overdue(), extend("alice"), ended(EndReason::Expired)),
        row("a lock that lingered", alice().lingering().overdue(), unlock("alice"), ended(EndReason::Released)),
    ]
}

fn by_an_admin() -> Vec<Row> {
    vec![
        row("unknown lease", state().held_by("alice"), force_unlock(9), Refusal::NotFound),
        row("overdue", state().held_by("alice").overdue(), force_unlock(1), Refusal::NotFound),
    ]
}

fn in_line() -> Vec<Row> {
    let bob = || state().held_by("bob");
    let waiting = || bob().waited_for_by("alice");
    let elsewhere = || bob().document(1).held_by("carol").waited_for_by("alice").waits_per_owner(1);
    let at_limit = || bob().document(1).held_by("alice").locks_per_owner(1);
    let with_id = LockDocuments { request: Some(other_request("r")), ..wait("alice") };
    let wanted = || bob().wanted_lock();
    let held = Refusal::Held { lock: Box::new(wanted()), is_you: false, free_at: NOW.plus_millis(5000) };
    vec![
        row("a newcomer that does not wait", bob().waited_for_by("carol"), lock("alice"), held),
        row("waits in too many lines", elsewhere(), wait("alice"), Refusal::TooManyWaits { limit: 1 }),
        row("may not get one more lock", at_limit(), wait("alice"), Refusal::LimitReached { limit: 1 }),
        row("leaves with a dead ticket", waiting().dead(), leave_line("alice", 1), Refusal::NotFound),
        row("renews a lock whose page said goodbye", bob().lingering(), renew(1), Refusal::NotFound),
        row("waits with another request's id", waiting().by_request("r"), with_id, Refusal::RequestIdReused),
        row("leaves a line it is not in", bob(), leave_line("alice", 1), Refusal::NotFound),
        row("leaves for somebody else", waiting(), leave_line("carol", 1), Refusal::NotFound),
        row("leaves with a lock it has claimed", state().held_by("alice"), leave_line("alice", 1), Refusal::NotFound),
        row("renews what is not there", bob(), renew(9), Refusal::NotFound),
    ]
}

fn asking() -> Vec<Row> {
    let bob = || state().held_by("bob");
    let asked = |ago_ms| bob().asked_for_by("alice").asked_ms_ago(ago_ms).that_was(AskOutcome::Denied);
    let too_soon = |again_in_ms| Refusal::AskedTooSoon { again_at: NOW.plus_millis(again_in_ms) };
    vec![
        row("nobody holds it", state(), ask("alice"), Refusal::NotFound),
        row("asked just now", asked(0), ask("alice"), too_soon(10_000)),
        row("asked within ten seconds", asked(9999), ask("alice"), too_soon(1)),
    ]
}

fn answering() -> Vec<Row> {
    let asked = || state().held_by("alice").session("tab").asked_for_by("bob");
    let other = Named { session: Some(session("other")), ..Named::default() };
    vec![
        row("no such ask", asked(), deny("alice", 9), Refusal::AskNotFound),
        row("somebody else answers", asked(), deny("bob", 1), Refusal::AskNotFound),
        row("another tab answers", asked(), AnswerAsk { named: other, ..deny("alice", 1) }, Refusal::Mismatch),
        row("no such ask to take back", asked(), cancel_ask("bob", 9), Refusal::AskNotFound),
        row("somebody else takes it back", asked(), cancel_ask("alice", 1), Refusal::AskNotFound),
    ]
}

fn table() -> Vec<Row> {
    let all = [
        locking(),
        taking_over(),
        limits(),
        requests(),
        of_a_heartbeat_or_an_unlock(),
        by_an_admin(),
        in_line(),
        asking(),
        answering(),
    ];
    all.into_iter().flatten().collect()
}

#[test]
fn every_refusal_tells_what_it_should_and_changes_nothing() {
    for Row { says, state, command, hears } in table() {
        let decision = decide_now(&state.clone().build(), command.clone());
        let says = format!("{says}: {command:?} on {state:?}");
        assert_nothing_happened(&decision, &says);
        assert_eq!(decision.outcome.done, [], "{says}");
        assert_eq!(decision.outcome.failed.into_iter().last().map(|failed| failed.refusal), Some(hears), "{says}");
    }
}

#[test]
fn every_refusal_is_in_the_table() {
    let rows = table();
    for variant in VARIANTS {
        assert!(rows.iter().any(|row| name(&row.hears) == *variant), "{variant} has no row");
    }
}

#[test]
fn several_documents_are_locked_all_or_nothing_and_each_that_failed_is_told() {
    let before = state().document(1).held_by("bob").document(2).held_by("carol").overdue();
    let command = LockDocuments { wanted: [0, 1, 2].map(wanted).into(), ..lock("alice") };
    let decision = decide_now(&before.clone().build(), command);
    assert_nothing_happened(&decision, "all or nothing");
    assert_eq!(decision.changes.len(), 1, "Carol's overdue lock ends all the same");
    let bobs = state().document(1).held_by("bob");
    assert_eq!(decision.outcome.failed, [Failed { key: key(1), refusal: held(&bobs, false, 5000) }]);
}
