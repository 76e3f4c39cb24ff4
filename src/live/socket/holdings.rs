//! What a socket holds for its client besides its places in rooms: tickets, grants to be claimed, locks that are kept, asks.
//!
//! 1. A ticket is given up when the socket ends. Its grant is told, with a ping at once; the pong to that ping claims it.
//! 2. A kept lock is extended with every pong. When the socket ends, the lock lives out its ttl.
//! 3. Whatever is committed is told by the protocol's own messages.
//!
//! Most sockets hold nothing, and have no [`Holdings`].

use std::collections::HashMap;

use tokio::sync::mpsc;
use uuid::Uuid;

use crate::{
    keeper::{Keeper, Kept, KeptNews, KeptSender},
    lines::{AnswerSender, LineNews, Lines, NewsSender, Waiting},
    locking::{Ask, AskOutcome, DocumentKey, LeaseId, Lock, names::SessionId},
};

/// How often a socket that waits is pinged: its ticket lives 15 s past the last answer.
const WAITING_PING_MS: i64 = 5000;

pub struct Holdings {
    keeper: Keeper,
    lines: Lines,
    line_news: (NewsSender, mpsc::UnboundedReceiver<(LeaseId, LineNews)>),
    kept_news: (KeptSender, mpsc::UnboundedReceiver<KeptNews>),
    answers: (AnswerSender, mpsc::UnboundedReceiver<Box<(Ask, Lock)>>),
    waits: HashMap<LeaseId, Wait>,
    claims: HashMap<LeaseId, Claim>,
    kept: HashMap<LeaseId, Kept>,
    /// Whether the lock of an ask is to be kept, should it be granted.
    asks: HashMap<Uuid, bool>,
}

struct Wait {
    waiting: Waiting,
    keeps: bool,
}

/// A grant that its client has been told of, and has not answered yet.
struct Claim {
    key: DocumentKey,
    keeps: bool,
    /// The pong to this ping, or a later one, claims it.
    ping: u64,
    /// Dropped, it gives the grant up. A handover's has none: it ends by itself.
    waiting: Option<Waiting>,
}

/// What a command has left the socket with.
#[derive(Debug)]
pub enum Effect {
    Nothing,
    /// The lock is kept from now on.
    Keeps(Box<Lock>),
    Waits {
        waiting: Waiting,
        keeps: bool,
    },
    /// The session waits for the document no more.
    LeftLine {
        key: DocumentKey,
        session: SessionId,
    },
    Asks {
        ask: Uuid,
        keeps: bool,
    },
}

/// What the client has to be told.
#[derive(Debug)]
pub enum HoldingNews {
    /// With a ping at once.
    Granted(Box<Lock>),
    /// None if it is in line no more.
    Position(DocumentKey, Option<u64>),
    Extended(Box<Lock>),
}

impl Holdings {
    pub fn new(keeper: Keeper, lines: Lines) -> Self {
        Self {
            keeper,
            lines,
            line_news: mpsc::unbounded_channel(),
            kept_news: mpsc::unbounded_channel(),
            answers: mpsc::unbounded_channel(),
            waits: HashMap::new(),
            claims: HashMap::new(),
            kept: HashMap::new(),
            asks: HashMap::new(),
        }
    }

    /// Where a ticket's news have to go.
    pub fn line_news(&self) -> NewsSender {
        self.line_news.0.clone()
    }

