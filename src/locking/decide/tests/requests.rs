//! Requests that are sent again under the same id.

use super::{assert_nothing_happened, decide, decide_now};
use crate::locking::{
    Done, EndReason, Extend, Lock, LockDocuments, Refusal, State, Timestamp,
    testing::{
        DAY_MS,
        commands::{extend, lock, request},
        samples::NOW,
        state,
    },
};

#[test]
fn ls_acq_004_a_repeated_lock_is_answered_as_it_is_or_how_it_ended() {
    let got = || state().held_by("alice").got_by_request("r");
    let live = Ok(Done::Live { lock: got().lock(), resumed: false, asks: Vec::new(), activity_changed: false });
    for (before, expected) in [
        (got(), live),
        (got().overdue(), Err(Refusal::Ended(EndReason::Expired))),
        (got().lingering().overdue(), Err(Refusal::Ended(EndReason::Released))),
        (got().that_ended(EndReason::Revoked, 500), Err(Refusal::Ended(EndReason::Revoked))),
    ] {
        let again = LockDocuments { request: Some(request("r")), ..lock("alice") };
        let decision = decide_now(&before.clone().build(), again);
        assert_nothing_happened(&decision, &format!("{before:?}"));
        assert_eq!(decision.outcome.single(), expected, "{before:?}");
    }
}

#[test]
fn a_repeated_lock_whose_end_is_not_in_the_log_any_more_is_a_mismatch() {
    let mut state = state().held_by("alice").got_by_request("r").that_ended(EndReason::Expired, 500).build();
    state.endings.clear();
    let decision = decide_now(&state, LockDocuments { request: Some(request("r")), ..lock("alice") });
    assert_nothing_happened(&decision, "repeated");
    assert_eq!(decision.outcome.single(), Err(Refusal::Mismatch));
}

#[test]
fn a_request_id_is_forgotten_after_its_retention_whether_or_not_it_was_deleted() {
    let got = state().held_by("alice").got_by_request("r").that_ended(EndReason::Released, 500);
    for (retention_ms, is_repeat) in [(1001, true), (1000, false)] {
        let state = got.clone().policy(|policy| policy.memo_retention_ms = retention_ms).build();
        let decision = decide_now(&state, LockDocuments { request: Some(request("r")), ..lock("alice") });
        assert_eq!(decision.outcome.single().is_err(), is_repeat, "{retention_ms}");
    }
}

/// Alice's heartbeat with this request id, a millisecond after the one before.
fn heartbeat(state: &mut State, now: &mut Timestamp, id: &str) -> Lock {
    *now = now.plus_millis(1);
    let command = Extend { request: Some(request(id)), ..extend("alice") };
    let decision = decide(state, &command.into(), *now).unwrap();
    match decision.outcome.single() {
        Ok(Done::Live { lock, .. }) => lock,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ls_rnw_003_of_a_lock_the_last_eight_heartbeats_are_remembered() {
    let mut state = state().held_by("alice").build();
    let mut now = NOW;
    let ids: Vec<_> = (0..=Lock::EXTENDS_REMEMBERED).map(|number| format!("r{number}")).collect();
    let last = ids.iter().map(|id| heartbeat(&mut state, &mut now, id)).last().unwrap();
    assert_eq!(last.expires_at, now.plus_seconds(30));
    for id in &ids[1..] {
        assert_eq!(heartbeat(&mut state, &mut now, id).expires_at, last.expires_at, "{id} acted again");
    }
    assert_eq!(state.memos.len(), Lock::EXTENDS_REMEMBERED);
    assert_eq!(heartbeat(&mut state, &mut now, &ids[0]).expires_at, now.plus_seconds(30), "it is not remembered");
}

#[test]
fn a_heartbeats_request_id_is_remembered_for_a_day() {
    for (later_ms, is_repeat) in [(DAY_MS - 1, true), (DAY_MS, false)] {
        let mut state = state().held_by("alice").left_ms(DAY_MS * 2).build();
        state.locks.values_mut().flatten().for_each(|lock| lock.ttl_seconds = 200_000);
        let mut now = NOW;
        let first = heartbeat(&mut state, &mut now, "r");
        now = now.plus_millis(later_ms - 1);
        let again = heartbeat(&mut state, &mut now, "r");
        assert_eq!(again.expires_at == first.expires_at, is_repeat, "{later_ms}");
    }
}
