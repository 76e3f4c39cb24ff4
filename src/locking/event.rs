//! What the log remembers and the room hears.

use std::sync::Arc;

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
    pub const LOCKED: &'static str = "DocumentLocked";
    pub const UNLOCKED: &'static str = "DocumentUnlocked";

    pub fn name(&self) -> &'static str {
        match self {
            Self::Locked => Self::LOCKED,
            Self::Unlocked { .. } => Self::UNLOCKED,
        }
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
