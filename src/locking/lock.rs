//! A lock, and who holds it.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{
    EndReason, Timestamp,
    names::{DocumentId, DocumentVersion, OwnerId, RequestId, RoomId, SessionId, TenantId},
};

/// The identity of one grant.
pub type LeaseId = Uuid;

/// What a lock is on. Ordered by bytes: the order in which rows are locked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    pub tenant: TenantId,
    pub room: RoomId,
    pub document: DocumentId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub owner: OwnerId,
    pub session: Option<SessionId>,
    pub name: Option<Arc<str>>,
}

impl Holder {
    /// No session equals no session: it matches nothing, not even another missing one.
    pub fn is_same_session(&self, other: &Self) -> bool {
        self.owner == other.owner && self.session.is_some() && self.session == other.session
    }
}

/// Live while `now < expires_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    pub key: DocumentKey,
    pub slot: u32,
    pub lease_id: LeaseId,
    pub hold: u32,
    pub fencing_token: i64,
    pub holder: Holder,
    pub acquired_at: Timestamp,
    pub expires_at: Timestamp,
    /// When expiry looks at it next, never after `expires_at`.
    pub due_at: Timestamp,
    pub ttl_seconds: u32,
    pub metadata: Option<Metadata>,
    pub document_version: Option<DocumentVersion>,
    /// Its page said goodbye and may be back within this time; a heartbeat or a resume ends that.
    pub linger_ms: Option<u32>,
    /// Request ids of its last heartbeats, oldest first, at most [`Lock::EXTENDS_REMEMBERED`].
    pub extend_ids: Vec<RequestId>,
}

impl Lock {
    pub const EXTENDS_REMEMBERED: usize = 8;

    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }

    /// Zero for a lock that is overdue. Never more than its ttl: after a step of the database's clock another server may
    /// have moved `expires_at` before this one has heard of the new time.
    pub fn expires_in_ms(&self, now: Timestamp) -> i64 {
        self.expires_at.millis_since(now).clamp(0, i64::from(self.ttl_seconds) * 1000)
    }

    /// How long the last write gave it: it was written at `expires_at - span_ms`, and grace after an outage gives it
    /// the same span again.
    pub fn span_ms(&self) -> i64 {
        self.linger_ms.map_or(i64::from(self.ttl_seconds) * 1000, i64::from)
    }

    /// The same lock, with a whole ttl from now.
    #[must_use]
    pub(super) fn extended(&self, ttl_seconds: u32, now: Timestamp) -> Self {
        Self { ttl_seconds, linger_ms: None, ..self.until(now.plus_seconds(ttl_seconds)) }
    }

    /// The same lock, cut to `linger_ms` from now unless it ends sooner anyway.
    #[must_use]
    pub(super) fn lingering(&self, linger_ms: u32, now: Timestamp) -> Self {
        let left = u32::try_from(self.expires_at.millis_since(now)).unwrap_or_default();
        let linger_ms = linger_ms.min(left);
        Self { linger_ms: Some(linger_ms), ..self.until(now.plus_millis(i64::from(linger_ms))) }
    }

    /// Every new end goes through here, because `due_at` must never be later than it.
    fn until(&self, expires_at: Timestamp) -> Self {
        Self { expires_at, due_at: self.due_at.min(expires_at), ..self.clone() }
    }

    /// When it ended, noticed now: an overdue lock had ended when its time was over.
    pub fn ended_at(&self, now: Timestamp) -> Timestamp {
        self.expires_at.min(now)
    }

    /// Sorts overdue locks of a document by when they ended; of two at once the older one goes first.
    pub(super) fn end_order(&self) -> (Timestamp, i64) {
        (self.expires_at, self.fencing_token)
    }

    /// How it ends when nobody ends it.
    pub(super) fn overdue_reason(&self) -> EndReason {
        if self.linger_ms.is_some() { EndReason::Released } else { EndReason::Expired }
    }
}

/// What a holder tells the others about its lock: a JSON object of at most 2 KiB, kept as its text.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Metadata(Arc<RawValue>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be at most {max} bytes as JSON, not {0}", max = Metadata::MAX_BYTES)]
pub struct MetadataError(usize);

impl Metadata {
    pub const MAX_BYTES: usize = 2048;

    pub fn new(object: &serde_json::Map<String, serde_json::Value>) -> Result<Self, MetadataError> {
        // A map can always be written.
        let raw = serde_json::value::to_raw_value(object).unwrap_or_default();
        match raw.get().len() {
            too_long if too_long > Self::MAX_BYTES => Err(MetadataError(too_long)),
            _ => Ok(Self(raw.into())),
        }
    }

    /// None if the text is not JSON, which nobody here has written.
    pub fn from_stored(text: impl Into<String>) -> Option<Self> {
        RawValue::from_string(text.into()).ok().map(|raw| Self(raw.into()))
    }

    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Metadata {}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.into()))
    }
}
