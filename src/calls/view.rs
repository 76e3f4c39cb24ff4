//! Locks as a caller may see them.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Code, refusal};
use crate::{
    auth::{Caller, Role},
    locking::{
        Activity, Ask, AskOutcome, Done, Failed, Holder, HolderKind, Lock, Metadata, Refusal, Timestamp,
        names::{DocumentId, DocumentVersion, OwnerId, RoomId, SessionId},
    },
};

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lock)]
pub struct LockView {
    room: RoomId,
    document: DocumentId,
    /// For the lock's owner and admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lease_id: Option<Uuid>,
    /// 1 at the grant, one more each time the same session resumes the lock.
    #[schema(minimum = 1)]
    hold: u32,
    #[schema(minimum = 1)]
    fencing_token: i64,
    holder: HolderView,
    acquired_at: Timestamp,
    expires_at: Timestamp,
    /// Count down from this, on a monotonic clock, from before the request was sent.
    #[schema(minimum = 0)]
    expires_in_ms: i64,
    ttl_seconds: u32,
    /// What the holder last said of itself.
    activity: Activity,
    /// When the holder was last known to be active.
    active_at: Timestamp,
    #[schema(required)]
    metadata: Option<Metadata>,
    /// As the previous holder left it, or as this one has saved since.
    #[schema(required)]
    document_version: Option<DocumentVersion>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Holder)]
pub struct HolderView {
    owner_id: OwnerId,
    /// For the lock's owner and admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SessionId>, required = false)]
    #[expect(clippy::option_option, reason = "not shown is not the same as not there")]
    session_id: Option<Option<SessionId>>,
    #[schema(value_type = Option<String>, required)]
    name: Option<Arc<str>>,
    kind: HolderKind,
}

impl HolderView {
    /// `sees_all`: with what only the owner and admins may see.
    pub fn shown(holder: &Holder, sees_all: bool) -> Self {
        Self {
            owner_id: holder.owner.clone(),
            session_id: sees_all.then(|| holder.session.clone()),
            name: holder.name.clone(),
            kind: holder.kind,
        }
    }
}

impl LockView {
    pub fn new(lock: &Lock, caller: &Caller, now: Timestamp) -> Self {
        Self::shown(lock, caller.role == Role::Admin || caller.owner == lock.holder.owner, now)
    }

    /// `sees_all`: with what only the lock's owner and admins may see.
    pub fn shown(lock: &Lock, sees_all: bool, now: Timestamp) -> Self {
        Self {
            room: lock.key.room.clone(),
            document: lock.key.document.clone(),
            lease_id: sees_all.then_some(lock.lease_id),
            hold: lock.hold,
            fencing_token: lock.fencing_token,
            holder: HolderView::shown(&lock.holder, sees_all),
            acquired_at: lock.acquired_at,
            expires_at: lock.expires_at,
            expires_in_ms: lock.expires_in_ms(now),
            ttl_seconds: lock.ttl_seconds,
            activity: lock.activity,
            active_at: lock.active_at,
            metadata: lock.metadata.clone(),
            document_version: lock.document_version.clone(),
        }
    }
}

/// What was done to one document: a lock that lives, or the end of one.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum DoneView {
    Live(LiveView),
    Ended(EndedView),
    /// Somebody else's lock, which the caller waits for.
    Held(LockView),
    Asked(HandoverView),
    LeftLine {},
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LiveLock)]
pub struct LiveView {
    #[serde(flatten)]
    lock: LockView,
    /// The same session had it already.
    resumed: bool,
    /// Open asks for this lock.
    handovers: Vec<HandoverView>,
}

/// An ask for a lock.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Handover)]
pub struct HandoverView {
    handover_id: Uuid,
    room: RoomId,
    document: DocumentId,
    by: HolderView,
    #[schema(value_type = Option<String>, required)]
    message: Option<Arc<str>>,
    /// `open`, or how it ended: `granted`, `denied`, `unanswered`, `cancelled` or `moot`.
    outcome: &'static str,
    /// What the holder said with its answer.
    #[schema(value_type = Option<String>, required)]
    answer: Option<Arc<str>>,
    /// How long the holder has to answer.
    #[schema(minimum = 0)]
    expires_in_ms: i64,
    /// The asker's, if it was granted just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lock: Option<Box<LockView>>,
}

impl HandoverView {
    pub fn new(ask: &Ask, caller: &Caller, now: Timestamp) -> Self {
        let left_ms = if ask.outcome.is_some() { 0 } else { ask.expires_at.millis_since(now).max(0) };
        Self {
            handover_id: ask.id,
            room: ask.key.room.clone(),
            document: ask.key.document.clone(),
            by: HolderView::shown(&ask.asker, caller.owner == ask.asker.owner || caller.role == Role::Admin),
            message: ask.message.clone(),
            outcome: ask.outcome.map_or("open", AskOutcome::name),
            answer: ask.answer.clone(),
            expires_in_ms: left_ms,
            lock: None,
        }
    }

    pub(super) fn with_lock(self, lock: &Lock, caller: &Caller, now: Timestamp) -> Self {
        Self { lock: Some(Box::new(LockView::new(lock, caller, now))), ..self }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EndedLock)]
pub struct EndedView {
    document: DocumentId,
    released: bool,
    fencing_token: i64,
}

impl DoneView {
    pub fn new(done: &Done, caller: &Caller, now: Timestamp) -> Self {
        match done {
            Done::Live { lock, resumed, asks, .. } => Self::Live(LiveView {
                lock: LockView::new(lock, caller, now),
                resumed: *resumed,
                handovers: asks.iter().map(|ask| HandoverView::new(ask, caller, now)).collect(),
            }),
            Done::Waiting { lock, .. } => Self::Held(LockView::new(lock, caller, now)),
            Done::Asked(ask) => Self::Asked(HandoverView::new(ask, caller, now)),
            Done::LeftLine => Self::LeftLine {},
            Done::Ended { key, fencing_token } => {
                Self::Ended(EndedView { document: key.document.clone(), released: true, fencing_token: *fencing_token })
            }
        }
    }
}

/// Any answer, with the time.
#[derive(Debug, Serialize, ToSchema)]
pub struct Timed<T> {
    #[serde(flatten)]
    pub answer: T,
    pub server_time: Timestamp,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Items<T> {
    pub items: Vec<T>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FailedDocument)]
pub struct FailedView {
    document: DocumentId,
    code: Code,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lock: Option<LockView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    is_you: Option<bool>,
}

impl FailedView {
    pub(super) fn new(failed: &Failed, caller: &Caller, now: Timestamp) -> Self {
        let (lock, is_you) = match &failed.refusal {
            Refusal::Held { lock, is_you, .. } => (Some(lock), Some(*is_you)),
            Refusal::NotOwner { lock } | Refusal::TakeOverForbidden { lock } => (Some(lock), None),
            Refusal::NotFound
            | Refusal::Ended(_)
            | Refusal::Mismatch
            | Refusal::CapacityMismatch { .. }
            | Refusal::RequestIdReused
            | Refusal::LimitReached { .. }
            | Refusal::TooManyWaits { .. }
            | Refusal::AskedTooSoon { .. }
            | Refusal::AskNotFound => (None, None),
        };
        Self {
            document: failed.key.document.clone(),
            code: refusal::code(&failed.refusal),
            lock: lock.map(|lock| LockView::new(lock, caller, now)),
            is_you,
        }
    }
}
