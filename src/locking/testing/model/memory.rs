//! What is known of the past: which lock is meant, how one ended, what a request did when it was sent before.

use super::{Known, Model, Past, each};
use crate::locking::{DocumentKey, Done, LeaseId, Lock, Named, Outcome, Refusal, Request, names::OwnerId};

const DAY_MS: i64 = 86_400_000;

impl Model {
    /// Decision 0004, step by step.
    pub(super) fn meant(&self, key: &DocumentKey, owner: &OwnerId, named: &Named) -> Result<LeaseId, Refusal> {
        let (own, others): (Vec<_>, Vec<_>) = self.live(key).into_iter().partition(|lock| lock.holder.owner == *owner);
        let is_nothing_named = named.lease_id.is_none() && named.session.is_none();
        let fits = |lock: &&Lock| {
            named.lease_id.is_none_or(|lease| lease == lock.lease_id)
                && (named.session.is_none() || named.session == lock.holder.session)
                && named.hold.is_none_or(|hold| hold == lock.hold)
                && (!is_nothing_named || (own.len() == 1 && lock.holder.session.is_none()))
        };
        if let Some(lock) = own.iter().find(fits) {
            return Ok(lock.lease_id);
        }
        let ended = |memory_ms: i64, is_it: &dyn Fn(&Lock) -> bool| {
            let is_mine = |known: &&Known| known.lock.key == *key && known.lock.holder.owner == *owner;
            let of_mine = self.locks.iter().filter(is_mine).filter(|known| known.ended.is_some() && is_it(&known.lock));
            let ending = of_mine.max_by_key(|known| known.rank)?.ended.as_ref()?;
            (self.now.millis_since(ending.at) < memory_ms).then_some(Refusal::Ended(ending.reason))
        };
        let a_day = DAY_MS.min(self.policy.event_retention_ms);
        let not_owner = others.first().map(|lock| Refusal::NotOwner { lock: Box::new(lock.clone()) });
        let refusal = match (named.lease_id, &named.session) {
            (Some(lease), _) => ended(self.policy.event_retention_ms, &|lock| lock.lease_id == lease)
                .or((!own.is_empty()).then_some(Refusal::Mismatch))
                .or(not_owner),
            (None, Some(session)) => (!own.is_empty())
                .then_some(Refusal::Mismatch)
                .or_else(|| ended(a_day, &|lock| lock.holder.session.as_ref() == Some(session)))
                .or(not_owner),
            (None, None) => {
                (!own.is_empty()).then_some(Refusal::Mismatch).or(not_owner).or_else(|| ended(a_day, &|_| true))
            }
        };
        Err(refusal.unwrap_or(Refusal::NotFound))
    }

    /// What this request did when it was sent before, if that is still known.
    pub(super) fn past(&self, owner: &OwnerId, request: Option<&Request>) -> Option<Result<Past, Refusal>> {
        let request = request?;
        let past = self.requests.get(&(owner.clone(), request.id.clone()))?;
        let is_recent = self.now.millis_since(past.at) < self.policy.memo_retention_ms;
        let is_of_last_eight = |(lease, _): &(LeaseId, bool)| {
            let known = self.locks.iter().find(|known| known.lock.lease_id == *lease);
            known.is_some_and(|known| known.heartbeats.iter().rev().take(8).any(|id| *id == request.id))
        };
        if !is_recent || (past.is_heartbeat && !past.locks.iter().all(is_of_last_eight)) {
            return None;
        }
        let is_same = past.fingerprint == request.fingerprint;
        Some(if is_same { Ok(past.clone()) } else { Err(Refusal::RequestIdReused) })
    }

    pub(super) fn remember(
        &mut self,
        owner: &OwnerId,
        request: Option<&Request>,
        is_heartbeat: bool,
        outcome: &Outcome,
    ) {
        let Some(request) = request else { return };
        let resumed = |done: &Done| matches!(done, Done::Live { resumed: true, .. });
        let locks = outcome.done.iter().map(|done| (self.lease_of(done), resumed(done))).collect();
        let past = Past { fingerprint: request.fingerprint, at: self.now, is_heartbeat, locks };
        self.requests.insert((owner.clone(), request.id.clone()), past);
    }

    pub(super) fn lease_of(&self, done: &Done) -> LeaseId {
        let (key, token) = match done {
            Done::Live { lock, .. } => return lock.lease_id,
            Done::Ended { key, fencing_token } => (key, *fencing_token),
            Done::Waiting { .. } | Done::LeftLine | Done::Asked(_) => panic!("no lock: {done:?}"),
        };
        let is_it = |known: &&Known| known.lock.key == *key && known.lock.fencing_token == token;
        self.locks.iter().find(is_it).unwrap().lock.lease_id
    }

    pub(super) fn as_they_are(&self, keys: &[DocumentKey], past: &Past) -> Outcome {
        let told: Vec<_> = keys.iter().zip(&past.locks).collect();
        each(&told, |(key, (lease, resumed))| {
            let known = self.locks.iter().find(|known| known.lock.lease_id == *lease).unwrap();
            let done = match &known.ended {
                None => Ok(self.live_done(&known.lock, *resumed)),
                Some(ending) => Err(Refusal::Ended(ending.reason)),
            };
            ((*key).clone(), done)
        })
    }
}
