//! Those who wait on this server: in line for a lock, or for the answer to an ask.
//!
//! 1. Whoever got a ticket registers it ([`Lines::wait`]) and holds the guard for as long as its client is there. Dropping
//!    the guard gives the place up, or the grant that came of it as long as nobody has claimed it.
//! 2. The publisher passes every event on ([`Lines::heard`]), in the order of the log, so a grant by any server is noticed. A
//!    grant that came between the ticket's commit and its registration is found by a look at the database.
//! 3. A worker renews the tickets of those who are still there, a few statements for all of them, and tells them their
//!    positions as they change ([`Worker`]). Positions are derived from the line, never written: with a thousand in line
//!    each grant would write a thousand rows.
//!
//! When the server stops ([`Lines::drain`]) guards are finished instead: tickets keep their places until they die, and whoever
//! waited takes its own up again on another server.
//!
//! If the guard were dropped without leaving the line, everyone behind it would wait for its claim window to pass.

mod worker;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use crate::{
    committer::Committer,
    locking::{
        Ask, Command, DocumentKey, Event, EventKind, Holder, LeaseId, LeaveLine, Lock, Ticket, TicketName,
        names::SessionId,
    },
};
pub use worker::Worker;

/// What somebody who waits is told.
#[derive(Debug)]
pub enum LineNews {
    /// It is its turn: the lock is its, once it is claimed.
    Granted(Box<Lock>),
    Position(u64),
    /// The ticket is not there any more, and nothing was granted.
    Lost,
}

/// Where the outcomes of asks go, each with the lock it is about: the asker's, if it was granted.
pub type AnswerSender = mpsc::UnboundedSender<Box<(Ask, Lock)>>;

/// Where news of several tickets go.
pub type NewsSender = mpsc::UnboundedSender<(LeaseId, LineNews)>;

#[derive(Debug, Clone)]
pub struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    committer: Committer,
    registered: Mutex<Registered>,
    /// Set when the server stops: whoever waits goes to another one, and keeps its place meanwhile.
    draining: watch::Sender<bool>,
    /// How many are registered: most of the time nobody, and events need not be looked at.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Registered {
    waiters: HashMap<LeaseId, Waiter>,
    by_document: HashMap<DocumentKey, HashSet<LeaseId>>,
    /// Documents whose lines have changed since positions were last told.
    changed: HashSet<DocumentKey>,
    asks: HashMap<Uuid, Vec<AnswerSender>>,
}

#[derive(Debug)]
struct Waiter {
    key: DocumentKey,
    news: NewsSender,
    /// Tells this registration from a later one of the same ticket.
    number: u64,
    position: Option<u64>,
    /// The client has been heard of since the ticket was last renewed.
    is_here: bool,
    /// A socket must answer pings for its ticket to be renewed; a request that waits is there as long as it waits.
    answers_pings: bool,
}

/// Held by whoever waits. Dropping it leaves the line.
#[derive(Debug)]
pub struct Waiting {
    lines: Lines,
    key: DocumentKey,
    holder: Holder,
    lease_id: LeaseId,
    number: u64,
    is_over: bool,
}

impl Lines {
    pub fn new(committer: Committer) -> Self {
        let (registered, draining, count) = (Mutex::default(), watch::Sender::new(false), AtomicUsize::new(0));
        Self(Arc::new(Shared { committer, registered, draining, count }))
    }

    /// Sends everyone away who waits by a request; tickets keep their places until they die.
    pub fn drain(&self) {
        self.0.draining.send_replace(true);
    }

    /// Resolves when the server stops.
    pub async fn drains(&self) {
        let mut draining = self.0.draining.subscribe();
        // The sender lives in `self`: it cannot be gone.
        let _ = draining.wait_for(|is_draining| *is_draining).await;
    }

