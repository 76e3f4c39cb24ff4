//! The one function that says what may happen to a document.
//!
//! 1. What time has brought about is settled first, whatever the command's fate: overdue locks end, asks that nobody answered
//!    end, and free slots go to the line.
//! 2. The command is decided on that.
//! 3. What the command has freed goes to the line, in the same transaction: nobody can get in between.

mod ask;
mod end;
mod extend;
mod grant;
mod line;
mod target;
#[cfg(test)]
mod tests;

use super::{
    Ask, AskOutcome, Change, Command, Done, EndReason, Ending, Event, EventKind, Lock, Lookup, Memo, MemoKey, MemoLock,
    Outcome, Refusal, Span, State, Timestamp, Which,
    command::{Expire, Renew, Request},
    lock::DocumentKey,
    names::{DocumentVersion, OwnerId},
    outcome::Failed,
};
use std::{collections::HashSet, hash::Hash, sync::Arc};

/// What happens: the caller's answer, the rows to write, the events to append, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    pub outcome: Outcome,
    pub changes: Vec<Change>,
    pub events: Vec<Event>,
}

/// The decision takes a document's row, or the next ticket of its line, and that is not in the state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the row or the line of document {}/{} was not read", .0.room, .0.document)]
pub struct NotRead(pub DocumentKey);

/// Decides the command, and brings the state up to date with the decision.
///
/// `state` must hold what [`Command::needs`] says, and the answers to [`State::lookups`]. A memo, a lock, a ticket, an ask
/// or an ending that is missing counts as not existing; a document row that is missing is an error where a lock would be
/// granted.
///
/// A command may name a document several times: only the first time counts.
pub fn decide(state: &mut State, command: &Command, now: Timestamp) -> Result<Decision, NotRead> {
    let mut decision = Decision::default();
    let keys: Vec<_> = distinct(command.needs().keys, |key| *key).collect();
    let looks_at_asks = !matches!(command, Command::Renew(_));
    settle(state, &keys, looks_at_asks, now, &mut decision)?;
    let settled = decision.changes.len();
    decision.outcome = match command {
        Command::Lock(lock) => grant::lock(state, lock, now, &mut decision)?,
        Command::Extend(extend) => extend::extend(state, extend, now, &mut decision),
        Command::Unlock(unlock) => end::unlock(state, unlock, now, &mut decision),
        Command::Release(release) => end::release(state, release, now, &mut decision),
        Command::ForceUnlock(force) => end::force_unlock(state, force, now, &mut decision),
        Command::Expire(expire) => reschedule(state, expire, now, &mut decision),
        Command::Renew(renew) => extend_leases(state, renew, now, &mut decision),
        Command::LeaveLine(leave) => line::leave(state, leave, now, &mut decision),
        Command::Ask(command) => ask::ask(state, command, now, &mut decision),
        Command::Answer(answer) => ask::answer(state, answer, now, &mut decision)?,
        Command::CancelAsk(cancel) => ask::cancel(state, cancel, now, &mut decision),
    };
    if decision.changes.len() > settled {
        decision.apply_after(settled, state);
        settle(state, &keys, looks_at_asks, now, &mut decision)?;
    }
    Ok(decision)
}

