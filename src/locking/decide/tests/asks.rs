//! Asks for a lock: who hears what, and how the lock changes hands.

use super::{after, decide, decide_now, events, granted};
use crate::locking::{
    ASK_MS, Answer, AnswerAsk, Ask, AskForLock, AskOutcome, CLAIM_MS, Command, Done, EndReason, Event, EventKind,
    Expire, Extend, LockDocuments, Refusal, Span, State, TakeOver, Unlock,
    names::DocumentVersion,
    testing::{
        StateBuilder,
        commands::{
            ask, cancel_ask, deny, extend, force_unlock, hand_over, lock, release, renew, take_over, unlock, wanted,
        },
        samples::{NOW, ask_id, key, lease, owner, session},
        state,
    },
};
use AskOutcome::{Cancelled, Denied, Granted, Moot, Unanswered};

fn asked() -> StateBuilder {
    state().held_by("alice").asked_for_by("bob")
}

fn version(name: &str) -> DocumentVersion {
    DocumentVersion::from_stored(name)
}

fn hand_over_version(name: &str) -> AnswerAsk {
    let answer = Answer::Grant { lease_id: wanted(0).lease_id, document_version: Some(version(name)) };
    AnswerAsk { answer, ..hand_over("alice", 1) }
}

fn answered(state: &StateBuilder, command: impl Into<Command>) -> Result<Ask, Refusal> {
    match decide_now(&state.clone().build(), command).outcome.single() {
        Ok(Done::Asked(ask)) => Ok(ask),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal),
    }
}

#[test]
fn an_ask_rings_the_holder_alone_and_waits_thirty_seconds() {
    let decision = decide_now(&state().held_by("alice").build(), ask("bob"));
    let [event] = &decision.events[..] else { panic!("{decision:?}") };
    assert_eq!((event.kind.name().as_str(), event.recipient()), ("HandoverAsked", Some(&owner("alice"))));
    let Ok(Done::Asked(ask)) = decision.outcome.single() else { panic!() };
    assert_eq!((ask.id, ask.lease_id, ask.outcome), (ask_id(9), lease(1), None));
    assert_eq!(ask.expires_at, NOW.plus_millis(ASK_MS));
}

#[test]
fn of_several_locks_the_oldest_is_asked_for_and_never_ones_own_of_the_same_session() {
    let two = state().held_by("bob").session("tab").held_by("alice");
    let mut command = ask("bob");
    command.asker.session = Some(session("tab"));
    assert_eq!(answered(&two, command).unwrap().lease_id, lease(2));
    assert_eq!(answered(&two, ask("carol")).unwrap().lease_id, lease(1));
    assert_eq!(answered(&two, ask("bob")).unwrap().lease_id, lease(1), "one's own in another session may be asked for");
}

#[test]
fn an_owner_has_one_open_ask_on_a_document() {
    let decision = decide_now(&asked().build(), AskForLock { message: Some("again".into()), ..ask("bob") });
    assert_eq!((decision.changes.len(), decision.events.len()), (0, 0));
    assert_eq!(decision.outcome.single(), Ok(Done::Asked(asked().ask())));
    assert_eq!(answered(&asked(), ask("carol")).unwrap().id, ask_id(9), "another owner has its own");
}

#[test]
fn the_same_owner_rings_at_most_every_ten_seconds_whatever_came_of_it() {
    for outcome in AskOutcome::ALL {
        let before = |ago_ms| asked().asked_ms_ago(ago_ms).that_was(outcome);
        let too_soon = Err(Refusal::AskedTooSoon { again_at: NOW.plus_millis(1) });
        assert_eq!(answered(&before(9999), ask("bob")), too_soon, "{outcome:?}");
        assert_eq!(answered(&before(10_000), ask("bob")).map(|ask| ask.id), Ok(ask_id(9)), "{outcome:?}");
    }
}

#[test]
fn every_ask_ends_once_with_what_became_of_it() {
    let expire = || Expire { keys: vec![key(0)] };
    let take_over = LockDocuments { takeover: Some(TakeOver { of_others: true, ..take_over() }), ..lock("carol") };
    let alice = || state().held_by("alice");
    let overdue = || asked().left_ms(0);
    let rows: Vec<(&str, StateBuilder, Command, AskOutcome)> = vec![
        ("the holder denies", asked(), deny("alice", 1).into(), Denied),
        ("the holder hands it over", asked(), hand_over("alice", 1).into(), Granted),
        ("the asker takes it back", asked(), cancel_ask("bob", 1).into(), Cancelled),
        ("nobody answered", overdue(), expire().into(), Unanswered),
        ("nobody answered, the answer is late", overdue(), hand_over("alice", 1).into(), Unanswered),
        ("nobody answered, it is taken back late", overdue(), cancel_ask("bob", 1).into(), Unanswered),
        ("the holder unlocks", asked(), unlock("alice").into(), Moot),
        ("its page says goodbye", asked(), release("alice", 1).into(), Moot),
        ("an admin ends it", asked(), force_unlock(1).into(), Moot),
        ("somebody takes it over", asked(), take_over.into(), Moot),
        ("its time runs out", alice().overdue().asked_for_by("bob"), expire().into(), Moot),
    ];
    for (says, state, command, outcome) in rows {
        let decision = decide_now(&state.build(), command);
        let ends: Vec<_> = decision.events.iter().filter_map(ended).collect();
        let recipient = if outcome == Cancelled { "alice" } else { "bob" };
        assert_eq!(ends, [(ask_id(1), outcome, recipient)], "{says}");
    }
}