    /// Registers a ticket. An earlier registration of it hears nothing more: its client has asked again, perhaps by another
    /// socket, and then the earlier one is told that its wait is over.
    pub fn wait(&self, ticket: &Ticket, news: NewsSender, answers_pings: bool) -> Waiting {
        let (key, lease_id) = (ticket.key.clone(), ticket.lease_id);
        let mut registered = self.0.registered.lock();
        let number = registered.waiters.get(&lease_id).map_or(0, |before| before.number + 1);
        registered.by_document.entry(key.clone()).or_default().insert(lease_id);
        registered.changed.insert(key.clone());
        let waiter = Waiter { key: key.clone(), news, number, position: None, is_here: true, answers_pings };
        if let Some(before) = registered.waiters.insert(lease_id, waiter)
            && !before.news.same_channel(&registered.waiters[&lease_id].news)
        {
            let _ = before.news.send((lease_id, LineNews::Lost));
        }
        self.count(&registered);
        Waiting { lines: self.clone(), key, holder: ticket.holder.clone(), lease_id, number, is_over: false }
    }

    /// Has the outcome of an ask told, should it get one while anyone listens.
    pub fn await_answer(&self, ask: Uuid, answers: AnswerSender) {
        let mut registered = self.0.registered.lock();
        registered.asks.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        registered.asks.entry(ask).or_default().push(answers);
        self.count(&registered);
    }

    /// Passes on what the log says. Called by the publisher for every event, in order.
    pub fn heard(&self, event: &Event) {
        if self.0.count.load(Ordering::Acquire) == 0 {
            return;
        }
        match &event.kind {
            EventKind::Locked { .. } => self.granted(&event.lock),
            EventKind::HandoverAnswered(ask) => {
                let mut registered = self.0.registered.lock();
                for sender in registered.asks.remove(&ask.id).into_iter().flatten() {
                    let _ = sender.send(Box::new(((**ask).clone(), event.lock.clone())));
                }
                self.count(&registered);
            }
            EventKind::Unlocked { .. } | EventKind::Saved | EventKind::HandoverAsked(_) => {}
        }
    }

    fn granted(&self, lock: &Lock) {
        let mut registered = self.0.registered.lock();
        if let Some(waiter) = registered.waiters.remove(&lock.lease_id) {
            registered.unlist(&waiter.key, lock.lease_id);
            let _ = waiter.news.send((lock.lease_id, LineNews::Granted(Box::new(lock.clone()))));
        }
        if registered.by_document.contains_key(&lock.key) {
            registered.changed.insert(lock.key.clone());
        }
        self.count(&registered);
    }

    fn count(&self, registered: &Registered) {
        self.0.count.store(registered.waiters.len() + registered.asks.len(), Ordering::Release);
    }
}

impl Registered {
    fn unlist(&mut self, key: &DocumentKey, lease_id: LeaseId) {
        if let Some(listed) = self.by_document.get_mut(key) {
            listed.remove(&lease_id);
            if listed.is_empty() {
                self.by_document.remove(key);
                self.changed.remove(key);
            }
        }
    }
}

impl Waiting {
    pub fn lease_id(&self) -> LeaseId {
        self.lease_id
    }

    pub fn key(&self) -> &DocumentKey {
        &self.key
    }

    /// Whether this is the wait of that session for that document.
    pub fn is_of(&self, key: &DocumentKey, session: Option<&SessionId>) -> bool {
        self.key == *key && session.is_some() && self.holder.session.as_ref() == session
    }

    /// The client has been heard of.
    pub fn is_here(&self) {
        if let Some(waiter) = self.lines.0.registered.lock().waiters.get_mut(&self.lease_id) {
            waiter.is_here = true;
        }
    }

    /// Ends the wait without leaving the line: the grant was received, or the ticket keeps its place for a while.
    pub fn finish(mut self) {
        self.is_over = true;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut registered = self.lines.0.registered.lock();
        let is_current = registered.waiters.get(&self.lease_id).is_none_or(|waiter| waiter.number == self.number);
        if is_current {
            registered.waiters.remove(&self.lease_id);
            registered.unlist(&self.key, self.lease_id);
        }
        self.lines.count(&registered);
        drop(registered);
        if self.is_over || !is_current {
            return;
        }
        let (key, owner) = (self.key.clone(), self.holder.owner.clone());
        let ticket = TicketName::Lease(self.lease_id);
        let committer = self.lines.0.committer.clone();
        // Without a runtime the server is about to stop, and the ticket dies by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = committer.submit(Command::LeaveLine(LeaveLine { key, owner, ticket })).await;
            });
        }
    }
}
