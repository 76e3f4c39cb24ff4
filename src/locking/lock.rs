//! A lock, and who holds it.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{
    Timestamp,
    command::Fingerprint,
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
    pub last_extend: Option<ExtendMemo>,
}

impl Lock {
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }

    /// Zero for a lock that is overdue. Never more than its ttl: after a step of the database's clock another server may
    /// have moved `expires_at` before this one has heard of the new time.
    pub fn expires_in_ms(&self, now: Timestamp) -> i64 {
        self.expires_at.millis_since(now).clamp(0, i64::from(self.ttl_seconds) * 1000)
    }

    /// The same lock with a new end.
    #[must_use]
    pub(super) fn until(&self, expires_at: Timestamp) -> Self {
        Self { expires_at, due_at: self.due_at.min(expires_at), ..self.clone() }
    }
}

/// The last heartbeat that carried a request id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendMemo {
    pub request_id: RequestId,
    pub fingerprint: Fingerprint,
}

/// What a holder tells the others about its lock: a JSON object of at most 2 KiB, kept as its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata(Arc<str>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be at most {max} bytes as JSON, not {0}", max = Metadata::MAX_BYTES)]
pub struct MetadataError(usize);

impl Metadata {
    pub const MAX_BYTES: usize = 2048;

    pub fn new(object: &serde_json::Map<String, serde_json::Value>) -> Result<Self, MetadataError> {
        let text = serde_json::to_string(object).unwrap_or_default();
        if text.len() > Self::MAX_BYTES {
            return Err(MetadataError(text.len()));
        }
        Ok(Self(text.into()))
    }

    pub fn from_stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}
