//! The one function that says what may happen to a document.

mod end;
mod extend;
mod grant;
mod target;

use super::{
    Change, Command, Done, EndReason, Ending, Event, EventKind, Lock, Memo, MemoKey, MemoLock, Outcome, Refusal, State,
    Timestamp,
    command::{Expire, Request},
    lock::DocumentKey,
    names::OwnerId,
};
use std::sync::Arc;

/// What happens: the caller's answer, the rows to write, the events to append, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    pub outcome: Outcome,
    pub changes: Vec<Change>,
    pub events: Vec<Event>,
}

/// `state` must hold the command's documents, its memo, and the answers to [`State::lookups`]; what is missing
/// counts as not existing.
pub fn decide(state: &State, command: &Command, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    for key in command.keys() {
        for lock in locks_of(state, key).iter().filter(|lock| !lock.is_live(now)) {
            decision.end(lock, EndReason::Expired, None, None, now);
        }
    }
    decision.outcome = match command {
        Command::Lock(lock) => grant::lock(state, lock, now, &mut decision),
        Command::Extend(extend) => extend::extend(state, extend, now, &mut decision),
        Command::Unlock(unlock) => end::unlock(state, unlock, now, &mut decision),
        Command::Release(release) => end::release(state, release, now, &mut decision),
        Command::ForceUnlock(force) => end::force_unlock(state, force, now, &mut decision),
        Command::Expire(expire) => reschedule(state, expire, now, &mut decision),
    };
    decision
}

/// Overdue locks have been ended above; the others are looked at again when they end by what is known now.
fn reschedule(state: &State, expire: &Expire, now: Timestamp, decision: &mut Decision) -> Outcome {
    for key in &expire.keys {
        for lock in live_locks(state, key, now).filter(|lock| lock.due_at <= now) {
            decision.changes.push(Change::Keep(Lock { due_at: lock.expires_at, ..lock.clone() }));
        }
    }
    Outcome::default()
}

fn locks_of<'s>(state: &'s State, key: &DocumentKey) -> &'s [Lock] {
    state.documents.get(key).map(|document| document.locks.as_slice()).unwrap_or_default()
}

fn live_locks<'s>(state: &'s State, key: &DocumentKey, now: Timestamp) -> impl Iterator<Item = &'s Lock> + use<'s> {
    locks_of(state, key).iter().filter(move |lock| lock.is_live(now))
}

/// What this request did when it came before, if it did. `Err` if another request had the same id.
fn recall<'s>(state: &'s State, key: &MemoKey, request: &Request, now: Timestamp) -> Result<Option<&'s Memo>, Refusal> {
    // Past its retention a memo is forgotten whether or not the job has deleted it.
    let oldest = now.plus_millis(-state.policy.memo_retention_ms);
    match state.memos.get(key).filter(|memo| memo.created_at > oldest) {
        Some(memo) if memo.fingerprint != request.fingerprint => Err(Refusal::RequestIdReused),
        memo => Ok(memo),
    }
}

/// Extends keep their last request id on the lock; another request may not use it while that lock lives.
fn is_an_extends(state: &State, key: &DocumentKey, memo: &MemoKey, now: Timestamp) -> bool {
    live_locks(state, key, now)
        .filter(|lock| lock.holder.owner == memo.owner)
        .filter_map(|lock| lock.last_extend.as_ref())
        .any(|last| last.request_id == memo.request_id)
}

fn remember(key: MemoKey, request: &Request, locks: Vec<MemoLock>, now: Timestamp) -> Change {
    Change::Remember { key, memo: Memo { fingerprint: request.fingerprint, created_at: now, locks } }
}

impl Decision {
    fn end(
        &mut self,
        lock: &Lock,
        reason: EndReason,
        by: Option<&OwnerId>,
        note: Option<&Arc<str>>,
        now: Timestamp,
    ) -> Done {
        let at = if reason == EndReason::Expired { lock.expires_at } else { now };
        self.changes.push(Change::End { lock: lock.clone(), ending: Ending { reason, at } });
        self.events.push(Event {
            at: now,
            lock: lock.clone(),
            kind: EventKind::Unlocked { reason, by: by.cloned(), note: note.cloned() },
        });
        Done::Ended { key: lock.key.clone(), fencing_token: lock.fencing_token }
    }

    fn keep(&mut self, lock: Lock, resumed: bool) -> Done {
        self.changes.push(Change::Keep(lock.clone()));
        Done::Live { lock, resumed }
    }

    /// Back to what holds whatever the command's fate: the expiry of overdue locks.
    fn forget_after(&mut self, changes: usize, events: usize) {
        self.changes.truncate(changes);
        self.events.truncate(events);
    }
}
