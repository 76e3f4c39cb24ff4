//! Locking: resume, grant, take over or refuse.

use super::{
    super::command::LockDocuments, Change, Decision, DocumentKey, DocumentVersion, Done, EndReason, Event, EventKind,
    Lock, Memo, MemoLock, NotRead, Outcome, Refusal, State, Timestamp, as_it_is, distinct, line, live_locks, recall,
    remember,
};
use crate::locking::{Activity, DocumentRow, Failed, Holder, LeaseId, Metadata, Span, TakeOver, Wanted};

pub(super) fn lock(
    state: &State,
    command: &LockDocuments,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<Outcome, NotRead> {
    let wanted = distinct(&command.wanted, |wanted| &wanted.key).map(|wanted| match state.documents.get(&wanted.key) {
        Some(row) => Ok((wanted, row)),
        None => Err(NotRead(wanted.key.clone())),
    });
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
    Ok(all_or_nothing(state, command, &wanted, now, decision))
}

fn all_or_nothing(
    state: &State,
    command: &LockDocuments,
    documents: &[(&Wanted, &DocumentRow)],
    now: Timestamp,
    decision: &mut Decision,
) -> Outcome {
    let Some((first, _)) = documents.first() else { return Outcome::default() };
    let memo_key = command.request.as_ref().map(|request| request.memo_key(&command.tenant, &command.holder.owner));
    if let (Some(request), Some(key)) = (&command.request, &memo_key) {
        match recall(state, key, request, now) {
            Err(refusal) => return Outcome::failed(&first.key, refusal),
            Ok(Some(memo)) => return again(state, command, documents, memo, now),
            Ok(None) => {}
        }
    }
    let (changes, events) = (decision.changes.len(), decision.events.len());
    let mut outcome = Outcome::default();
    let mut granted = Vec::new();
    for (wanted, row) in documents {
        match one(state, command, (wanted, row), changes, now, decision) {
            Ok(Held { lock, resumed }) => {
                granted.push(MemoLock { lease_id: lock.lease_id, fencing_token: lock.fencing_token, resumed });
                let asks = state.asks_for(&lock).cloned().collect();
                outcome.done.push(Done::Live { lock, resumed, asks, activity_changed: false });
            }
            Err(Refusal::Held { lock, is_you, .. }) if command.waits => {
                // A ticket is not remembered: its grant will be.
                return match line::join(state, command, wanted, (lock, is_you), now, decision) {
                    Ok(done) => Outcome { done: vec![done], failed: Vec::new() },
                    Err(refusal) => Outcome::failed(&wanted.key, refusal),
                };
            }
            Err(refusal) => outcome.failed.push(Failed { key: wanted.key.clone(), refusal }),
        }
    }
    if !outcome.failed.is_empty() {
        decision.forget_after(changes, events);
        outcome.done.clear();
        return outcome;
    }
    if let (Some(request), Some(key)) = (&command.request, memo_key) {
        decision.changes.push(remember(key, request, granted, now));
    }
    outcome
}

struct Held {
    lock: Lock,
    resumed: bool,
}

/// The request came before: the same locks while they live, else how they ended; never a fresh grant.
fn again(
    state: &State,
    command: &LockDocuments,
    documents: &[(&Wanted, &DocumentRow)],
    memo: &Memo,
    now: Timestamp,
) -> Outcome {
    let mut outcome = Outcome::default();
    for ((wanted, _), granted) in documents.iter().zip(&memo.locks) {
        match as_it_is(state, &wanted.key, &command.holder.owner, granted, now) {
            Ok(lock) => {
                let asks = state.asks_for(lock).cloned().collect();
                let (lock, resumed) = (lock.clone(), granted.resumed);
                outcome.done.push(Done::Live { lock, resumed, asks, activity_changed: false });
            }
            Err(refusal) => outcome.failed.push(Failed { key: wanted.key.clone(), refusal }),
        }
    }
    if !outcome.failed.is_empty() {
        outcome.done.clear();
    }
    outcome
}

/// `from`: where the command's own changes begin.
fn one(
    state: &State,
    command: &LockDocuments,
    (wanted, row): (&Wanted, &DocumentRow),
    from: usize,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<Held, Refusal> {
    let live: Vec<&Lock> = live_locks(state, &wanted.key, now).collect();
    let capacity = capacity(state, command, (wanted, row), &live, now)?;
    if let Some(lock) = live.iter().find(|lock| lock.holder.is_same_session(&command.holder)) {
        return Ok(resume(lock, command, now, decision));
    }
    let slot = if let Some(slot) = free_slot(state, &wanted.key, capacity, now) {
        slot
    } else {
        let Some(takeover) = command.takeover else { return Err(held(&live, command)) };
        let victim = victim(&live, command, takeover)?;
        decision.end(state, victim, EndReason::TakenOver, Some(&command.holder.owner), None, now);
        victim.slot
    };
    check_limit(state, command, &decision.changes[from..])?;
    let grant = Grant {
        key: &wanted.key,
        lease_id: wanted.lease_id,
        slot,
        capacity,
        holder: &command.holder,
        ttl_seconds: command.ttl_seconds.unwrap_or(state.policy.ttl_seconds),
        span: Span::Ttl,
        metadata: command.metadata.clone(),
        document_version: command.document_version.clone(),
        waited_ms: None,
        is_wanted: state.lines.get(&wanted.key).is_some_and(|line| !line.is_empty(now)),
    };
    Ok(Held { lock: decision.grant(state, row, grant, now), resumed: false })
}

/// Returns the first slot that no live lock has.
pub(super) fn free_slot(state: &State, key: &DocumentKey, capacity: u32, now: Timestamp) -> Option<u32> {
    (0..capacity).find(|slot| live_locks(state, key, now).all(|lock| lock.slot != *slot))
}

/// Fixed while locks or tickets live; 1 for a document that has none, unless the command says otherwise.
fn capacity(
    state: &State,
    command: &LockDocuments,
    (wanted, row): (&Wanted, &DocumentRow),
    live: &[&Lock],
    now: Timestamp,
) -> Result<u32, Refusal> {
    if live.is_empty() && state.lines.get(&wanted.key).is_none_or(|line| line.is_empty(now)) {
        return Ok(command.capacity.unwrap_or(1));
    }
    let in_force = row.capacity;
    match command.capacity {
        Some(capacity) if capacity != in_force => Err(Refusal::CapacityMismatch { in_force }),
        _ => Ok(in_force),
    }
}

fn resume(lock: &Lock, command: &LockDocuments, now: Timestamp, decision: &mut Decision) -> Held {
    let ttl_seconds = command.ttl_seconds.unwrap_or(lock.ttl_seconds);
    let resumed = Lock {
        hold: lock.hold.saturating_add(1),
        metadata: command.metadata.clone().or_else(|| lock.metadata.clone()),
        holder: command.holder.clone(),
        ..lock.extended(ttl_seconds, now)
    };
    decision.changes.push(Change::Keep(resumed.clone()));
    Held { lock: resumed, resumed: true }
}

/// `changes` are those of the command itself: what came before is in the state.
pub(super) fn check_limit(state: &State, command: &LockDocuments, changes: &[Change]) -> Result<(), Refusal> {
    let limit = state.policy.locks_per_owner;
    let owner = (command.tenant.clone(), command.holder.owner.clone());
    let mut count = i64::from(state.owner_locks.get(&owner).copied().unwrap_or_default());
    for change in changes {
        match change {
            Change::Grant(_) => count += 1,
            Change::End { lock, .. } if lock.holder.owner == command.holder.owner => count -= 1,
            Change::End { .. }
            | Change::Keep(_)
            | Change::Document { .. }
            | Change::Version { .. }
            | Change::Remember { .. }
            | Change::Forget(_)
            | Change::Queue(_)
            | Change::Dequeue(_)
            | Change::Ask(_)
            | Change::Answer(_) => {}
        }
    }
    if limit > 0 && count >= i64::from(limit) {
        return Err(Refusal::LimitReached { limit });
    }
    Ok(())
}

/// A new lock, to whomever and for whatever reason.
pub(super) struct Grant<'a> {
    pub key: &'a DocumentKey,
    pub lease_id: LeaseId,
    pub slot: u32,
    pub capacity: u32,
    pub holder: &'a Holder,
    pub ttl_seconds: u32,
    pub span: Span,
    pub metadata: Option<Metadata>,
    /// What the holder starts from, if no holder before it has left a version.
    pub document_version: Option<DocumentVersion>,
    pub waited_ms: Option<i64>,
    pub is_wanted: bool,
}

impl Decision {
    /// Every grant goes through here: it takes the next token.
    pub(super) fn grant(&mut self, state: &State, row: &DocumentRow, grant: Grant<'_>, now: Timestamp) -> Lock {
        let version = row.version.clone().or(grant.document_version);
        let fencing_token = row.fencing_token.max(state.token_floor) + 1;
        let expires_at = match grant.span {
            Span::Ttl => now.plus_seconds(grant.ttl_seconds),
            Span::Linger(millis) | Span::Claim(millis) => now.plus_millis(millis.into()),
        };
        let lock = Lock {
            key: grant.key.clone(),
            slot: grant.slot,
            lease_id: grant.lease_id,
            hold: 1,
            fencing_token,
            holder: grant.holder.clone(),
            acquired_at: now,
            expires_at,
            due_at: expires_at,
            ttl_seconds: grant.ttl_seconds,
            metadata: grant.metadata,
            document_version: version.clone(),
            span: grant.span,
            activity: Activity::Active,
            active_at: now,
            is_wanted: grant.is_wanted,
            extend_ids: Vec::new(),
        };
        let row = DocumentRow { fencing_token, capacity: grant.capacity, version };
        self.changes.push(Change::Document { key: grant.key.clone(), row });
        self.changes.push(Change::Grant(lock.clone()));
        let kind = EventKind::Locked { waited_ms: grant.waited_ms };
        self.events.push(Event { at: now, lock: lock.clone(), kind });
        lock
    }
}

/// Whose lock a full document loses: the one with the expected token, else the caller's own, else the oldest.
fn victim<'s>(live: &[&'s Lock], command: &LockDocuments, takeover: TakeOver) -> Result<&'s Lock, Refusal> {
    let is_own = |lock: &&&Lock| lock.holder.owner == command.holder.owner;
    let by_age = |lock: &&&Lock| lock.fencing_token;
    let found = match takeover.expected_token {
        Some(token) => live.iter().find(|lock| lock.fencing_token == token),
        None => live.iter().filter(is_own).min_by_key(by_age).or_else(|| live.iter().min_by_key(by_age)),
    };
    match found {
        None => Err(held(live, command)),
        Some(lock) if is_own(&lock) || takeover.of_others => Ok(lock),
        Some(lock) => Err(Refusal::TakeOverForbidden { lock: Box::new((*lock).clone()) }),
    }
}

/// Shows the caller its own lock if it has one here, else the one that ends first.
fn held(live: &[&Lock], command: &LockDocuments) -> Refusal {
    let is_you = |lock: &Lock| lock.holder.owner == command.holder.owner;
    let shown = live.iter().min_by_key(|lock| (!is_you(lock), lock.expires_at, lock.fencing_token));
    match (shown, live.iter().map(|lock| lock.expires_at).min()) {
        (Some(lock), Some(free_at)) => Refusal::Held { lock: Box::new((*lock).clone()), is_you: is_you(lock), free_at },
        _ => Refusal::NotFound,
    }
}
