//! What the log remembers and the room hears.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Lock, Timestamp, names::OwnerId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub at: Timestamp,
    /// As granted, or as it was when it ended.
    pub lock: Lock,
    pub kind: EventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    Locked,
    Unlocked { reason: EndReason, by: Option<OwnerId>, note: Option<Arc<str>> },
}

impl EventKind {
    pub fn name(&self) -> EventName {
        match self {
            Self::Locked => EventName::DocumentLocked,
            Self::Unlocked { .. } => EventName::DocumentUnlocked,
        }
    }
}

/// The kinds of event by the names that the log and the notices use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EventName {
    DocumentLocked,
    DocumentUnlocked,
}

impl EventName {
    pub const ALL: [Self; 2] = [Self::DocumentLocked, Self::DocumentUnlocked];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::DocumentLocked => "DocumentLocked",
            Self::DocumentUnlocked => "DocumentUnlocked",
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
