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
    pub kind: HolderKind,
}

/// What holds a lock, as its token says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HolderKind {
    #[default]
    Person,
    Agent,
    Job,
}

/// What a holder last said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    #[default]
    Active,
    Idle,
    Away,
}

macro_rules! stored_by_name {
    ($($Type:ident { $($Variant:ident $name:literal),+ }),+ $(,)?) => {$(
        impl $Type {
            pub const ALL: &[Self] = &[$(Self::$Variant),+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$Variant => $name,)+ }
            }

            /// A name that nobody here has written counts as the default.
            pub fn from_stored(name: Option<&str>) -> Self {
                Self::ALL.iter().copied().find(|known| Some(known.name()) == name).unwrap_or_default()
            }
        }
    )+};
}

stored_by_name! {
    HolderKind { Person "person", Agent "agent", Job "job" },
    Activity { Active "active", Idle "idle", Away "away" },
}

/// How long the last write gave a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Span {
    /// Its whole ttl.
    #[default]
    Ttl,
    /// In milliseconds: its page said goodbye and may be back within this time; a heartbeat or a resume ends that.
    Linger(u32),
    /// In milliseconds: it was granted to somebody who waited, and nobody has claimed it yet.
    Claim(u32),
}

impl Span {
    /// From the two columns it is stored in.
    pub fn from_stored(linger_ms: Option<u32>, claim_ms: Option<u32>) -> Self {
        match (linger_ms, claim_ms) {
            (Some(linger_ms), _) => Self::Linger(linger_ms),
            (None, Some(claim_ms)) => Self::Claim(claim_ms),
            (None, None) => Self::Ttl,
        }
    }

    pub fn linger_ms(self) -> Option<u32> {
        if let Self::Linger(millis) = self { Some(millis) } else { None }
    }

    pub fn claim_ms(self) -> Option<u32> {
        if let Self::Claim(millis) = self { Some(millis) } else { None }
    }
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
    /// As the previous holder left it, or as this one has saved since.
    pub document_version: Option<DocumentVersion>,
    pub span: Span,
    pub activity: Activity,
    /// When the holder was last known to be active.
    pub active_at: Timestamp,
    /// Somebody waits in line for the document or asks for this lock: whoever ends it must look at both. It may stay set
    /// when they have gone.
    pub is_wanted: bool,
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
        match self.span {
            Span::Ttl => i64::from(self.ttl_seconds) * 1000,
            Span::Linger(millis) | Span::Claim(millis) => millis.into(),
        }
    }

    /// The same lock, with a whole ttl from now.
    #[must_use]
    pub(super) fn extended(&self, ttl_seconds: u32, now: Timestamp) -> Self {
        Self { ttl_seconds, span: Span::Ttl, ..self.until(now.plus_seconds(ttl_seconds)) }
    }

    /// The same lock, cut to `linger_ms` from now unless it ends sooner anyway.
    #[must_use]
    pub(super) fn lingering(&self, linger_ms: u32, now: Timestamp) -> Self {
        let left = u32::try_from(self.expires_at.millis_since(now)).unwrap_or_default();
        let linger_ms = linger_ms.min(left);
        Self { span: Span::Linger(linger_ms), ..self.until(now.plus_millis(i64::from(linger_ms))) }
    }

    /// The same lock, with what its holder says of itself.
    #[must_use]
    pub(super) fn acting(self, activity: Option<Activity>, now: Timestamp) -> Self {
        let active_at = if activity == Some(Activity::Active) { now } else { self.active_at };
        Self { activity: activity.unwrap_or(self.activity), active_at, ..self }
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
        match self.span {
            Span::Linger(_) => EndReason::Released,
            Span::Ttl | Span::Claim(_) => EndReason::Expired,
        }
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
