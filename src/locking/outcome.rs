//! What the caller is told.

use super::{DocumentKey, EndReason, Lock, Timestamp};

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
    },
    Ended {
        key: DocumentKey,
        fencing_token: i64,
    },
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
