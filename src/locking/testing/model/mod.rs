//! What should be answered, by the contract and by decision 0004, in the plainest way there is: every lock that ever was
//! stays in one list with how it ended, and each question is answered by looking through all of it.
//!
//! It must share nothing with `decide` but the types of questions and answers.

mod grants;
mod memory;

use std::collections::HashMap;

use crate::locking::{
    Command, DocumentKey, Done, EndReason, Ending, Extend, Failed, Fingerprint, ForceUnlock, LeaseId, Lock, Named,
    Outcome, Policy, Refusal, Release, Span, Timestamp, Unlock,
    names::{DocumentVersion, OwnerId, RequestId},
};

#[derive(Debug, Clone, Default)]
pub struct Model {
    policy: Policy,
    now: Timestamp,
    /// In the order of their grants.
    pub locks: Vec<Known>,
    tokens: HashMap<DocumentKey, i64>,
    capacities: HashMap<DocumentKey, u32>,
    versions: HashMap<DocumentKey, DocumentVersion>,
    requests: HashMap<(OwnerId, RequestId), Past>,
    endings: usize,
}

#[derive(Debug, Clone)]
pub struct Known {
    /// As it was last, without what only expiry and heartbeats need to know.
    pub lock: Lock,
    pub ended: Option<Ending>,
    /// How many locks had ended before it did.
    rank: usize,
    heartbeats: Vec<RequestId>,
}

/// A request that succeeded.
#[derive(Debug, Clone)]
struct Past {
    fingerprint: Fingerprint,
    at: Timestamp,
    is_heartbeat: bool,
    locks: Vec<(LeaseId, bool)>,
}

impl Model {
    pub fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    pub fn answer(&mut self, command: &Command, now: Timestamp) -> Outcome {
        self.now = now;
        self.end_overdue();
        match command {
            Command::Lock(lock) => self.lock(lock),
            Command::Extend(extend) => self.extend(extend),
            Command::Unlock(unlock) => self.unlock(unlock),
            Command::Release(release) => self.release(release),
            Command::ForceUnlock(force) => self.force_unlock(force),
            Command::Expire(_) => Outcome::default(),
            Command::Renew(_)
            | Command::LeaveLine(_)
            | Command::Ask(_)
            | Command::Answer(_)
            | Command::CancelAsk(_) => panic!("the histories do not have it yet: {command:?}"),
        }
    }

    /// Oldest first.
    pub fn live(&self, key: &DocumentKey) -> Vec<Lock> {
        let live = self.locks.iter().filter(|known| known.ended.is_none() && known.lock.key == *key);
        live.map(|known| known.lock.clone()).collect()
    }

    fn end_overdue(&mut self) {
        let is_overdue = |known: &&Known| known.ended.is_none() && known.lock.expires_at <= self.now;
        let mut overdue: Vec<_> = self.locks.iter().filter(is_overdue).map(|known| known.lock.clone()).collect();
        overdue.sort_by_key(|lock| lock.expires_at);
        for lock in overdue {
            let lingered = lock.span.linger_ms().is_some();
            self.end(lock.lease_id, if lingered { EndReason::Released } else { EndReason::Expired }, lock.expires_at);
        }
    }

    fn known(&mut self, lease: LeaseId) -> &mut Known {
        self.locks.iter_mut().find(|known| known.lock.lease_id == lease).unwrap()
    }

    fn end(&mut self, lease: LeaseId, reason: EndReason, at: Timestamp) -> Done {
        self.endings += 1;
        let rank = self.endings;
        let known = self.known(lease);
        (known.ended, known.rank) = (Some(Ending { reason, at }), rank);
        Done::Ended { key: known.lock.key.clone(), fencing_token: known.lock.fencing_token }
    }

    /// A heartbeat or a resume.
    fn set_ttl(&mut self, lease: LeaseId, ttl_seconds: Option<u32>) {
        let now = self.now;
        let lock = &mut self.known(lease).lock;
        lock.ttl_seconds = ttl_seconds.unwrap_or(lock.ttl_seconds);
        lock.span = Span::Ttl;
        lock.expires_at = now.plus_seconds(lock.ttl_seconds);
        lock.due_at = lock.expires_at;
    }

    fn extend(&mut self, asked: &Extend) -> Outcome {
        let keys = firsts(&asked.keys, Clone::clone);
        match self.past(&asked.owner, asked.request.as_ref()) {
            Some(Err(refusal)) => return Outcome { failed: vec![failed(&keys[0], refusal)], ..Outcome::default() },
            Some(Ok(past)) => return self.as_they_are(&keys, &past),
            None => {}
        }
        let outcome = each(&keys, |key| {
            let done = self.meant(key, &asked.owner, &asked.named).map(|lease| {
                self.set_ttl(lease, asked.ttl_seconds);
                live(self.known(lease).lock.clone(), false)
            });
            ((*key).clone(), done)
        });
        if let (true, Some(request)) = (outcome.failed.is_empty(), &asked.request) {
            self.remember(&asked.owner, Some(request), true, &outcome);
            for done in &outcome.done {
                self.known(self.lease_of(done)).heartbeats.push(request.id.clone());
            }
        }
        outcome
    }

    fn unlock(&mut self, asked: &Unlock) -> Outcome {
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
                if let Some(version) = &asked.document_version {
                    self.versions.insert((*key).clone(), version.clone());
                }
                self.end(lease, EndReason::Released, self.now)
            });
            ((*key).clone(), done)
        });
        if outcome.failed.is_empty() {
            self.remember(&asked.owner, asked.request.as_ref(), false, &outcome);
        }
        outcome
    }

    fn release(&mut self, asked: &Release) -> Outcome {
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
            Ok(live(lock.clone(), false))
        });
        each(&[&asked.key], |key| ((*key).clone(), done.clone()))
    }

    fn force_unlock(&mut self, asked: &ForceUnlock) -> Outcome {
        each(&firsts(&asked.targets, |(_, lease)| *lease), |(key, lease)| {
            let is_live = self.live(key).iter().any(|lock| lock.lease_id == *lease);
            let done = is_live.then(|| self.end(*lease, EndReason::Revoked, self.now));
            (key.clone(), done.ok_or(Refusal::NotFound))
        })
    }
}

/// A document or a lease that is named again counts once.
fn firsts<T: Clone, I: PartialEq>(all: &[T], identity: impl Fn(&T) -> I) -> Vec<T> {
    let is_first = |(index, one): &(usize, &T)| !all[..*index].iter().any(|before| identity(before) == identity(one));
    all.iter().enumerate().filter(is_first).map(|(_, one)| one.clone()).collect()
}

fn each<T>(all: &[T], one: impl FnMut(&T) -> (DocumentKey, Result<Done, Refusal>)) -> Outcome {
    let mut outcome = Outcome::default();
    for (key, result) in all.iter().map(one) {
        match result {
            Ok(done) => outcome.done.push(done),
            Err(refusal) => outcome.failed.push(failed(&key, refusal)),
        }
    }
    outcome
}

fn live(lock: Lock, resumed: bool) -> Done {
    Done::Live { lock, resumed, asks: Vec::new(), activity_changed: false }
}

fn all_or_nothing(mut outcome: Outcome) -> Outcome {
    if !outcome.failed.is_empty() {
        outcome.done.clear();
    }
    outcome
}

fn failed(key: &DocumentKey, refusal: Refusal) -> Failed {
    Failed { key: key.clone(), refusal }
}
