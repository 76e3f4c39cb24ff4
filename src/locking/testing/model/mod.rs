//! What should be answered, by the contract and by decision 0004, in the plainest way there is: every lock, ticket and ask
//! that ever was stays in a list with how it ended, and each question is answered by looking through all of it.
//!
//! It must share nothing with `decide` but the types of questions and answers.

mod asks;
mod grants;
mod holders;
mod line;
mod log;
mod memory;

use std::collections::HashMap;

pub use self::log::ToldEvent;
use super::{core::Came, history::Act};
use crate::locking::{
    Ask, Command, DocumentKey, Done, EndReason, Ending, Failed, Fingerprint, LeaseId, Lock, Outcome, Policy, Refusal,
    Timestamp,
    names::{DocumentVersion, OwnerId, RequestId},
};
use line::Waiter;

#[derive(Debug, Clone, Default)]
pub struct Model {
    policy: Policy,
    now: Timestamp,
    /// In the order of their grants.
    locks: Vec<Known>,
    /// In the order in which they came.
    line: Vec<Waiter>,
    asks: Vec<Ask>,
    tokens: HashMap<DocumentKey, i64>,
    capacities: HashMap<DocumentKey, u32>,
    versions: HashMap<DocumentKey, DocumentVersion>,
    requests: HashMap<(OwnerId, RequestId), Past>,
    endings: usize,
    log: Vec<(DocumentKey, ToldEvent)>,
}

#[derive(Debug, Clone)]
struct Known {
    /// As it was last, without what only expiry, heartbeats and the line need to know.
    lock: Lock,
    ended: Option<Ending>,
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

    pub fn act(&mut self, act: &Act, now: Timestamp) -> Came {
        self.now = now;
        match act {
            Act::Decide(command) => Came::Decided(self.answer(command)),
            Act::RenewTickets(leases) => Came::Gone(self.renew_tickets(leases)),
            Act::DeleteDeadTickets => Came::Deleted(self.delete_dead_tickets()),
        }
    }

    fn answer(&mut self, command: &Command) -> Outcome {
        let keys = firsts(&documents(command), Clone::clone);
        // The server's own renewals look at nothing but locks and the line.
        let looks_at_asks = !matches!(command, Command::Renew(_));
        for key in &keys {
            self.settle(key, looks_at_asks);
        }
        let outcome = match command {
            Command::Lock(lock) => self.lock(lock),
            Command::Extend(extend) => self.extend(extend),
            Command::Unlock(unlock) => self.unlock(unlock),
            Command::Release(release) => self.release(release),
            Command::ForceUnlock(force) => self.force_unlock(force),
            Command::Expire(_) => Outcome::default(),
            Command::Renew(renew) => self.renew(renew),
            Command::LeaveLine(leave) => single(&leave.key, self.leave(leave)),
            Command::Ask(ask) => single(&ask.key, self.ask(ask)),
            Command::Answer(answer) => single(&answer.key, self.answer_ask(answer)),
            Command::CancelAsk(cancel) => single(&cancel.key, self.cancel_ask(cancel)),
        };
        for key in &keys {
            self.settle(key, looks_at_asks);
        }
        outcome
    }

    /// What time has brought about on a document.
    fn settle(&mut self, key: &DocumentKey, looks_at_asks: bool) {
        self.end_overdue(key);
        if looks_at_asks {
            self.end_unanswered(key);
        }
        self.serve(key);
    }

    /// Oldest first.
    pub fn live(&self, key: &DocumentKey) -> Vec<Lock> {
        let is_live = |known: &&Known| known.ended.is_none() && known.lock.expires_at > self.now;
        let live = self.locks.iter().filter(|known| known.lock.key == *key).filter(is_live);
        live.map(|known| known.lock.clone()).collect()
    }

    fn end_overdue(&mut self, key: &DocumentKey) {
        let is_overdue = |known: &&Known| known.ended.is_none() && known.lock.expires_at <= self.now;
        let of_document = self.locks.iter().filter(|known| known.lock.key == *key);
        let mut overdue: Vec<_> = of_document.filter(is_overdue).map(|known| known.lock.clone()).collect();
        overdue.sort_by_key(|lock| lock.expires_at);
        for lock in overdue {
            let lingered = lock.span.linger_ms().is_some();
            self.end(lock.lease_id, if lingered { EndReason::Released } else { EndReason::Expired }, lock.expires_at);
        }
    }

    fn known(&mut self, lease: LeaseId) -> &mut Known {
        self.locks.iter_mut().find(|known| known.lock.lease_id == lease).unwrap()
    }

    /// Whoever asked for it asked in vain.
    fn end(&mut self, lease: LeaseId, reason: EndReason, at: Timestamp) -> Done {
        let done = self.note_end(lease, reason, at);
        self.end_asks_for(lease);
        done
    }

    fn note_end(&mut self, lease: LeaseId, reason: EndReason, at: Timestamp) -> Done {
        self.endings += 1;
        let rank = self.endings;
        let known = self.known(lease);
        (known.ended, known.rank) = (Some(Ending { reason, at }), rank);
        let lock = known.lock.clone();
        self.log.push((lock.key.clone(), ToldEvent::Unlocked { lease, reason }));
        Done::Ended { key: lock.key, fencing_token: lock.fencing_token }
    }

    fn live_done(&self, lock: &Lock, resumed: bool) -> Done {
        let asks = self.asks_for(lock.lease_id);
        Done::Live { lock: lock.clone(), resumed, asks, activity_changed: false }
    }
}

fn documents(command: &Command) -> Vec<DocumentKey> {
    match command {
        Command::Lock(lock) => lock.wanted.iter().map(|wanted| wanted.key.clone()).collect(),
        Command::Extend(extend) => extend.keys.clone(),
        Command::Unlock(unlock) => unlock.keys.clone(),
        Command::Release(release) => vec![release.key.clone()],
        Command::ForceUnlock(force) => force.targets.iter().map(|(key, _)| key.clone()).collect(),
        Command::Expire(expire) => expire.keys.clone(),
        Command::Renew(renew) => renew.leases.iter().map(|(key, _)| key.clone()).collect(),
        Command::LeaveLine(leave) => vec![leave.key.clone()],
        Command::Ask(ask) => vec![ask.key.clone()],
        Command::Answer(answer) => vec![answer.key.clone()],
        Command::CancelAsk(cancel) => vec![cancel.key.clone()],
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

fn single(key: &DocumentKey, result: Result<Done, Refusal>) -> Outcome {
    match result {
        Ok(done) => Outcome { done: vec![done], failed: Vec::new() },
        Err(refusal) => Outcome { done: Vec::new(), failed: vec![failed(key, refusal)] },
    }
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
