//! The one function that says what may happen to a document.

mod end;
mod extend;
mod grant;
mod target;
#[cfg(test)]
mod tests;

use super::{
    Change, Command, Done, EndReason, Ending, Event, EventKind, Lock, Lookup, Memo, MemoKey, MemoLock, Outcome,
    Refusal, State, Timestamp, Which,
    command::{Expire, Request},
    lock::DocumentKey,
    names::OwnerId,
};
use std::{collections::HashSet, hash::Hash, sync::Arc};

/// What happens: the caller's answer, the rows to write, the events to append, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    pub outcome: Outcome,
    pub changes: Vec<Change>,
    pub events: Vec<Event>,
}

/// A lock was asked for on a document whose row is not in the state: nothing may be decided, for the token is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the row of document {}/{} was not read", .0.room, .0.document)]
pub struct NotRead(pub DocumentKey);

/// `state` must hold the command's documents and their locks, its memo, and the answers to [`State::lookups`]. A memo, a
/// lock or an ending that is missing counts as not existing; a document row that is missing is an error.
///
/// A command may name a document several times: only the first time counts.
pub fn decide(state: &State, command: &Command, now: Timestamp) -> Result<Decision, NotRead> {
    let mut decision = Decision::default();
    for key in distinct(command.needs().keys, |key| *key) {
        let mut overdue: Vec<_> = state.locks_of(key).iter().filter(|lock| !lock.is_live(now)).collect();
        // The log's last word about an owner must be of the lock that ended last.
        overdue.sort_unstable_by_key(|lock| lock.end_order());
        for lock in overdue {
            decision.end_overdue(lock, now);
        }
    }
    decision.outcome = match command {
        Command::Lock(lock) => grant::lock(state, lock, now, &mut decision)?,
        Command::Extend(extend) => extend::extend(state, extend, now, &mut decision),
        Command::Unlock(unlock) => end::unlock(state, unlock, now, &mut decision),
        Command::Release(release) => end::release(state, release, now, &mut decision),
        Command::ForceUnlock(force) => end::force_unlock(state, force, now, &mut decision),
        Command::Expire(expire) => reschedule(state, expire, now, &mut decision),
    };
    Ok(decision)
}

/// Overdue locks have been ended above; the others are looked at again when they end by what is known now.
fn reschedule(state: &State, expire: &Expire, now: Timestamp, decision: &mut Decision) -> Outcome {
    for key in distinct(&expire.keys, |key| *key) {
        for lock in live_locks(state, key, now).filter(|lock| lock.due_at <= now) {
            decision.changes.push(Change::Keep(Lock { due_at: lock.expires_at, ..lock.clone() }));
        }
    }
    Outcome::default()
}

/// The first of those that are the same by `identity`.
pub(super) fn distinct<T, I: Eq + Hash>(
    all: impl IntoIterator<Item = T>,
    identity: impl Fn(&T) -> I,
) -> impl Iterator<Item = T> {
    let all = all.into_iter();
    // Nearly every command names one document: nothing is hashed for it.
    let is_one = all.size_hint().1 == Some(1);
    let mut seen = HashSet::new();
    all.filter(move |one| is_one || seen.insert(identity(one)))
}

fn live_locks<'s>(state: &'s State, key: &DocumentKey, now: Timestamp) -> impl Iterator<Item = &'s Lock> + use<'s> {
    state.locks_of(key).iter().filter(move |lock| lock.is_live(now))
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

/// The lock that a request got when it came before: as it is while it lives, else how it ended.
fn as_it_is<'s>(
    state: &'s State,
    key: &DocumentKey,
    owner: &OwnerId,
    memo: &MemoLock,
    now: Timestamp,
) -> Result<&'s Lock, Refusal> {
    let lock = state.locks_of(key).iter().find(|lock| lock.lease_id == memo.lease_id);
    if let Some(lock) = lock.filter(|lock| lock.is_live(now)) {
        return Ok(lock);
    }
    let lookup = Lookup { key: key.clone(), owner: owner.clone(), which: Which::Lease(memo.lease_id) };
    let ended = state.endings.get(&lookup).map(|ending| ending.reason).or(lock.map(Lock::overdue_reason));
    // Past the log's retention nobody knows how it ended, only that it is not the caller's any more.
    Err(ended.map_or(Refusal::Mismatch, Refusal::Ended))
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
        self.changes.push(Change::End { lock: lock.clone(), ending: Ending { reason, at: lock.ended_at(now) } });
        self.events.push(Event {
            at: now,
            lock: lock.clone(),
            kind: EventKind::Unlocked { reason, by: by.cloned(), note: note.cloned() },
        });
        Done::Ended { key: lock.key.clone(), fencing_token: lock.fencing_token }
    }

    /// Nobody ended it: its time ran out, or that of a page that had said goodbye.
    fn end_overdue(&mut self, lock: &Lock, now: Timestamp) {
        let reason = lock.overdue_reason();
        let by = (reason == EndReason::Released).then_some(&lock.holder.owner);
        self.end(lock, reason, by, None, now);
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
