//! The waiting line: first come, first served, as far as those who came are still there.

use super::{Model, Past, grants::NewLock};
use crate::locking::{
    DocumentKey, Done, EndReason, Holder, LeaseId, LeaveLine, Lock, LockDocuments, Refusal, Span, Ticket, TicketName,
    Wanted, names::OwnerId,
};

const LIFE_MS: i64 = 15_000;
pub(super) const CLAIM_MS: u32 = 5000;

#[derive(Debug, Clone)]
pub(super) struct Waiter {
    ticket: Ticket,
    /// It was served, it left, or it was cleared away.
    has_gone: bool,
}

impl Model {
    /// Live tickets of a document, the first to come first.
    pub fn waiting(&self, key: &DocumentKey) -> Vec<LeaseId> {
        self.waiters().filter(|waiter| waiter.ticket.key == *key).map(|waiter| waiter.ticket.lease_id).collect()
    }

    fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        let is_live = |waiter: &&Waiter| !waiter.has_gone && waiter.ticket.expires_at > self.now;
        self.line.iter().filter(is_live)
    }

    fn waiter(&mut self, lease: LeaseId) -> &mut Waiter {
        self.line.iter_mut().find(|waiter| waiter.ticket.lease_id == lease).unwrap()
    }

    /// How many locks the document may have, if that is settled: somebody holds or waits.
    pub(super) fn capacity_in_force(&self, key: &DocumentKey) -> Option<u32> {
        let is_free = self.live(key).is_empty() && self.waiting(key).is_empty();
        if is_free { None } else { self.capacities.get(key).copied() }
    }

    pub(super) fn free_slot(&self, key: &DocumentKey, capacity: u32) -> Option<u32> {
        let live = self.live(key);
        (0..capacity).find(|slot| live.iter().all(|lock| lock.slot != *slot))
    }

    /// Whoever came first and is still there gets what is free.
    pub(super) fn serve(&mut self, key: &DocumentKey) {
        loop {
            let Some(first) = self.waiting(key).first().copied() else { return };
            let Some(slot) = self.free_slot(key, self.capacities[key]) else { return };
            let waiter = self.waiter(first);
            waiter.has_gone = true;
            let ticket = waiter.ticket.clone();
            if !self.has_lock(&ticket) {
                self.grant_to(&ticket, slot);
            }
        }
    }

    /// Of the same session, which has got it in another way meanwhile.
    fn has_lock(&self, ticket: &Ticket) -> bool {
        let is_same =
            |lock: &Lock| lock.holder.owner == ticket.holder.owner && lock.holder.session == ticket.holder.session;
        ticket.holder.session.is_some() && self.live(&ticket.key).iter().any(is_same)
    }

    fn grant_to(&mut self, ticket: &Ticket, slot: u32) {
        let lock = self.new_lock(NewLock {
            key: &ticket.key,
            lease: ticket.lease_id,
            slot,
            capacity: self.capacities[&ticket.key],
            holder: &ticket.holder,
            ttl_seconds: ticket.ttl_seconds,
            span: Span::Claim(CLAIM_MS),
            metadata: ticket.metadata.clone(),
            version: None,
            waited_ms: Some(self.now.millis_since(ticket.joined_at)),
        });
        // Whoever has used the id meanwhile keeps it.
        if let Some(request) = ticket.request.as_ref()
            && self.past(&ticket.holder.owner, Some(request)).is_none()
        {
            let locks = vec![(lock.lease_id, false)];
            let past = Past { fingerprint: request.fingerprint, at: self.now, is_heartbeat: false, locks };
            self.requests.insert((ticket.holder.owner.clone(), request.id.clone()), past);
        }
    }

    /// It is held by `shown`.
    pub(super) fn join(
        &mut self,
        asked: &LockDocuments,
        wanted: &Wanted,
        shown: Box<Lock>,
        is_you: bool,
    ) -> Result<Done, Refusal> {
        let id = asked.request.as_ref().map(|request| &request.id);
        let is_mine = |ticket: &Ticket| {
            let has_id = id.is_some() && ticket.request.as_ref().map(|request| &request.id) == id;
            let is_same_session = match &asked.holder.session {
                Some(session) => ticket.holder.session.as_ref() == Some(session),
                None => has_id,
            };
            ticket.key == wanted.key && ticket.holder.owner == asked.holder.owner && is_same_session
        };
        let mine = self.waiters().find(|waiter| is_mine(&waiter.ticket)).map(|waiter| waiter.ticket.clone());
        let Some(mut ticket) = mine else { return self.join_anew(asked, wanted, shown, is_you) };
        if let (Some(before), Some(request)) = (&ticket.request, &asked.request)
            && before.id == request.id
            && before.fingerprint != request.fingerprint
        {
            return Err(Refusal::RequestIdReused);
        }
        ticket.holder = asked.holder.clone();
        ticket.ttl_seconds = asked.ttl_seconds.unwrap_or(self.policy.ttl_seconds);
        ticket.metadata.clone_from(&asked.metadata);
        ticket.request = asked.request.clone().or(ticket.request);
        ticket.expires_at = self.now.plus_millis(LIFE_MS);
        self.waiter(ticket.lease_id).ticket = ticket.clone();
        Ok(Done::Waiting { ticket, lock: shown, is_you })
    }

    fn join_anew(
        &mut self,
        asked: &LockDocuments,
        wanted: &Wanted,
        shown: Box<Lock>,
        is_you: bool,
    ) -> Result<Done, Refusal> {
        self.check_limit(&asked.holder.owner)?;
        let limit = self.policy.waits_per_owner;
        let is_own = |owner: &OwnerId| *owner == asked.holder.owner;
        if limit > 0 && self.waiters().filter(|waiter| is_own(&waiter.ticket.holder.owner)).count() >= limit as usize {
            return Err(Refusal::TooManyWaits { limit });
        }
        let ticket = Ticket {
            key: wanted.key.clone(),
            place: 0,
            lease_id: wanted.lease_id,
            holder: asked.holder.clone(),
            ttl_seconds: asked.ttl_seconds.unwrap_or(self.policy.ttl_seconds),
            metadata: asked.metadata.clone(),
            request: asked.request.clone(),
            joined_at: self.now,
            expires_at: self.now.plus_millis(LIFE_MS),
        };
        self.line.push(Waiter { ticket: ticket.clone(), has_gone: false });
        Ok(Done::Waiting { ticket, lock: shown, is_you })
    }

    /// A place in line, or a grant that came of it and that nobody has claimed.
    pub(super) fn leave(&mut self, asked: &LeaveLine) -> Result<Done, Refusal> {
        let is_named = |lease: LeaseId, holder: &Holder| {
            holder.owner == asked.owner
                && match &asked.ticket {
                    TicketName::Lease(named) => *named == lease,
                    TicketName::Session(session) => holder.session.as_ref() == Some(session),
                }
        };
        let here = self.waiters().map(|waiter| &waiter.ticket).filter(|ticket| ticket.key == asked.key);
        let named = here.filter(|ticket| is_named(ticket.lease_id, &ticket.holder));
        let named: Vec<_> = named.map(|ticket| ticket.lease_id).collect();
        if let Some(lease) = named.first().copied() {
            self.waiter(lease).has_gone = true;
            return Ok(Done::LeftLine);
        }
        let live = self.live(&asked.key);
        let unclaimed = live.iter().filter(|lock| matches!(lock.span, Span::Claim(_)));
        let lock = unclaimed.into_iter().find(|lock| is_named(lock.lease_id, &lock.holder)).ok_or(Refusal::NotFound)?;
        Ok(self.end(lock.lease_id, EndReason::Released, self.now))
    }

    pub(super) fn renew_tickets(&mut self, leases: &[LeaseId]) -> Vec<LeaseId> {
        let live: Vec<_> = self.waiters().map(|waiter| waiter.ticket.lease_id).collect();
        let (here, gone): (Vec<_>, Vec<_>) = leases.iter().copied().partition(|lease| live.contains(lease));
        for lease in here {
            self.waiter(lease).ticket.expires_at = self.now.plus_millis(LIFE_MS);
        }
        gone
    }

    pub(super) fn delete_dead_tickets(&mut self) -> usize {
        let now = self.now;
        let dead = self.line.iter_mut().filter(|waiter| !waiter.has_gone && waiter.ticket.expires_at <= now);
        dead.map(|waiter| waiter.has_gone = true).count()
    }
}
