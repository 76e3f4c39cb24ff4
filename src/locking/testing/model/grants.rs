//! Locking: resume, grant, take over or refuse.

use super::{Known, Model, all_or_nothing, each, failed, firsts, live};
use crate::locking::{
    Activity, Done, EndReason, LeaseId, Lock, LockDocuments, Outcome, Refusal, Span, Wanted, names::OwnerId,
};

impl Model {
    pub(super) fn lock(&mut self, asked: &LockDocuments) -> Outcome {
        let wanted = firsts(&asked.wanted, |wanted| wanted.key.clone());
        let keys: Vec<_> = wanted.iter().map(|wanted| wanted.key.clone()).collect();
        match self.past(&asked.holder.owner, asked.request.as_ref()) {
            Some(Err(refusal)) => return Outcome { failed: vec![failed(&keys[0], refusal)], ..Outcome::default() },
            Some(Ok(past)) => return all_or_nothing(self.as_they_are(&keys, &past)),
            None => {}
        }
        let mut after = self.clone();
        let outcome = all_or_nothing(each(&wanted, |wanted| (wanted.key.clone(), after.lock_one(asked, wanted))));
        if outcome.failed.is_empty() {
            *self = after;
            self.remember(&asked.holder.owner, asked.request.as_ref(), false, &outcome);
        }
        outcome
    }

    fn lock_one(&mut self, asked: &LockDocuments, wanted: &Wanted) -> Result<Done, Refusal> {
        let live = self.live(&wanted.key);
        let is_own = |lock: &&Lock| lock.holder.owner == asked.holder.owner;
        let in_force = if live.is_empty() { None } else { self.capacities.get(&wanted.key).copied() };
        if let (Some(in_force), Some(named)) = (in_force, asked.capacity)
            && in_force != named
        {
            return Err(Refusal::CapacityMismatch { in_force });
        }
        let capacity = in_force.or(asked.capacity).unwrap_or(1);
        let has_session = |lock: &&Lock| asked.holder.session.is_some() && lock.holder.session == asked.holder.session;
        if let Some(lock) = live.iter().filter(is_own).find(has_session) {
            return Ok(self.resume(lock.lease_id, asked));
        }
        let mut slots = 0..capacity;
        let free = slots.find(|slot| live.iter().all(|lock| lock.slot != *slot));
        let slot = match (free, asked.takeover) {
            (Some(slot), _) => slot,
            (None, None) => return Err(held(&live, &asked.holder.owner)),
            (None, Some(takeover)) => {
                let own_or_oldest = || live.iter().find(is_own).or(live.first());
                let with_token = |token| live.iter().find(|lock| lock.fencing_token == token);
                let Some(loser) = takeover.expected_token.map_or_else(own_or_oldest, with_token) else {
                    return Err(held(&live, &asked.holder.owner));
                };
                if !is_own(&loser) && !takeover.of_others {
                    return Err(Refusal::TakeOverForbidden { lock: Box::new(loser.clone()) });
                }
                self.end(loser.lease_id, EndReason::TakenOver, self.now);
                loser.slot
            }
        };
        self.grant(asked, wanted, slot, capacity)
    }

    fn resume(&mut self, lease: LeaseId, asked: &LockDocuments) -> Done {
        self.set_ttl(lease, asked.ttl_seconds);
        let known = self.known(lease);
        known.lock.hold += 1;
        live(known.lock.clone(), true)
    }

    fn grant(&mut self, asked: &LockDocuments, wanted: &Wanted, slot: u32, capacity: u32) -> Result<Done, Refusal> {
        let is_own = |known: &&Known| known.ended.is_none() && known.lock.holder.owner == asked.holder.owner;
        let limit = self.policy.locks_per_owner;
        if limit > 0 && self.locks.iter().filter(is_own).count() >= limit as usize {
            return Err(Refusal::LimitReached { limit });
        }
        let token = self.tokens.entry(wanted.key.clone()).or_default();
        *token += 1;
        if !self.versions.contains_key(&wanted.key)
            && let Some(version) = &asked.document_version
        {
            self.versions.insert(wanted.key.clone(), version.clone());
        }
        self.capacities.insert(wanted.key.clone(), capacity);
        let ttl_seconds = asked.ttl_seconds.unwrap_or(self.policy.ttl_seconds);
        let expires_at = self.now.plus_seconds(ttl_seconds);
        let lock = Lock {
            key: wanted.key.clone(),
            slot,
            lease_id: wanted.lease_id,
            hold: 1,
            fencing_token: *token,
            holder: asked.holder.clone(),
            acquired_at: self.now,
            expires_at,
            due_at: expires_at,
            ttl_seconds,
            metadata: asked.metadata.clone(),
            document_version: self.versions.get(&wanted.key).cloned(),
            span: Span::Ttl,
            activity: Activity::Active,
            active_at: self.now,
            is_wanted: false,
            extend_ids: Vec::new(),
        };
        self.locks.push(Known { lock: lock.clone(), ended: None, rank: 0, heartbeats: Vec::new() });
        Ok(live(lock, false))
    }
}

/// The caller's own lock is shown before others', then the one that ends first.
fn held(live: &[Lock], owner: &OwnerId) -> Refusal {
    let mut by_end = live.to_vec();
    by_end.sort_by_key(|lock| (lock.expires_at, lock.fencing_token));
    let free_at = by_end[0].expires_at;
    by_end.sort_by_key(|lock| lock.holder.owner != *owner);
    let shown = by_end[0].clone();
    Refusal::Held { is_you: shown.holder.owner == *owner, lock: Box::new(shown), free_at }
}
