//! The ends a lock can be given: by its holder, by its page's goodbye, by an admin.

use super::{
    super::command::{ForceUnlock, Release, Unlock},
    Decision, Done, EndReason, Memo, MemoLock, Outcome, Refusal, State, Timestamp, distinct, live_locks, recall,
    remember,
    target::target,
};
use crate::locking::{Failed, Named};

pub(super) fn unlock(state: &State, command: &Unlock, now: Timestamp, decision: &mut Decision) -> Outcome {
    let memo_key = command.request.as_ref().map(|request| request.memo_key(&command.tenant, &command.owner));
    if let (Some(request), Some(key), Some(first)) = (&command.request, &memo_key, command.keys.first()) {
        match recall(state, key, request, now) {
            Err(refusal) => return Outcome::failed(first, refusal),
            Ok(Some(memo)) => return again(command, memo),
            Ok(None) => {}
        }
    }
    let mut outcome = Outcome::default();
    let mut ended = Vec::new();
    for key in distinct(&command.keys, |key| *key) {
        match target(state, key, &command.owner, &command.named, now) {
            Ok(lock) => {
                let (lease_id, fencing_token) = (lock.lease_id, lock.fencing_token);
                ended.push(MemoLock { lease_id, fencing_token, resumed: false });
                let lock = decision.save(state, lock.clone(), command.document_version.as_ref(), now);
                outcome.done.push(decision.end(state, &lock, EndReason::Released, Some(&command.owner), None, now));
            }
            Err(refusal) => outcome.failed.push(Failed { key: key.clone(), refusal }),
        }
    }
    if let (Some(request), Some(key)) = (&command.request, memo_key)
        && outcome.failed.is_empty()
    {
        decision.changes.push(remember(key, request, ended, now));
    }
    outcome
}

/// The request came before and succeeded: the locks it ended are told again.
fn again(command: &Unlock, memo: &Memo) -> Outcome {
    let ended = distinct(&command.keys, |key| *key).zip(&memo.locks);
    let done = ended.map(|(key, lock)| Done::Ended { key: key.clone(), fencing_token: lock.fencing_token });
    Outcome { done: done.collect(), failed: Vec::new() }
}

pub(super) fn release(state: &State, command: &Release, now: Timestamp, decision: &mut Decision) -> Outcome {
    let named = Named { lease_id: Some(command.lease_id), ..Named::default() };
    let done = target(state, &command.key, &command.owner, &named, now).and_then(|lock| {
        // A later hold: the page is back and resumed the lock before its own goodbye arrived.
        if lock.hold != command.hold {
            return Err(Refusal::Mismatch);
        }
        if command.linger_ms == 0 {
            return Ok(decision.end(state, lock, EndReason::Released, Some(&command.owner), None, now));
        }
        Ok(decision.keep(state, lock.lingering(command.linger_ms, now), false))
    });
    match done {
        Ok(done) => Outcome { done: vec![done], failed: Vec::new() },
        Err(refusal) => Outcome::failed(&command.key, refusal),
    }
}

pub(super) fn force_unlock(state: &State, command: &ForceUnlock, now: Timestamp, decision: &mut Decision) -> Outcome {
    let mut outcome = Outcome::default();
    for (key, lease_id) in distinct(&command.targets, |(_, lease_id)| *lease_id) {
        match live_locks(state, key, now).find(|lock| lock.lease_id == *lease_id) {
            Some(lock) => {
                let note = command.note.as_ref();
                outcome.done.push(decision.end(state, lock, EndReason::Revoked, Some(&command.by), note, now));
            }
            None => outcome.failed.push(Failed { key: key.clone(), refusal: Refusal::NotFound }),
        }
    }
    outcome
}