    pub fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Keeps(lock) => self.keep(&lock),
            Effect::Waits { waiting, keeps } => {
                self.waits.insert(waiting.lease_id(), Wait { waiting, keeps });
            }
            Effect::LeftLine { key, session } => self.leave(&key, Some(&session)),
            Effect::Asks { ask, keeps } => {
                self.asks.insert(ask, keeps);
                self.lines.await_answer(ask, self.answers.0.clone());
            }
        }
    }

    /// Forgets a wait, and a grant of it that nobody has claimed: the client has said that it wants neither, and need not be
    /// told.
    fn leave(&mut self, key: &DocumentKey, session: Option<&SessionId>) {
        self.waits.retain(|_, wait| !wait.waiting.is_of(key, session));
        self.claims.retain(|_, claim| !claim.waiting.as_ref().is_some_and(|waiting| waiting.is_of(key, session)));
    }

    fn keep(&mut self, lock: &Lock) {
        let kept = self.keeper.keep(lock, self.kept_news.0.clone());
        self.kept.insert(lock.lease_id, kept);
    }

    /// How often the socket has to be pinged for what it holds; none if for nothing.
    pub fn ping_ms(&self) -> Option<i64> {
        let kept = self.kept.values().map(|kept| i64::from(kept.ttl_seconds) * 1000 / 3).min();
        let waiting = (!self.waits.is_empty()).then_some(WAITING_PING_MS);
        kept.into_iter().chain(waiting).min()
    }

    /// Returns the next thing the client has to be told. `ping` is the number of the ping that follows a grant. Cancel safe.
    pub async fn next(&mut self, ping: u64) -> HoldingNews {
        loop {
            let news = tokio::select! {
                Some((lease_id, news)) = self.line_news.1.recv() => self.in_line(lease_id, news, ping),
                Some(news) = self.kept_news.1.recv() => self.kept(news),
                Some(answer) = self.answers.1.recv() => self.answered(&answer.0, answer.1, ping),
            };
            if let Some(news) = news {
                return news;
            }
        }
    }

    fn in_line(&mut self, lease_id: LeaseId, news: LineNews, ping: u64) -> Option<HoldingNews> {
        match news {
            LineNews::Granted(lock) => {
                let Wait { waiting, keeps } = self.waits.remove(&lease_id)?;
                let claim = Claim { key: lock.key.clone(), keeps, ping, waiting: Some(waiting) };
                self.claims.insert(lease_id, claim);
                Some(HoldingNews::Granted(lock))
            }
            LineNews::Position(position) => {
                let wait = self.waits.get(&lease_id)?;
                Some(HoldingNews::Position(wait.waiting.key().clone(), Some(position)))
            }
            LineNews::Lost => {
                let Wait { waiting, .. } = self.waits.remove(&lease_id)?;
                let key = waiting.key().clone();
                waiting.finish();
                Some(HoldingNews::Position(key, None))
            }
        }
    }

    fn kept(&mut self, news: KeptNews) -> Option<HoldingNews> {
        match news {
            KeptNews::Extended(lock) => {
                if let Some(claim) = self.claims.remove(&lock.lease_id) {
                    if let Some(waiting) = claim.waiting {
                        waiting.finish();
                    }
                    if claim.keeps {
                        self.keep(&lock);
                    }
                }
                Some(HoldingNews::Extended(lock))
            }
            KeptNews::Dropped(lease_id) => {
                self.kept.remove(&lease_id);
                self.claims.remove(&lease_id);
                None
            }
        }
    }

    fn answered(&mut self, ask: &Ask, lock: Lock, ping: u64) -> Option<HoldingNews> {
        let keeps = self.asks.remove(&ask.id)?;
        if ask.outcome != Some(AskOutcome::Granted) {
            return None;
        }
        // Who has got it this way does not want it again when its turn comes.
        self.leave(&lock.key, lock.holder.session.as_ref());
        let claim = Claim { key: lock.key.clone(), keeps, ping, waiting: None };
        self.claims.insert(lock.lease_id, claim);
        Some(HoldingNews::Granted(Box::new(lock)))
    }

    /// The server stops, and the client comes back somewhere else: its places in line, and what it was granted, are kept for
    /// it until they run out.
    pub fn leave_to_others(self) {
        self.waits.into_values().for_each(|wait| wait.waiting.finish());
        self.claims.into_values().filter_map(|claim| claim.waiting).for_each(Waiting::finish);
    }

    /// The client has answered this ping: what it holds is renewed.
    pub fn answered_ping(&self, ping: u64) {
        for wait in self.waits.values() {
            wait.waiting.is_here();
        }
        for (lease_id, claim) in self.claims.iter().filter(|(_, claim)| claim.ping <= ping) {
            self.keeper.claim(claim.key.clone(), *lease_id, &self.kept_news.0);
        }
        for kept in self.kept.values() {
            self.keeper.renew(kept);
        }
    }
}
