//! Heartbeats.

use super::{
    super::command::Extend, Change, Decision, Lock, Memo, MemoLock, Outcome, Request, State, Timestamp, as_it_is,
    distinct, recall, remember, target::target,
};
use crate::locking::{DocumentKey, Done, Failed, MemoKey, Refusal};

pub(super) fn extend(state: &State, command: &Extend, now: Timestamp, decision: &mut Decision) -> Outcome {
    let Some(first) = command.keys.first() else { return Outcome::default() };
    let request = command.request.as_ref().map(|request| (request, request.memo_key(&command.tenant, &command.owner)));
    if let Some((request, key)) = &request {
        match recall(state, key, request, now) {
            Err(refusal) => return Outcome::failed(first, refusal),
            Ok(Some(memo)) => return again(state, command, memo, now),
            Ok(None) => {}
        }
    }
    let outcome = each(command, |key| {
        let before = target(state, key, &command.owner, &command.named, now)?;
        let lock = extended(state, before, command, now);
        let activity_changed = lock.activity != before.activity;
        let lock = decision.save(state, lock, command.document_version.as_ref(), now);
        decision.changes.push(Change::Keep(lock.clone()));
        let asks = state.asks_for(&lock).cloned().collect();
        Ok(Done::Live { lock, resumed: false, asks, activity_changed })
    });
    if let Some((request, key)) = request
        && outcome.failed.is_empty()
    {
        remember_extends(request, key, now, decision);
    }
    outcome
}

/// The request came before and succeeded: nothing changes.
fn again(state: &State, command: &Extend, memo: &Memo, now: Timestamp) -> Outcome {
    let mut locks = memo.locks.iter();
    each(command, |key| {
        let lock = locks.next().map(|memo| as_it_is(state, key, &command.owner, memo, now));
        let lock = lock.unwrap_or(Err(Refusal::Mismatch))?;
        let asks = state.asks_for(lock).cloned().collect();
        Ok(Done::Live { lock: lock.clone(), resumed: false, asks, activity_changed: false })
    })
}

fn each(command: &Extend, mut one: impl FnMut(&DocumentKey) -> Result<Done, Refusal>) -> Outcome {
    let mut outcome = Outcome::default();
    for key in distinct(&command.keys, |key| *key) {
        match one(key) {
            Ok(done) => outcome.done.push(done),
            Err(refusal) => outcome.failed.push(Failed { key: key.clone(), refusal }),
        }
    }
    outcome
}

fn extended(state: &State, lock: &Lock, command: &Extend, now: Timestamp) -> Lock {
    // What was not read may be there.
    let is_in_line = state.lines.get(&lock.key).is_none_or(|line| !line.is_empty(now));
    Lock {
        metadata: command.metadata.clone().or_else(|| lock.metadata.clone()),
        is_wanted: lock.is_wanted && (is_in_line || state.asks_for(lock).next().is_some()),
        ..lock.extended(command.ttl_seconds.unwrap_or(lock.ttl_seconds), now)
    }
    .acting(command.activity, now)
}

/// Heartbeats come without end, so only the last few of a lock are remembered: its row lists their ids, and the oldest
/// memo goes when a new one comes.
fn remember_extends(request: &Request, key: MemoKey, now: Timestamp, decision: &mut Decision) {
    let (mut locks, mut forgotten) = (Vec::new(), Vec::new());
    for change in &mut decision.changes {
        let Change::Keep(lock) = change else { continue };
        locks.push(MemoLock { lease_id: lock.lease_id, fencing_token: lock.fencing_token, resumed: false });
        lock.extend_ids.push(request.id.clone());
        if lock.extend_ids.len() > Lock::EXTENDS_REMEMBERED {
            let oldest = lock.extend_ids.remove(0);
            // One that came again after its retention stands in the list twice.
            if !lock.extend_ids.contains(&oldest) {
                forgotten.push(Change::Forget(MemoKey { request_id: oldest, ..key.clone() }));
            }
        }
    }
    decision.changes.extend(forgotten);
    decision.changes.push(remember(key, request, locks, now));
}
