//! The locks and lines of the memory backend. Every call is told the time.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::sync::oneshot;
use uuid::Uuid;

use super::{held, lost, refused};
use crate::client::{
    LockError, LockName,
    backend::{LockAsk, LockOf},
};

/// How many ended locks and answered requests are remembered.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Table {
    /// Names stay for good: their tokens must not be given out twice.
    documents: HashMap<LockName, MemoryDocument>,
    /// How locks ended, by lease.
    ends: Recent<&'static str>,
    /// The leases that requests were answered with.
    requests: Recent<String>,
    unlocks: Recent<()>,
}

#[derive(Debug, Default)]
struct MemoryDocument {
    last_token: u64,
    capacity: u32,
    locks: Vec<MemoryLock>,
    line: VecDeque<MemoryTicket>,
}

#[derive(Debug, Clone)]
pub(super) struct MemoryLock {
    pub lease_id: String,
    session_id: String,
    pub fencing_token: u64,
    pub ttl: Duration,
    pub expires_at: Duration,
}

#[derive(Debug)]
struct MemoryTicket {
    ask: LockAsk,
    /// Where the waiting call listens; none between two calls of a waiter, who then keeps its place but is passed over.
    granted: Option<oneshot::Sender<MemoryLock>>,
    kept_until: Duration,
}

pub(super) enum Attempted {
    Granted(MemoryLock),
    Waits(oneshot::Receiver<MemoryLock>),
}

impl Table {
    pub(super) fn attempt(&mut self, ask: &LockAsk, now: Duration) -> Result<Attempted, LockError> {
        self.expire(&ask.name, now);
        let document = self.documents.entry(ask.name.clone()).or_default();
        if let Some(lease_id) = self.requests.get(&ask.request_id) {
            let lock = document.locks.iter().find(|lock| lock.lease_id == *lease_id);
            let end = || lost(&ask.name, self.ends.get(lease_id).unwrap_or(&"LOCK_NOT_FOUND"));
            return lock.cloned().map(Attempted::Granted).ok_or_else(end);
        }
        if document.capacity != ask.capacity {
            if !document.locks.is_empty() || !document.line.is_empty() {
                let detail = format!("up to {} may hold it at once, not {}", document.capacity, ask.capacity);
                return Err(refused("CAPACITY_MISMATCH", &detail, false));
            }
            document.capacity = ask.capacity;
        }
        let is_free = document.locks.len() < document.capacity as usize;
        if is_free && document.line.iter().all(|ticket| ticket.granted.is_none()) {
            document.line.retain(|ticket| ticket.ask != *ask);
            return Ok(Attempted::Granted(document.grant(ask, now, &mut self.requests)));
        }
        if ask.wait_ms == 0 {
            return Err(held());
        }
        let (sender, granted) = oneshot::channel();
        match document.line.iter_mut().find(|ticket| ticket.ask == *ask) {
            Some(ticket) => ticket.granted = Some(sender),
            None => document.line.push_back(MemoryTicket {
                ask: ask.clone(),
                granted: Some(sender),
                kept_until: Duration::MAX,
            }),
        }
        Ok(Attempted::Waits(granted))
    }

    pub(super) fn extend(&mut self, name: &LockName, lease_id: &str, now: Duration) -> Result<MemoryLock, LockError> {
        self.expire(name, now);
        let document = self.documents.entry(name.clone()).or_default();
        match document.locks.iter_mut().find(|lock| lock.lease_id == lease_id) {
            Some(lock) => {
                lock.expires_at = now + lock.ttl;
                Ok(lock.clone())
            }
            None => Err(lost(name, self.ends.get(lease_id).unwrap_or(&"LOCK_NOT_FOUND"))),
        }
    }

    pub(super) fn unlock(
        &mut self,
        name: &LockName,
        request_id: &str,
        which: &LockOf,
        now: Duration,
    ) -> Result<(), LockError> {
        self.expire(name, now);
        if self.unlocks.get(request_id).is_some() {
            return Ok(());
        }
        let is_meant = |lock: &MemoryLock| match which {
            LockOf::Lease(id) => lock.lease_id == *id,
            LockOf::Session(id) => lock.session_id == *id,
        };
        if self.end_where(name, is_meant, "LEASE_RELEASED", now) {
            self.unlocks.remember(request_id.to_owned(), ());
            return Ok(());
        }
        let end = match which {
            LockOf::Lease(id) => self.ends.get(id),
            LockOf::Session(_) => None,
        };
        Err(lost(name, end.unwrap_or(&"LOCK_NOT_FOUND")))
    }

