//! The waiting line: who is served, when, and by what.

use super::{after, decide, decide_now, events, granted};
use crate::locking::{
    CLAIM_MS, Change, Command, Done, EndReason, EventKind, Expire, Extend, LeaveLine, LockDocuments, Refusal, Release,
    Renew, Span, TICKET_MS, TakeOver, Ticket, TicketName,
    testing::{
        StateBuilder,
        commands::{extend, force_unlock, leave_line, lock, release, renew, request, take_over, unlock, wait, wanted},
        samples::{NOW, key, lease, owner, session, ticket_lease},
        state,
    },
};

fn expire() -> Command {
    Expire { keys: vec![key(0)] }.into()
}

fn alice() -> StateBuilder {
    state().held_by("alice")
}

/// Who has the locks of document 0 after the command, oldest first.
fn holders(state: StateBuilder, command: impl Into<Command>) -> Vec<String> {
    let after = after(state, command, NOW);
    after.locks_of(&key(0)).iter().map(|lock| lock.holder.owner.to_string()).collect()
}

/// Who waits for document 0 after the command, the first to be served first.
fn line(state: StateBuilder, command: impl Into<Command>) -> Vec<String> {
    let after = after(state, command, NOW);
    let tickets = after.lines.get(&key(0)).into_iter().flat_map(|line| line.tickets.values());
    tickets.filter(|ticket| ticket.is_live(NOW)).map(|ticket| ticket.holder.owner.to_string()).collect()
}

fn in_session(name: &str, command: LockDocuments) -> LockDocuments {
    let mut command = command;
    command.holder.session = Some(session(name));
    command
}

#[test]
fn whatever_frees_a_lock_gives_it_to_the_line_in_the_same_decision() {
    let taken_back = || LeaveLine { ticket: TicketName::Lease(lease(1)), ..leave_line("alice", 9) };
    let rows: Vec<(&str, StateBuilder, Command)> = vec![
        ("its holder unlocks", alice(), unlock("alice").into()),
        ("its page says goodbye", alice(), release("alice", 1).into()),
        ("an admin ends it", alice(), force_unlock(1).into()),
        ("its time has run out", alice().overdue(), expire()),
        ("its linger has run out", alice().lingering().overdue(), expire()),
        ("nobody has claimed it", alice().unclaimed().overdue(), expire()),
        ("a grant is given up before it is claimed", alice().unclaimed(), taken_back().into()),
        ("its own late heartbeat notices", alice().overdue(), extend("alice").into()),
        ("a renewal notices", alice().overdue(), renew(1).into()),
    ];
    for (says, state, command) in rows {
        let state = state.waited_for_by("bob").waited_for_by("carol");
        let decision = decide_now(&state.clone().build(), command.clone());
        let told = events(&decision);
        assert_eq!(told[told.len() - 2..], ["unlocked alice", "locked bob"], "{says}");
        assert_eq!(holders(state.clone(), command.clone()), ["bob"], "{says}");
        assert_eq!(line(state, command), ["carol"], "{says}");
    }
}

#[test]
fn tickets_are_served_in_the_order_in_which_they_came_and_dead_ones_are_skipped() {
    let first_dead = || alice().waited_for_by("bob").dead().waited_for_by("carol").waited_for_by("dave");
    assert_eq!(holders(first_dead(), unlock("alice")), ["carol"]);
    assert_eq!(line(first_dead(), unlock("alice")), ["dave"]);
    let all_dead = || alice().waited_for_by("bob").dead().waited_for_by("carol").dead();
    assert_eq!(holders(all_dead(), unlock("alice")), [""; 0]);
    let to_its_last_moment = || alice().waited_for_by("bob").left_ms(1).waited_for_by("carol");
    assert_eq!(holders(to_its_last_moment(), unlock("alice")), ["bob"]);
}

#[test]
fn every_free_slot_goes_to_the_line() {
    let two = || state().held_by("alice").overdue().held_by("bob").left_ms(-1).capacity(2);
    let waited_for = || two().waited_for_by("carol").waited_for_by("dave").waited_for_by("erin");
    assert_eq!(holders(waited_for(), expire()), ["carol", "dave"]);
    assert_eq!(line(waited_for(), expire()), ["erin"]);
    let slots = after(waited_for(), expire(), NOW).locks_of(&key(0)).iter().map(|lock| lock.slot).collect::<Vec<_>>();
    assert_eq!(slots, [0, 1]);
}