fn ended(event: &Event) -> Option<(uuid::Uuid, AskOutcome, &str)> {
    match &event.kind {
        EventKind::HandoverAnswered(ask) => Some((ask.id, ask.outcome?, event.recipient()?.as_str())),
        _ => None,
    }
}

#[test]
fn an_ask_is_open_until_its_last_millisecond() {
    let before = asked().left_ms(1);
    assert_eq!(answered(&before, hand_over("alice", 1)).unwrap().outcome, Some(Granted));
}

#[test]
fn an_answer_that_is_sent_again_is_told_what_became_of_the_ask_and_changes_nothing() {
    for outcome in AskOutcome::ALL {
        let before = asked().that_was(outcome);
        let commands: [Command; 3] =
            [hand_over("alice", 1).into(), deny("alice", 1).into(), cancel_ask("bob", 1).into()];
        for command in commands {
            let decision = decide_now(&before.clone().build(), command.clone());
            assert_eq!((decision.changes.len(), decision.events.len()), (0, 0), "{command:?}");
            assert_eq!(decision.outcome.single(), Ok(Done::Asked(before.ask())), "{command:?}");
        }
    }
}

#[test]
fn a_handover_moves_the_lock_in_consecutive_events_with_no_free_moment() {
    let before = || asked().asked_for_by("dave").waited_for_by("carol");
    let decision = decide_now(&before().build(), hand_over_version("v2"));
    let told = ["saved alice", "unlocked alice", "locked bob", "granted bob", "moot alice"];
    assert_eq!(events(&decision), told);
    let reason = decision.events.iter().find_map(|event| match &event.kind {
        EventKind::Unlocked { reason, .. } => Some(*reason),
        _ => None,
    });
    assert_eq!(reason, Some(EndReason::HandedOver));
    let [lock] = granted(&decision)[..] else { panic!("{decision:?}") };
    assert_eq!((lock.lease_id, lock.slot, lock.fencing_token), (wanted(0).lease_id, 0, 2));
    assert_eq!(lock.document_version, Some(version("v2")));
    assert_eq!((lock.span, lock.expires_at), (Span::Claim(CLAIM_MS), NOW.plus_millis(5000)));
    let state = after(before(), hand_over_version("v2"), NOW);
    assert_eq!(state.locks_of(&key(0)).len(), 1);
    assert_eq!(state.lines[&key(0)].tickets.len(), 1, "the line waits on");
}

#[test]
fn those_in_line_get_what_the_asker_does_not_claim() {
    let mut state = after(asked().waited_for_by("carol").left_ms(15_000), hand_over("alice", 1), NOW);
    let expire = Command::Expire(Expire { keys: vec![key(0)] });
    decide(&mut state, &expire, NOW.plus_millis(5000)).unwrap();
    assert_eq!(state.locks_of(&key(0))[0].holder.owner, owner("carol"));
}

#[test]
fn a_handover_passes_on_the_documents_version_though_another_holder_saved_it() {
    let before = state().held_by("alice").asked_for_by("bob").held_by("carol").version("v1");
    let saved = Extend { document_version: Some(version("v2")), ..extend("carol") };
    let mut state = after(before, saved, NOW);
    let decision = decide(&mut state, &hand_over("alice", 1).into(), NOW).unwrap();
    assert_eq!(granted(&decision)[0].document_version, Some(version("v2")));
    assert_eq!(state.documents[&key(0)].version, Some(version("v2")));
}

#[test]
fn a_new_version_is_told_once_by_whatever_brings_it() {
    let before = || asked().version("v1");
    let by = |command: Command| {
        let decision = decide_now(&before().build(), command);
        decision.events.iter().filter(|event| event.kind == EventKind::Saved).count()
    };
    for (name, count) in [("v2", 1), ("v1", 0)] {
        assert_eq!(by(Extend { document_version: Some(version(name)), ..extend("alice") }.into()), count, "{name}");
        assert_eq!(by(Unlock { document_version: Some(version(name)), ..unlock("alice") }.into()), count, "{name}");
        assert_eq!(by(hand_over_version(name).into()), count, "{name}");
    }
    let mut state = before().build();
    let heartbeat = Command::Extend(Extend { document_version: Some(version("v2")), ..extend("alice") });
    let told = |state: &mut State| decide(state, &heartbeat, NOW).unwrap().events.len();
    assert_eq!((told(&mut state), told(&mut state)), (1, 0), "the same version again is no news");
}

#[test]
fn heartbeats_tell_the_holder_of_open_asks_in_order_and_renewals_do_not() {
    let before = || asked().asked_ms_ago(2000).asked_for_by("carol").asked_ms_ago(3000);
    let asks = |command: Command| match decide_now(&before().build(), command).outcome.single() {
        Ok(Done::Live { asks, .. }) => asks.iter().map(|ask| ask.asker.owner.to_string()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(asks(extend("alice").into()), ["carol", "bob"]);
    assert_eq!(asks(renew(1).into()), [""; 0]);
}
