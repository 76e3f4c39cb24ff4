//! Locks that are kept for sockets: the server extends them as long as their sockets answer pings.
//!
//! 1. A socket that answers a ping asks for its kept locks to be renewed ([`Keeper::renew`]).
//! 2. A worker gathers what all sockets ask for and has it committed by few commands of many locks each: thousands of kept
//!    locks cost a fraction of as many heartbeats.
//! 3. Each committed renewal is told to its socket, and so is a lock that is not there any more.
//!
//! A renewal counts from its commit, which comes after the answer to the ping: a socket whose client is gone is renewed once
//! at most. If renewals were told before they are committed, a client would go on while the database is away.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{
    committer::Committer,
    locking::{AskOutcome, Command, DocumentKey, Done, Event, EventKind, LeaseId, Lock, Renew},
    time::clock::Clock,
};

/// How long renewals are gathered. The shortest ttl is a second, with a ping every third of it.
const GATHER: Duration = Duration::from_millis(250);
/// Locks in one command.
const CHUNK: usize = 500;

/// What a socket is told of a lock that it keeps.
#[derive(Debug)]
pub enum KeptNews {
    Extended(Box<Lock>),
    /// It is not kept any more: it has ended, or its holder left an ask unanswered.
    Dropped(LeaseId),
}

pub type KeptSender = mpsc::UnboundedSender<KeptNews>;

#[derive(Debug, Clone)]
pub struct Keeper {
    renewals: mpsc::UnboundedSender<Renewal>,
    kept: Arc<Mutex<HashMap<LeaseId, KeptSender>>>,
}

#[derive(Debug)]
struct Renewal {
    key: DocumentKey,
    lease_id: LeaseId,
    news: KeptSender,
    is_urgent: bool,
}

/// A lock that a socket keeps. Dropping it ends that; the lock lives out its ttl.
#[derive(Debug)]
pub struct Kept {
    keeper: Keeper,
    pub key: DocumentKey,
    pub lease_id: LeaseId,
    pub ttl_seconds: u32,
    news: KeptSender,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut kept = self.keeper.kept.lock();
        // Another socket of the same session may keep it by now.
        if kept.get(&self.lease_id).is_some_and(|news| news.same_channel(&self.news)) {
            kept.remove(&self.lease_id);
        }
    }
}

impl Keeper {
    /// The handle, and the worker to be run.
    pub fn new(committer: Committer, clock: Clock) -> (Self, KeeperWorker) {
        let (renewals, queue) = mpsc::unbounded_channel();
        (Self { renewals, kept: Arc::default() }, KeeperWorker { committer, clock, queue })
    }

    /// Keeps a lock for the socket that these news go to.
    pub fn keep(&self, lock: &Lock, news: KeptSender) -> Kept {
        self.kept.lock().insert(lock.lease_id, news.clone());
        let (key, lease_id, ttl_seconds) = (lock.key.clone(), lock.lease_id, lock.ttl_seconds);
        Kept { keeper: self.clone(), key, lease_id, ttl_seconds, news }
    }

    /// Has a kept lock extended: its socket has answered a ping. Not once the end of that has been heard, though the socket
    /// may not have been told yet.
    pub fn renew(&self, kept: &Kept) {
        if self.kept.lock().contains_key(&kept.lease_id) {
            self.send(kept.key.clone(), kept.lease_id, &kept.news, false);
        }
    }

    /// Has a grant extended to its whole ttl: whoever waited for it is there.
    pub fn claim(&self, key: DocumentKey, lease_id: LeaseId, news: &KeptSender) {
        self.send(key, lease_id, news, true);
    }

    fn send(&self, key: DocumentKey, lease_id: LeaseId, news: &KeptSender, is_urgent: bool) {
        // Without its worker the server is about to stop.
        let _ = self.renewals.send(Renewal { key, lease_id, news: news.clone(), is_urgent });
    }

    /// Notices locks that must not be kept any more. Called by the publisher for every event.
    pub fn heard(&self, event: &Event) {
        let is_over = match &event.kind {
            EventKind::Unlocked { .. } => true,
            // Whoever does not answer for that long does not edit.
            EventKind::HandoverAnswered(ask) => ask.outcome == Some(AskOutcome::Unanswered),
            EventKind::Locked { .. } | EventKind::Saved | EventKind::HandoverAsked(_) => false,
        };
        if is_over && let Some(news) = self.kept.lock().remove(&event.lock.lease_id) {
            let _ = news.send(KeptNews::Dropped(event.lock.lease_id));
        }
    }
}

#[derive(Debug)]
pub struct KeeperWorker {
    committer: Committer,
    clock: Clock,
    queue: mpsc::UnboundedReceiver<Renewal>,
}

impl KeeperWorker {
    pub async fn run(mut self) {
        let mut gathered: HashMap<LeaseId, Renewal> = HashMap::new();
        let mut next = self.clock.now();
        while let Some(renewal) = self.queue.recv().await {
            let mut is_urgent = renewal.is_urgent;
            gathered.insert(renewal.lease_id, renewal);
            while !is_urgent {
                tokio::select! {
                    () = self.clock.sleep_until(next) => break,
                    Some(renewal) = self.queue.recv() => {
                        is_urgent = renewal.is_urgent;
                        gathered.insert(renewal.lease_id, renewal);
                    }
                }
            }
            while let Ok(renewal) = self.queue.try_recv() {
                gathered.insert(renewal.lease_id, renewal);
            }
            let mut renewals: Vec<_> = gathered.drain().map(|(_, renewal)| renewal).collect();
            // Neighbours in the tables one after the other: they share pages.
            renewals.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            for chunk in renewals.chunks(CHUNK) {
                self.commit(chunk).await;
            }
            next = self.clock.now().plus_millis(i64::try_from(GATHER.as_millis()).unwrap_or_default());
        }
    }

    async fn commit(&self, renewals: &[Renewal]) {
        let leases = renewals.iter().map(|renewal| (renewal.key.clone(), renewal.lease_id)).collect();
        // Nobody is told of what is not committed: the next pong tries again.
        let Ok(outcome) = self.committer.submit(Command::Renew(Renew { leases })).await else { return };
        let mut extended: HashMap<LeaseId, Lock> = HashMap::new();
        for done in outcome.done {
            if let Done::Live { lock, .. } = done {
                extended.insert(lock.lease_id, lock);
            }
        }
        for renewal in renewals {
            let news = match extended.remove(&renewal.lease_id) {
                Some(lock) => KeptNews::Extended(Box::new(lock)),
                None => KeptNews::Dropped(renewal.lease_id),
            };
            let _ = renewal.news.send(news);
        }
    }
}