/// Brings about what is due by now, and gives free slots to those who wait for them.
fn settle(
    state: &mut State,
    keys: &[&DocumentKey],
    looks_at_asks: bool,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), NotRead> {
    for key in keys {
        let before = decision.changes.len();
        let mut overdue: Vec<_> = state.locks_of(key).iter().filter(|lock| !lock.is_live(now)).collect();
        // The log's last word about an owner must be of the lock that ended last.
        overdue.sort_unstable_by_key(|lock| lock.end_order());
        for lock in overdue {
            decision.end_overdue(state, lock, now);
        }
        decision.apply_after(before, state);
        if looks_at_asks {
            ask::expire(state, key, now, decision);
        }
        line::serve(state, key, now, decision)?;
    }
    Ok(())
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

/// A lock that lingers is not extended: its page has said goodbye, and the answer to a ping may be older than that.
fn extend_leases(state: &State, renew: &Renew, now: Timestamp, decision: &mut Decision) -> Outcome {
    let is_kept = |lock: &&Lock| !matches!(lock.span, Span::Linger(_));
    let mut outcome = Outcome::default();
    for (key, lease_id) in distinct(&renew.leases, |(_, lease_id)| *lease_id) {
        match live_locks(state, key, now).find(|lock| lock.lease_id == *lease_id).filter(is_kept) {
            Some(lock) => {
                let lock = lock.extended(lock.ttl_seconds, now);
                decision.changes.push(Change::Keep(lock.clone()));
                outcome.done.push(Done::Live { lock, resumed: false, asks: Vec::new(), activity_changed: false });
            }
            None => outcome.failed.push(Failed { key: key.clone(), refusal: Refusal::NotFound }),
        }
    }
    outcome
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
    if let Some(lock) = live_locks(state, key, now).find(|lock| lock.lease_id == memo.lease_id) {
        return Ok(lock);
    }
    let lookup = Lookup { key: key.clone(), owner: owner.clone(), which: Which::Lease(memo.lease_id) };
    let ended = state.endings.get(&lookup).map(|ending| ending.reason);
    // Past the log's retention nobody knows how it ended, only that it is not the caller's any more.
    Err(ended.map_or(Refusal::Mismatch, Refusal::Ended))
}

fn remember(key: MemoKey, request: &Request, locks: Vec<MemoLock>, now: Timestamp) -> Change {
    let memo = Memo { fingerprint: request.fingerprint, created_at: now, locks };
    Change::Remember { key, memo, if_unused: false }
}

impl Decision {
    /// Ends a lock. Open asks for it are moot.
    fn end(
        &mut self,
        state: &State,
        lock: &Lock,
        reason: EndReason,
        by: Option<&OwnerId>,
        note: Option<&Arc<str>>,
        now: Timestamp,
    ) -> Done {
        let done = self.end_without_asks(lock, reason, by, note, now);
        for ask in state.asks_for(lock) {
            self.answer(ask, AskOutcome::Moot, None, lock, now);
        }
        done
    }

    fn end_without_asks(
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
    fn end_overdue(&mut self, state: &State, lock: &Lock, now: Timestamp) {
        let reason = lock.overdue_reason();
        let by = (reason == EndReason::Released).then_some(&lock.holder.owner);
        self.end(state, lock, reason, by, None, now);
    }

    fn keep(&mut self, state: &State, lock: Lock, resumed: bool) -> Done {
        self.changes.push(Change::Keep(lock.clone()));
        let asks = state.asks_for(&lock).cloned().collect();
        Done::Live { lock, resumed, asks, activity_changed: false }
    }

    /// Notes the version that the holder has saved, if it is a new one. Returns the lock with it.
    fn save(&mut self, state: &State, lock: Lock, version: Option<&DocumentVersion>, now: Timestamp) -> Lock {
        let known = state.documents.get(&lock.key).and_then(|row| row.version.as_ref());
        let Some(version) = version.filter(|version| Some(*version) != known) else { return lock };
        self.changes.push(Change::Version { key: lock.key.clone(), version: version.clone() });
        let lock = Lock { document_version: Some(version.clone()), ..lock };
        self.events.push(Event { at: now, lock: lock.clone(), kind: EventKind::Saved });
        lock
    }

    /// Ends an ask. `lock` is what it was about.
    fn answer(
        &mut self,
        ask: &Ask,
        outcome: AskOutcome,
        answer: Option<&Arc<str>>,
        lock: &Lock,
        now: Timestamp,
    ) -> Ask {
        let ask = Ask { outcome: Some(outcome), answer: answer.cloned(), ..ask.clone() };
        self.changes.push(Change::Answer(ask.clone()));
        let kind = EventKind::HandoverAnswered(Box::new(ask.clone()));
        self.events.push(Event { at: now, lock: lock.clone(), kind });
        ask
    }

    fn apply_after(&self, changes: usize, state: &mut State) {
        self.changes[changes..].iter().for_each(|change| state.apply(change));
    }

    /// Back to what holds whatever the command's fate.
    fn forget_after(&mut self, changes: usize, events: usize) {
        self.changes.truncate(changes);
        self.events.truncate(events);
    }
}
