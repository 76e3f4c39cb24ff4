//! What the log remembers and the room hears.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Ask, AskOutcome, Lock, Timestamp, names::OwnerId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub at: Timestamp,
    /// As granted, as saved, or as it was when it ended or was asked for.
    pub lock: Lock,
    pub kind: EventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    Locked {
        /// How long its holder stood in line for it.
        waited_ms: Option<i64>,
    },
    Unlocked {
        reason: EndReason,
        by: Option<OwnerId>,
        note: Option<Arc<str>>,
    },
    /// The holder has saved the document; the lock's `document_version` is the new one.
    Saved,
    /// For the lock's holder alone.
    HandoverAsked(Box<Ask>),
    /// For the asker alone; for the holder alone if the asker took it back. The lock is the asker's if it was granted.
    HandoverAnswered(Box<Ask>),
}

impl Event {
    /// The one who is told of it; none if the whole room is.
    pub fn recipient(&self) -> Option<&OwnerId> {
        match &self.kind {
            EventKind::Locked { .. } | EventKind::Unlocked { .. } | EventKind::Saved => None,
            EventKind::HandoverAsked(ask) => Some(&ask.holder),
            EventKind::HandoverAnswered(ask) => match ask.outcome {
                Some(AskOutcome::Cancelled) => Some(&ask.holder),
                Some(AskOutcome::Granted | AskOutcome::Denied | AskOutcome::Unanswered | AskOutcome::Moot) | None => {
                    Some(&ask.asker.owner)
                }
            },
        }
    }

    /// Whether this owner may hear of it, in a room it hears.
    pub fn is_for(&self, owner: &OwnerId) -> bool {
        self.recipient().is_none_or(|recipient| recipient == owner)
    }
}

impl EventKind {
    pub fn name(&self) -> EventName {
        match self {
            Self::Locked { .. } => EventName::DocumentLocked,
            Self::Unlocked { .. } => EventName::DocumentUnlocked,
            Self::Saved => EventName::DocumentSaved,
            Self::HandoverAsked(_) => EventName::HandoverAsked,
            Self::HandoverAnswered(_) => EventName::HandoverAnswered,
        }
    }
}

/// The kinds of event by the names that the log and the notices use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EventName {
    DocumentLocked,
    DocumentUnlocked,
    DocumentSaved,
    HandoverAsked,
    HandoverAnswered,
}

impl EventName {
    pub const ALL: [Self; 5] = [
        Self::DocumentLocked,
        Self::DocumentUnlocked,
        Self::DocumentSaved,
        Self::HandoverAsked,
        Self::HandoverAnswered,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::DocumentLocked => "DocumentLocked",
            Self::DocumentUnlocked => "DocumentUnlocked",
            Self::DocumentSaved => "DocumentSaved",
            Self::HandoverAsked => "HandoverAsked",
            Self::HandoverAnswered => "HandoverAnswered",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }
}

/// How a lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    Released,
    Expired,
    TakenOver,
    Revoked,
    HandedOver,
}

impl EndReason {
    pub const ALL: [Self; 5] = [Self::Released, Self::Expired, Self::TakenOver, Self::Revoked, Self::HandedOver];

    pub fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::TakenOver => "taken_over",
            Self::Revoked => "revoked",
            Self::HandedOver => "handed_over",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