    /// Ends overdue locks and forgets places that were not kept.
    pub(super) fn expire(&mut self, name: &LockName, now: Duration) {
        if let Some(document) = self.documents.get_mut(name) {
            document.line.retain(|ticket| ticket.granted.is_some() || now < ticket.kept_until);
        }
        self.end_where(name, |lock| now >= lock.expires_at, "LEASE_EXPIRED", now);
    }

    pub(super) fn revoke(&mut self, name: &LockName, now: Duration) {
        self.expire(name, now);
        self.end_where(name, |_| true, "LEASE_REVOKED", now);
    }

    pub(super) fn held(&mut self, name: &LockName, now: Duration) -> Vec<u64> {
        self.expire(name, now);
        let locks = self.documents.get(name).map(|document| document.locks.as_slice()).unwrap_or_default();
        locks.iter().map(|lock| lock.fencing_token).collect()
    }

    pub(super) fn waiting(&mut self, name: &LockName, now: Duration) -> usize {
        self.expire(name, now);
        self.documents.get(name).map_or(0, |document| document.line.len())
    }

    /// When the first of its locks ends without another heartbeat.
    pub(super) fn next_end(&self, name: &LockName) -> Option<Duration> {
        self.documents.get(name)?.locks.iter().map(|lock| lock.expires_at).min()
    }

    /// The call of this waiter is over; it keeps its place until then.
    pub(super) fn keep_place(&mut self, ask: &LockAsk, until: Duration) {
        let line = self.documents.get_mut(&ask.name).map(|document| &mut document.line);
        if let Some(ticket) = line.and_then(|line| line.iter_mut().find(|ticket| ticket.ask == *ask)) {
            (ticket.granted, ticket.kept_until) = (None, until);
        }
    }

    /// The waiter is gone, and with it a grant it has not heard of.
    pub(super) fn hang_up(&mut self, ask: &LockAsk, now: Duration) {
        if let Some(document) = self.documents.get_mut(&ask.name) {
            document.line.retain(|ticket| ticket.ask != *ask);
        }
        self.end_where(&ask.name, |lock| lock.session_id == ask.session_id, "LEASE_RELEASED", now);
    }

    /// Ends those locks, and lets in who is next in line. Returns whether there were any.
    fn end_where(
        &mut self,
        name: &LockName,
        is_meant: impl Fn(&MemoryLock) -> bool,
        how: &'static str,
        now: Duration,
    ) -> bool {
        let Some(document) = self.documents.get_mut(name) else { return false };
        let ended: Vec<_> = document.locks.extract_if(.., |lock| is_meant(lock)).collect();
        for lock in &ended {
            self.ends.remember(lock.lease_id.clone(), how);
        }
        document.serve_line(now, &mut self.requests);
        !ended.is_empty()
    }
}

impl MemoryDocument {
    fn grant(&mut self, ask: &LockAsk, now: Duration, requests: &mut Recent<String>) -> MemoryLock {
        self.last_token += 1;
        let ttl = Duration::from_secs(ask.ttl_seconds.into());
        let lock = MemoryLock {
            lease_id: Uuid::new_v4().to_string(),
            session_id: ask.session_id.clone(),
            fencing_token: self.last_token,
            ttl,
            expires_at: now + ttl,
        };
        requests.remember(ask.request_id.clone(), lock.lease_id.clone());
        self.locks.push(lock.clone());
        lock
    }

    fn serve_line(&mut self, now: Duration, requests: &mut Recent<String>) {
        while self.locks.len() < self.capacity as usize {
            let Some(next) = self.line.iter().position(|ticket| ticket.granted.is_some()) else { return };
            let Some(MemoryTicket { ask, granted: Some(granted), .. }) = self.line.remove(next) else { return };
            let lock = self.grant(&ask, now, requests);
            // A waiter that is gone by now gives the grant up as it leaves (`hang_up`).
            let _ = granted.send(lock);
        }
    }
}

/// The last few, by key.
#[derive(Debug)]
struct Recent<V> {
    values: HashMap<String, V>,
    order: VecDeque<String>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { values: HashMap::new(), order: VecDeque::new() }
    }
}

impl<V> Recent<V> {
    fn get(&self, key: &str) -> Option<&V> {
        self.values.get(key)
    }

    fn remember(&mut self, key: String, value: V) {
        if self.values.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }
}
