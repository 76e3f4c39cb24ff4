//! The event log, as admins read it.

use uuid::Uuid;

use crate::record::{Moment, Name};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Released,
    Expired,
    TakenOver,
    Revoked,
}

impl Reason {
    /// How a refusal tells that a lease has ended so.
    pub fn code(self) -> &'static str {
        match self {
            Self::Released => "LEASE_RELEASED",
            Self::Expired => "LEASE_EXPIRED",
            Self::TakenOver | Self::Revoked => "LEASE_REVOKED",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    Locked,
    Ended { reason: Reason, by: Option<Name> },
}

#[derive(Debug, Clone)]
pub struct Event {
    pub sequence: i64,
    /// By the server's clock, in milliseconds.
    pub at: i64,
    pub key: Name,
    pub lease: Uuid,
    pub token: i64,
    pub owner: Name,
    pub session: Option<Name>,
    /// Of the request that was granted.
    pub tag: Option<u64>,
    pub happened: Happened,
}

impl Event {
    pub fn is_lock(&self) -> bool {
        self.happened == Happened::Locked
    }

    pub fn reason(&self) -> Option<Reason> {
        match &self.happened {
            Happened::Locked => None,
            Happened::Ended { reason, .. } => Some(*reason),
        }
    }

    pub fn by(&self) -> Option<&Name> {
        match &self.happened {
            Happened::Locked => None,
            Happened::Ended { by, .. } => by.as_ref(),
        }
    }

    pub fn room(&self) -> &str {
        self.key.split('/').next().unwrap_or_default()
    }

    /// In one line, for the story of a violation.
    pub fn told(&self) -> String {
        let what = match &self.happened {
            Happened::Locked => "locked".to_owned(),
            Happened::Ended { reason, by } => format!("{reason:?} by {}", by.as_deref().unwrap_or("nobody")),
        };
        let session = self.session.as_deref().unwrap_or("-");
        format!(
            "log {}: token {} {what}; owner {} session {session} lease {} at {}",
            self.sequence,
            self.token,
            self.owner,
            short(self.lease),
            clock(self.at)
        )
    }
}

/// The end of a lease, which is the part that differs.
pub fn short(lease: Uuid) -> String {
    lease.to_string()[24..].to_owned()
}

pub fn clock(millis: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(millis).unwrap_or_default();
    time.format("%H:%M:%S%.3f").to_string()
}

/// When an event was committed, by the clients' clock: not before the one, not after the other.
#[derive(Debug, Clone, Copy)]
pub struct Committed {
    pub not_before: Moment,
    pub not_after: Moment,
}