#[test]
fn a_grant_from_the_line_is_the_tickets_and_lives_five_seconds_unless_it_is_claimed() {
    let before = || alice().token(7).version("v1").waited_for_by("bob").session("tab");
    let decision = decide_now(&before().build(), unlock("alice"));
    let [grant] = granted(&decision)[..] else { panic!("{decision:?}") };
    assert_eq!((grant.lease_id, grant.fencing_token, grant.hold), (ticket_lease(1), 8, 1));
    assert_eq!(grant.holder.session, Some(session("tab")));
    assert_eq!(grant.document_version.as_ref().map(|version| version.as_str()), Some("v1"));
    assert_eq!((grant.span, grant.expires_at), (Span::Claim(CLAIM_MS), NOW.plus_millis(5000)));
    let claims: [(&str, Command); 3] = [
        ("renew", Renew { leases: vec![(key(0), ticket_lease(1))] }.into()),
        ("heartbeat", by_session(extend("bob"), "tab").into()),
        ("resume", in_session("tab", lock("bob")).into()),
    ];
    for (says, command) in claims {
        for (later_ms, is_claimed) in [(4999, true), (5000, false)] {
            let mut state = after(before(), unlock("alice"), NOW);
            let now = NOW.plus_millis(later_ms);
            let outcome = decide(&mut state, &command, now).unwrap().outcome.single();
            let claimed = match outcome {
                Ok(Done::Live { lock, .. }) => lock.lease_id == ticket_lease(1),
                _ => false,
            };
            assert_eq!(claimed, is_claimed, "{says} after {later_ms} ms");
            if is_claimed {
                let lock = &state.locks_of(&key(0))[0];
                assert_eq!((lock.span, lock.expires_at), (Span::Ttl, now.plus_seconds(30)), "{says}");
            }
        }
    }
}

fn by_session(command: Extend, name: &str) -> Extend {
    let mut command = command;
    command.named.session = Some(session(name));
    command
}

#[test]
fn nobody_gets_in_before_the_line() {
    let waited_for = || alice().waited_for_by("bob");
    let overdue = || alice().overdue().waited_for_by("bob");
    let many = || LockDocuments { wanted: vec![wanted(0), wanted(1)], ..lock("carol") };
    let rows: Vec<(&str, StateBuilder, Command, &str)> = vec![
        ("a newcomer", waited_for(), lock("carol").into(), "alice"),
        ("a newcomer that waits", waited_for(), wait("carol").into(), "alice"),
        ("a newcomer to an overdue lock", overdue(), lock("carol").into(), "bob"),
        ("many locks at once", waited_for(), many().into(), "alice"),
        ("many locks at once, one of them overdue", overdue(), many().into(), "bob"),
    ];
    for (says, state, command, holder) in rows {
        assert_eq!(holders(state, command), [holder], "{says}");
    }
    let state = after(overdue(), many(), NOW);
    assert_eq!(state.locks_of(&key(1)), [], "all or nothing");
}

#[test]
fn a_take_over_passes_the_line_by_and_leaves_it_waiting() {
    let command = || LockDocuments { takeover: Some(TakeOver { of_others: true, ..take_over() }), ..lock("carol") };
    let before = || alice().waited_for_by("bob");
    assert_eq!(holders(before(), command()), ["carol"]);
    assert_eq!(line(before(), command()), ["bob"]);
    let mut state = after(before(), command(), NOW);
    decide(&mut state, &unlock("carol").into(), NOW).unwrap();
    assert_eq!(state.locks_of(&key(0))[0].holder.owner.as_str(), "bob", "it is served when that lock ends");
}

#[test]
fn the_capacity_is_fixed_while_anybody_waits() {
    let before = || alice().waited_for_by("bob");
    let two = || LockDocuments { capacity: Some(2), ..wait("carol") };
    let outcome = decide_now(&before().build(), two()).outcome.single();
    assert_eq!(outcome, Err(Refusal::CapacityMismatch { in_force: 1 }));
    let nobody = || alice().overdue().waited_for_by("bob").dead();
    assert_eq!(holders(nobody(), two()), ["carol"], "dead tickets fix nothing");
}

