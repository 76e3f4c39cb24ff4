//! The waiting line: joining it, being served, leaving it.

use super::{
    super::{CLAIM_MS, LeaveLine, Line, LockDocuments, Span, TICKET_MS, Ticket, TicketName, outcome::Done},
    Change, Decision, DocumentKey, EndReason, Lock, MemoLock, NotRead, Outcome, Refusal, State, Timestamp,
    grant::{self, Grant, free_slot},
    live_locks, remember,
};
use crate::locking::Wanted;

/// Gives every free slot to the first live ticket, until there are no more of either.
pub(super) fn serve(
    state: &mut State,
    key: &DocumentKey,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), NotRead> {
    while let Some((ticket, slot)) = next(state, key, now)? {
        let before = decision.changes.len();
        decision.changes.push(Change::Dequeue(ticket.clone()));
        // Whoever got the lock by another way meanwhile, such as a handover, does not wait any more.
        if !live_locks(state, key, now).any(|lock| lock.holder.is_same_session(&ticket.holder)) {
            grant_to(state, &ticket, slot, now, decision)?;
        }
        decision.apply_after(before, state);
    }
    Ok(())
}

fn next(state: &State, key: &DocumentKey, now: Timestamp) -> Result<Option<(Ticket, u32)>, NotRead> {
    let not_read = || NotRead(key.clone());
    let Some(line) = state.lines.get(key).filter(|line| !line.is_empty(now)) else { return Ok(None) };
    let row = state.documents.get(key).ok_or_else(not_read)?;
    let Some(slot) = free_slot(state, key, row.capacity, now) else { return Ok(None) };
    let ticket = line.first(now).map_err(|()| not_read())?;
    Ok(ticket.map(|ticket| (ticket.clone(), slot)))
}

/// The grant ends after a short while unless its holder claims it: it may have gone away unnoticed.
fn grant_to(state: &State, ticket: &Ticket, slot: u32, now: Timestamp, decision: &mut Decision) -> Result<(), NotRead> {
    let row = state.documents.get(&ticket.key).ok_or_else(|| NotRead(ticket.key.clone()))?;
    let grant = Grant {
        key: &ticket.key,
        lease_id: ticket.lease_id,
        slot,
        capacity: row.capacity,
        holder: &ticket.holder,
        ttl_seconds: ticket.ttl_seconds,
        span: Span::Claim(CLAIM_MS),
        metadata: ticket.metadata.clone(),
        document_version: None,
        waited_ms: Some(now.millis_since(ticket.joined_at)),
        is_wanted: state.lines.get(&ticket.key).is_some_and(|line| waits_behind(line, ticket, now)),
    };
    let lock = decision.grant(state, row, grant, now);
    if let Some(request) = &ticket.request {
        let memo = MemoLock { lease_id: lock.lease_id, fencing_token: lock.fencing_token, resumed: false };
        let key = request.memo_key(&ticket.key.tenant, &ticket.holder.owner);
        if let Change::Remember { key, memo, .. } = remember(key, request, vec![memo], now) {
            decision.changes.push(Change::Remember { key, memo, if_unused: true });
        }
    }
    Ok(())
}

fn waits_behind(line: &Line, ticket: &Ticket, now: Timestamp) -> bool {
    line.read_to.is_some() || line.tickets.values().any(|other| other.place != ticket.place && other.is_live(now))
}

/// Takes a place at the end of the line, or the one that the session or the request has already.
pub(super) fn join(
    state: &State,
    command: &LockDocuments,
    wanted: &Wanted,
    (lock, is_you): (Box<Lock>, bool),
    now: Timestamp,
    decision: &mut Decision,
) -> Result<Done, Refusal> {
    let line = state.lines.get(&wanted.key);
    let known = line.into_iter().flat_map(|line| line.tickets.values());
    let known = known.filter(|ticket| ticket.is_live(now)).find(|ticket| is_same(ticket, command));
    if let (Some(before), Some(request)) = (known.and_then(|ticket| ticket.request.as_ref()), &command.request)
        && before.id == request.id
        && before.fingerprint != request.fingerprint
    {
        return Err(Refusal::RequestIdReused);
    }
    if known.is_none() {
        // Whoever may not get one more would get it in the end: nobody is refused when its turn has come.
        grant::check_limit(state, command, &[])?;
        check_limit(state, command)?;
    }
    let ticket = Ticket {
        key: wanted.key.clone(),
        place: known.map_or_else(|| line.map_or(0, |line| line.last_place) + 1, |ticket| ticket.place),
        lease_id: known.map_or(wanted.lease_id, |ticket| ticket.lease_id),
        holder: command.holder.clone(),
        ttl_seconds: command.ttl_seconds.unwrap_or(state.policy.ttl_seconds),
        metadata: command.metadata.clone(),
        request: command.request.clone().or_else(|| known.and_then(|ticket| ticket.request.clone())),
        joined_at: known.map_or(now, |ticket| ticket.joined_at),
        expires_at: now.plus_millis(TICKET_MS),
    };
    for lock in live_locks(state, &wanted.key, now).filter(|lock| !lock.is_wanted) {
        decision.changes.push(Change::Keep(Lock { is_wanted: true, ..lock.clone() }));
    }
    decision.changes.push(Change::Queue(ticket.clone()));
    Ok(Done::Waiting { ticket, lock, is_you })
}

fn is_same(ticket: &Ticket, command: &LockDocuments) -> bool {
    let id = |request: &Option<super::Request>| request.as_ref().map(|request| request.id.clone());
    let is_same_request = command.request.is_some() && id(&ticket.request) == id(&command.request);
    ticket.holder.owner == command.holder.owner
        && (ticket.holder.is_same_session(&command.holder) || (command.holder.session.is_none() && is_same_request))
}

fn check_limit(state: &State, command: &LockDocuments) -> Result<(), Refusal> {
    let limit = state.policy.waits_per_owner;
    let owner = (command.tenant.clone(), command.holder.owner.clone());
    let count = state.owner_tickets.get(&owner).copied().unwrap_or_default();
    if limit > 0 && count >= limit { Err(Refusal::TooManyWaits { limit }) } else { Ok(()) }
}

pub(super) fn leave(state: &State, command: &LeaveLine, now: Timestamp, decision: &mut Decision) -> Outcome {
    let is_named = |lease_id, holder: &super::super::Holder| {
        holder.owner == command.owner
            && match &command.ticket {
                TicketName::Lease(named) => lease_id == *named,
                TicketName::Session(session) => holder.session.as_ref() == Some(session),
            }
    };
    // A dead ticket may have been deleted or not, and the session may have got another one since.
    let tickets = state.lines.get(&command.key).into_iter().flat_map(|line| line.tickets.values());
    let mut tickets = tickets.filter(|ticket| ticket.is_live(now));
    if let Some(ticket) = tickets.find(|ticket| is_named(ticket.lease_id, &ticket.holder)) {
        decision.changes.push(Change::Dequeue(ticket.clone()));
        return Outcome { done: vec![Done::LeftLine], failed: Vec::new() };
    }
    let is_unclaimed = |lock: &&Lock| matches!(lock.span, Span::Claim(_)) && is_named(lock.lease_id, &lock.holder);
    if let Some(lock) = live_locks(state, &command.key, now).find(is_unclaimed) {
        let done = decision.end(state, lock, EndReason::Released, Some(&command.owner), None, now);
        return Outcome { done: vec![done], failed: Vec::new() };
    }
    Outcome::failed(&command.key, Refusal::NotFound)
}
