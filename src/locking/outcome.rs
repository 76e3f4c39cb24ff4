//! What the caller is told.

use super::{Ask, DocumentKey, EndReason, Lock, Ticket, Timestamp};

/// One entry per document of the command. Locking is all or nothing: then either list is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    pub done: Vec<Done>,
    pub failed: Vec<Failed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The lock as it is now. `resumed`: the same session had it already.
    Live {
        lock: Lock,
        resumed: bool,
        /// Open asks for it.
        asks: Vec<Ask>,
        /// The holder says something else of itself than before.
        activity_changed: bool,
    },
    Ended {
        key: DocumentKey,
        fencing_token: i64,
    },
    /// It is not the caller's turn yet; `lock` is the one that is shown to it.
    Waiting {
        ticket: Ticket,
        lock: Box<Lock>,
        is_you: bool,
    },
    /// The ticket has been given up.
    LeftLine,
    /// As it is now.
    Asked(Ask),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub key: DocumentKey,
    pub refusal: Refusal,
}

/// A rule said no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Of several locks one is shown; the first of them ends at `free_at`, unless it is extended.
    Held {
        lock: Box<Lock>,
        is_you: bool,
        free_at: Timestamp,
    },
    NotFound,
    NotOwner {
        lock: Box<Lock>,
    },
    Ended(EndReason),
    Mismatch,
    CapacityMismatch {
        in_force: u32,
    },
    RequestIdReused,
    TakeOverForbidden {
        lock: Box<Lock>,
    },
    LimitReached {
        limit: u32,
    },
    /// One owner may wait so many times at once.
    TooManyWaits {
        limit: u32,
    },
    /// The same owner has asked for this document's lock a moment ago.
    AskedTooSoon {
        again_at: Timestamp,
    },
    /// There is no such ask, or it is nobody's business of the caller's.
    AskNotFound,
}

impl Outcome {
    pub(super) fn failed(key: &DocumentKey, refusal: Refusal) -> Self {
        Self { done: Vec::new(), failed: vec![Failed { key: key.clone(), refusal }] }
    }

    /// For commands on one document.
    pub fn single(mut self) -> Result<Done, Refusal> {
        match (self.done.pop(), self.failed.pop()) {
            (_, Some(failed)) => Err(failed.refusal),
            (Some(done), None) => Ok(done),
            (None, None) => Err(Refusal::NotFound),
        }
    }
}