fn ticket(state: StateBuilder, command: impl Into<Command>) -> Ticket {
    match decide_now(&state.build(), command).outcome.single() {
        Ok(Done::Waiting { ticket, .. }) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_has_one_ticket_on_a_document_and_keeps_its_place() {
    let before = || alice().waited_for_by("bob").session("tab").waited_for_by("carol");
    let again = ticket(before(), in_session("tab", wait("bob")));
    assert_eq!((again.place, again.lease_id), (1, ticket_lease(1)));
    assert_eq!(again.joined_at, NOW.plus_millis(-10_000));
    assert_eq!(again.expires_at, NOW.plus_millis(TICKET_MS), "it lives on");
    assert_eq!(ticket(before(), in_session("other", wait("bob"))).place, 3, "another session is another ticket");
    assert_eq!(ticket(before(), wait("bob")).place, 3, "no session equals no session");
    let dead = || alice().waited_for_by("bob").session("tab").dead().waited_for_by("carol");
    assert_eq!(ticket(dead(), in_session("tab", wait("bob"))).place, 3, "a dead ticket has lost its place");
}

#[test]
fn ls_acq_004_a_repeated_wait_has_the_same_ticket() {
    let before = || alice().waited_for_by("bob").by_request("r").waited_for_by("carol");
    let again = || LockDocuments { request: Some(request("r")), ..wait("bob") };
    assert_eq!(ticket(before(), again()).lease_id, ticket_lease(1));
    let other = LockDocuments { request: Some(request("r")), ..wait("carol") };
    assert_eq!(ticket(before(), other).place, 3, "another owner's id is another id");
}

#[test]
fn ls_acq_004_a_grant_from_the_line_is_remembered_under_its_request() {
    let before = alice().waited_for_by("bob").by_request("r");
    let mut state = after(before, unlock("alice"), NOW);
    let again = LockDocuments { request: Some(request("r")), ..wait("bob") };
    let decision = decide(&mut state, &again.into(), NOW).unwrap();
    assert_eq!(decision.changes, []);
    match decision.outcome.single() {
        Ok(Done::Live { lock, resumed: false, .. }) => assert_eq!(lock.lease_id, ticket_lease(1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_grant_from_the_line_is_never_remembered_over_another_request() {
    let bobs = || state().document(1).held_by("bob").got_by_request("r").document(0).held_by("alice");
    let key_of = |name: &str| request("r").memo_key(&key(0).tenant, &owner(name));
    for (retention_ms, remembered) in [(1001, lease(1)), (1000, ticket_lease(1))] {
        let before =
            bobs().waited_for_by("bob").by_request("r").policy(|policy| policy.memo_retention_ms = retention_ms);
        let state = after(before, unlock("alice"), NOW);
        assert_eq!(state.memos[&key_of("bob")].locks[0].lease_id, remembered, "kept for {retention_ms} ms");
    }
}

#[test]
fn limits_waits_per_owner_counts_tickets_on_all_documents_but_not_the_same_one_twice() {
    let elsewhere = || state().document(1).held_by("alice").waited_for_by("bob").document(0).held_by("alice");
    let outcome = |limit| decide_now(&elsewhere().waits_per_owner(limit).build(), wait("bob")).outcome.single();
    assert_eq!(outcome(1), Err(Refusal::TooManyWaits { limit: 1 }));
    assert!(matches!(outcome(2), Ok(Done::Waiting { .. })));
    let here = alice().waited_for_by("bob").session("tab").waits_per_owner(1);
    assert_eq!(ticket(here, in_session("tab", wait("bob"))).place, 1);
}

#[test]
fn whoever_leaves_the_line_is_not_served() {
    let before = || alice().waited_for_by("bob").waited_for_by("carol");
    assert_eq!(line(before(), leave_line("bob", 1)), ["carol"]);
    let by_session = LeaveLine { ticket: TicketName::Session(session("tab")), ..leave_line("bob", 9) };
    let dead_before = || {
        alice().waited_for_by("bob").session("tab").dead().waited_for_by("carol").waited_for_by("bob").session("tab")
    };
    assert_eq!(line(dead_before(), by_session), ["carol"], "the live ticket is meant");
    let dead = decide_now(&alice().waited_for_by("bob").dead().build(), leave_line("bob", 1));
    assert_eq!(dead.outcome.single(), Err(Refusal::NotFound), "whether or not it has been deleted");
}

#[test]
fn whoever_got_the_lock_in_another_way_is_not_served_twice() {
    let before = || {
        state()
            .held_by("bob")
            .session("tab")
            .held_by("alice")
            .capacity(2)
            .waited_for_by("bob")
            .session("tab")
            .waited_for_by("carol")
    };
    assert_eq!(holders(before(), unlock("alice")), ["bob", "carol"]);
}

#[test]
fn a_lingering_lock_keeps_the_line_waiting_until_its_page_is_back_or_the_linger_is_over() {
    let before = || alice().session("tab").waited_for_by("bob");
    let goodbye = || Release { linger_ms: 3000, ..release("alice", 1) };
    assert_eq!(holders(before(), goodbye()), ["alice"]);
    let after_ms = |millis: i64, command: Command| {
        let mut state = after(before(), goodbye(), NOW);
        decide(&mut state, &command, NOW.plus_millis(millis)).unwrap();
        state.locks_of(&key(0))[0].holder.owner.to_string()
    };
    assert_eq!(after_ms(2999, in_session("tab", lock("alice")).into()), "alice");
    assert_eq!(after_ms(3000, in_session("tab", lock("alice")).into()), "bob", "too late");
}

#[test]
fn whoever_waits_marks_the_locks_so_that_their_end_is_not_decided_without_a_look_at_the_line() {
    let decision = decide_now(&state().held_by("alice").held_by("bob").build(), wait("carol"));
    let wanted = decision.changes.iter().filter(|change| matches!(change, Change::Keep(lock) if lock.is_wanted));
    assert_eq!(wanted.count(), 2);
}

#[test]
fn the_log_says_how_long_a_holder_has_waited() {
    let decision = decide_now(&alice().waited_for_by("bob").build(), unlock("alice"));
    let waited = decision.events.iter().filter_map(|event| match event.kind {
        EventKind::Locked { waited_ms } => waited_ms,
        _ => None,
    });
    assert_eq!(waited.collect::<Vec<_>>(), [10_000]);
}

#[test]
fn ls_inv_004_a_grant_that_nobody_claimed_has_expired() {
    let decision = decide_now(&alice().unclaimed().overdue().build(), extend("alice"));
    assert_eq!(decision.outcome.single(), Err(Refusal::Ended(EndReason::Expired)));
}
