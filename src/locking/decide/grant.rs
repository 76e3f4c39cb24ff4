//! Locking: resume, grant, take over or refuse.

use super::{
    super::command::LockDocuments, Change, Decision, Done, EndReason, Event, EventKind, Lock, Memo, MemoLock, NotRead,
    Outcome, Refusal, State, Timestamp, as_it_is, distinct, live_locks, recall, remember,
};
use crate::locking::{DocumentRow, Failed, TakeOver, Wanted};

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
        match one(state, command, (wanted, row), now, decision) {
            Ok(Held { lock, resumed }) => {
                granted.push(MemoLock { lease_id: lock.lease_id, fencing_token: lock.fencing_token, resumed });
                outcome.done.push(Done::Live { lock, resumed });
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
            Ok(lock) => outcome.done.push(Done::Live { lock: lock.clone(), resumed: granted.resumed }),
            Err(refusal) => outcome.failed.push(Failed { key: wanted.key.clone(), refusal }),
        }
    }
    if !outcome.failed.is_empty() {
        outcome.done.clear();
    }
    outcome
}

fn one(
    state: &State,
    command: &LockDocuments,
    (wanted, row): (&Wanted, &DocumentRow),
    now: Timestamp,
    decision: &mut Decision,
) -> Result<Held, Refusal> {
    let live: Vec<&Lock> = live_locks(state, &wanted.key, now).collect();
    let capacity = capacity(command, row, &live)?;
    if let Some(lock) = live.iter().find(|lock| lock.holder.is_same_session(&command.holder)) {
        return Ok(resume(lock, command, now, decision));
    }
    if let Some(slot) = (0..capacity).find(|slot| live.iter().all(|lock| lock.slot != *slot)) {
        return grant(state, command, (wanted, row), Seat { slot, capacity }, now, decision);
    }
    let Some(takeover) = command.takeover else { return Err(held(&live, command)) };
    let victim = victim(&live, command, takeover)?;
    decision.end(victim, EndReason::TakenOver, Some(&command.holder.owner), None, now);
    grant(state, command, (wanted, row), Seat { slot: victim.slot, capacity }, now, decision)
}

/// Fixed while locks live; 1 for a document that has none, unless the command says otherwise.
fn capacity(command: &LockDocuments, row: &DocumentRow, live: &[&Lock]) -> Result<u32, Refusal> {
    if live.is_empty() {
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

fn check_limit(state: &State, command: &LockDocuments, decision: &Decision) -> Result<(), Refusal> {
    let limit = state.policy.locks_per_owner;
    let owner = (command.tenant.clone(), command.holder.owner.clone());
    let mut count = i64::from(state.owner_locks.get(&owner).copied().unwrap_or_default());
    for change in &decision.changes {
        match change {
            Change::Grant(_) => count += 1,
            Change::End { lock, .. } if lock.holder.owner == command.holder.owner => count -= 1,
            Change::End { .. }
            | Change::Keep(_)
            | Change::Document { .. }
            | Change::Version { .. }
            | Change::Remember { .. }
            | Change::Forget(_) => {}
        }
    }
    if limit > 0 && count >= i64::from(limit) {
        return Err(Refusal::LimitReached { limit });
    }
    Ok(())
}

struct Seat {
    slot: u32,
    capacity: u32,
}

fn grant(
    state: &State,
    command: &LockDocuments,
    (wanted, row): (&Wanted, &DocumentRow),
    Seat { slot, capacity }: Seat,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<Held, Refusal> {
    check_limit(state, command, decision)?;
    let version = row.version.clone().or_else(|| command.document_version.clone());
    let fencing_token = row.fencing_token.max(state.token_floor) + 1;
    let ttl_seconds = command.ttl_seconds.unwrap_or(state.policy.ttl_seconds);
    let expires_at = now.plus_seconds(ttl_seconds);
    let lock = Lock {
        key: wanted.key.clone(),
        slot,
        lease_id: wanted.lease_id,
        hold: 1,
        fencing_token,
        holder: command.holder.clone(),
        acquired_at: now,
        expires_at,
        due_at: expires_at,
        ttl_seconds,
        metadata: command.metadata.clone(),
        document_version: version.clone(),
        linger_ms: None,
        extend_ids: Vec::new(),
    };
    let row = DocumentRow { fencing_token, capacity, version };
    decision.changes.push(Change::Document { key: wanted.key.clone(), row });
    decision.changes.push(Change::Grant(lock.clone()));
    decision.events.push(Event { at: now, lock: lock.clone(), kind: EventKind::Locked });
    Ok(Held { lock, resumed: false })
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
