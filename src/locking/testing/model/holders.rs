//! What is asked of locks that are there: heartbeats, renewals and ends.

use super::{Model, ToldEvent, each, failed, firsts, single};
use crate::locking::{
    Activity, DocumentKey, Done, EndReason, Extend, ForceUnlock, LeaseId, Lock, Named, Outcome, Refusal, Release,
    Renew, Span, Unlock, names::DocumentVersion,
};

impl Model {
    /// A heartbeat, a renewal or a resume.
    pub(super) fn set_ttl(&mut self, lease: LeaseId, ttl_seconds: Option<u32>) {
        let now = self.now;
        let lock = &mut self.known(lease).lock;
        lock.ttl_seconds = ttl_seconds.unwrap_or(lock.ttl_seconds);
        lock.span = Span::Ttl;
        lock.expires_at = now.plus_seconds(lock.ttl_seconds);
        lock.due_at = lock.expires_at;
    }

    /// Only a version that the document does not have yet is news.
    pub(super) fn save(&mut self, lease: LeaseId, version: Option<&DocumentVersion>) {
        let key = self.known(lease).lock.key.clone();
        let Some(version) = version.filter(|version| self.versions.get(&key) != Some(*version)) else { return };
        self.versions.insert(key.clone(), version.clone());
        self.known(lease).lock.document_version = Some(version.clone());
        self.log.push((key, ToldEvent::Saved { lease, version: version.clone() }));
    }

    pub(super) fn extend(&mut self, asked: &Extend) -> Outcome {
        let keys = firsts(&asked.keys, Clone::clone);
        match self.past(&asked.owner, asked.request.as_ref()) {
            Some(Err(refusal)) => return Outcome { failed: vec![failed(&keys[0], refusal)], ..Outcome::default() },
            Some(Ok(past)) => return self.as_they_are(&keys, &past),
            None => {}
        }
        let outcome = each(&keys, |key| (key.clone(), self.extend_one(asked, key)));
        if let (true, Some(request)) = (outcome.failed.is_empty(), &asked.request) {
            self.remember(&asked.owner, Some(request), true, &outcome);
            for done in &outcome.done {
                self.known(self.lease_of(done)).heartbeats.push(request.id.clone());
            }
        }
        outcome
    }

    fn extend_one(&mut self, asked: &Extend, key: &DocumentKey) -> Result<Done, Refusal> {
        let lease = self.meant(key, &asked.owner, &asked.named)?;
        self.set_ttl(lease, asked.ttl_seconds);
        self.save(lease, asked.document_version.as_ref());
        let (now, known) = (self.now, self.known(lease));
        let before = known.lock.activity;
        if let Some(activity) = asked.activity {
            known.lock.activity = activity;
            if activity == Activity::Active {
                known.lock.active_at = now;
            }
        }
        let lock = known.lock.clone();
        let asks = self.asks_for(lease);
        Ok(Done::Live { activity_changed: before != lock.activity, lock, resumed: false, asks })
    }

    pub(super) fn unlock(&mut self, asked: &Unlock) -> Outcome {
        let keys = firsts(&asked.keys, Clone::clone);
        match self.past(&asked.owner, asked.request.as_ref()) {
            Some(Err(refusal)) => return Outcome { failed: vec![failed(&keys[0], refusal)], ..Outcome::default() },
            Some(Ok(past)) => {
                let token = |lease| self.clone().known(lease).lock.fencing_token;
                let told = keys.iter().zip(past.locks).map(|(key, (lease, _))| (key, token(lease)));
                let done = told.map(|(key, fencing_token)| Done::Ended { key: (*key).clone(), fencing_token });
                return Outcome { done: done.collect(), failed: Vec::new() };
            }
            None => {}
        }
        let outcome = each(&keys, |key| {
            let done = self.meant(key, &asked.owner, &asked.named).map(|lease| {
                self.save(lease, asked.document_version.as_ref());
                self.end(lease, EndReason::Released, self.now)
            });
            ((*key).clone(), done)
        });
        if outcome.failed.is_empty() {
            self.remember(&asked.owner, asked.request.as_ref(), false, &outcome);
        }
        outcome
    }

    pub(super) fn release(&mut self, asked: &Release) -> Outcome {
        let named = Named { lease_id: Some(asked.lease_id), ..Named::default() };
        let now = self.now;
        let done = self.meant(&asked.key, &asked.owner, &named).and_then(|lease| {
            let lock = &mut self.known(lease).lock;
            if lock.hold != asked.hold {
                return Err(Refusal::Mismatch);
            }
            if asked.linger_ms == 0 {
                return Ok(self.end(lease, EndReason::Released, now));
            }
            let left_ms = u32::try_from(lock.expires_at.millis_since(now)).unwrap();
            let linger_ms = left_ms.min(asked.linger_ms);
            lock.span = Span::Linger(linger_ms);
            lock.expires_at = now.plus_millis(linger_ms.into());
            lock.due_at = lock.expires_at;
            let lock = lock.clone();
            Ok(self.live_done(&lock, false))
        });
        single(&asked.key, done)
    }

    pub(super) fn force_unlock(&mut self, asked: &ForceUnlock) -> Outcome {
        each(&firsts(&asked.targets, |(_, lease)| *lease), |(key, lease)| {
            let is_live = self.live(key).iter().any(|lock| lock.lease_id == *lease);
            let done = is_live.then(|| self.end(*lease, EndReason::Revoked, self.now));
            (key.clone(), done.ok_or(Refusal::NotFound))
        })
    }

    pub(super) fn renew(&mut self, asked: &Renew) -> Outcome {
        each(&firsts(&asked.leases, |(_, lease)| *lease), |(key, lease)| {
            // Its page may have said goodbye since it answered the ping.
            let is_kept = |lock: &Lock| lock.lease_id == *lease && lock.span.linger_ms().is_none();
            if !self.live(key).iter().any(is_kept) {
                return (key.clone(), Err(Refusal::NotFound));
            }
            self.set_ttl(*lease, None);
            let lock = self.known(*lease).lock.clone();
            (key.clone(), Ok(Done::Live { lock, resumed: false, asks: Vec::new(), activity_changed: false }))
        })
    }
}
