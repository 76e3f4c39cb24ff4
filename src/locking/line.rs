//! The waiting line of a document, and asks for its lock.

use std::{collections::BTreeMap, sync::Arc};

use uuid::Uuid;

use super::{DocumentKey, Holder, LeaseId, Metadata, Request, Timestamp, names::OwnerId};

/// How long a grant to somebody who waited lives unless it is claimed.
pub const CLAIM_MS: u32 = 5000;
/// How long a ticket lives past its last renewal.
pub const TICKET_MS: i64 = 15_000;
/// How long an ask waits for its answer.
pub const ASK_MS: i64 = 30_000;
/// How often the same owner may ask for the lock of one document.
pub const RING_MS: i64 = 10_000;

/// A place in a document's waiting line. Live while `now < expires_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub key: DocumentKey,
    /// Tickets are served by it, smallest first.
    pub place: i64,
    /// The lease that its grant will have; until then it is the ticket's own id.
    pub lease_id: LeaseId,
    pub holder: Holder,
    pub ttl_seconds: u32,
    pub metadata: Option<Metadata>,
    pub request: Option<Request>,
    pub joined_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Ticket {
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }
}

/// What a batch has read of a document's waiting line.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// By place.
    pub tickets: BTreeMap<i64, Ticket>,
    /// All live tickets up to this place are in `tickets`; none if all live tickets are.
    pub read_to: Option<i64>,
    /// The last place that was given.
    pub last_place: i64,
}

impl Line {
    /// Returns the ticket to be served next. Fails if it was not read.
    pub(super) fn first(&self, now: Timestamp) -> Result<Option<&Ticket>, ()> {
        let first = self.tickets.values().find(|ticket| ticket.is_live(now));
        match (first, self.read_to) {
            (Some(ticket), Some(read_to)) if ticket.place > read_to => Err(()),
            (None, Some(_)) => Err(()),
            (first, _) => Ok(first),
        }
    }

    /// Returns whether anyone waits, as far as was read.
    pub(super) fn is_empty(&self, now: Timestamp) -> bool {
        self.read_to.is_none() && !self.tickets.values().any(|ticket| ticket.is_live(now))
    }
}

/// "May I have it?", aimed at a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub id: Uuid,
    pub key: DocumentKey,
    pub lease_id: LeaseId,
    /// Who held that lease, and may answer.
    pub holder: OwnerId,
    pub asker: Holder,
    pub message: Option<Arc<str>>,
    pub asked_at: Timestamp,
    pub expires_at: Timestamp,
    /// None while it is open.
    pub outcome: Option<AskOutcome>,
    /// What the holder said with its answer.
    pub answer: Option<Arc<str>>,
}

/// How an ask ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AskOutcome {
    Granted,
    Denied,
    /// The holder said nothing in time.
    Unanswered,
    /// The asker took it back.
    Cancelled,
    /// The lock ended first, or went to someone else.
    Moot,
}

impl AskOutcome {
    pub const ALL: [Self; 5] = [Self::Granted, Self::Denied, Self::Unanswered, Self::Cancelled, Self::Moot];

    pub fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Denied => "denied",
            Self::Unanswered => "unanswered",
            Self::Cancelled => "cancelled",
            Self::Moot => "moot",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}
