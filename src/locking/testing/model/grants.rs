//! Locking: resume, grant, take over or refuse.

use super::{Known, Model, ToldEvent, all_or_nothing, each, failed, firsts, single};
use crate::locking::{
    Activity, DocumentKey, Done, EndReason, Holder, LeaseId, Lock, LockDocuments, Metadata, Outcome, Refusal, Span,
    Wanted,
    names::{DocumentVersion, OwnerId},
};

pub(super) struct NewLock<'a> {
    pub key: &'a DocumentKey,
    pub lease: LeaseId,
    pub slot: u32,
    pub capacity: u32,
    pub holder: &'a Holder,
    pub ttl_seconds: u32,
    pub span: Span,
    pub metadata: Option<Metadata>,
    /// What the holder starts from, if the document has no version yet.
    pub version: Option<DocumentVersion>,
    pub waited_ms: Option<i64>,
}

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
        if let Some(Refusal::Held { lock, is_you, .. }) = outcome.failed.first().map(|failed| failed.refusal.clone())
            && asked.waits
        {
            return single(&keys[0], self.join(asked, &wanted[0], lock, is_you));
        }
        if outcome.failed.is_empty() {
            *self = after;
            self.remember(&asked.holder.owner, asked.request.as_ref(), false, &outcome);
        }
        outcome
    }

    fn lock_one(&mut self, asked: &LockDocuments, wanted: &Wanted) -> Result<Done, Refusal> {
        let live = self.live(&wanted.key);
        let is_own = |lock: &&Lock| lock.holder.owner == asked.holder.owner;
        let in_force = self.capacity_in_force(&wanted.key);
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
        let slot = match (self.free_slot(&wanted.key, capacity), asked.takeover) {
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
        self.check_limit(&asked.holder.owner)?;
        let lock = self.new_lock(NewLock {
            key: &wanted.key,
            lease: wanted.lease_id,
            slot,
            capacity,
            holder: &asked.holder,
            ttl_seconds: asked.ttl_seconds.unwrap_or(self.policy.ttl_seconds),
            span: Span::Ttl,
            metadata: asked.metadata.clone(),
            version: asked.document_version.clone(),
            waited_ms: None,
        });
        Ok(self.live_done(&lock, false))
    }

    fn resume(&mut self, lease: LeaseId, asked: &LockDocuments) -> Done {
        self.set_ttl(lease, asked.ttl_seconds);
        let known = self.known(lease);
        known.lock.hold += 1;
        known.lock.holder = asked.holder.clone();
        let lock = known.lock.clone();
        self.live_done(&lock, true)
    }

    pub(super) fn check_limit(&self, owner: &OwnerId) -> Result<(), Refusal> {
        let is_own = |known: &&Known| known.ended.is_none() && known.lock.holder.owner == *owner;
        let limit = self.policy.locks_per_owner;
        if limit > 0 && self.locks.iter().filter(is_own).count() >= limit as usize {
            return Err(Refusal::LimitReached { limit });
        }
        Ok(())
    }

    pub(super) fn new_lock(&mut self, new: NewLock<'_>) -> Lock {
        let token = self.tokens.entry(new.key.clone()).or_default();
        *token += 1;
        let fencing_token = *token;
        if !self.versions.contains_key(new.key)
            && let Some(version) = new.version
        {
            self.versions.insert(new.key.clone(), version);
        }
        self.capacities.insert(new.key.clone(), new.capacity);
        let span_ms = match new.span {
            Span::Ttl => i64::from(new.ttl_seconds) * 1000,
            Span::Linger(millis) | Span::Claim(millis) => millis.into(),
        };
        let expires_at = self.now.plus_millis(span_ms);
        let lock = Lock {
            key: new.key.clone(),
            slot: new.slot,
            lease_id: new.lease,
            hold: 1,
            fencing_token,
            holder: new.holder.clone(),
            acquired_at: self.now,
            expires_at,
            due_at: expires_at,
            ttl_seconds: new.ttl_seconds,
            metadata: new.metadata,
            document_version: self.versions.get(new.key).cloned(),
            span: new.span,
            activity: Activity::Active,
            active_at: self.now,
            is_wanted: false,
            extend_ids: Vec::new(),
        };
        self.locks.push(Known { lock: lock.clone(), ended: None, rank: 0, heartbeats: Vec::new() });
        let told = ToldEvent::Locked { lease: new.lease, token: fencing_token, waited_ms: new.waited_ms };
        self.log.push((new.key.clone(), told));
        lock
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
