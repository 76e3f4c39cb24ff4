//! Locks and refusals as a caller may see them.

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::problem::{Code, Problem};
use crate::{
    auth::{Caller, Role},
    locking::{
        Done, EndReason, Failed, Lock, Metadata, Outcome, Refusal, Timestamp,
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
    #[schema(required)]
    metadata: Option<Metadata>,
    /// As the previous holder left it.
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
    #[schema(required)]
    name: Option<String>,
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
            holder: HolderView {
                owner_id: lock.holder.owner.clone(),
                session_id: sees_all.then(|| lock.holder.session.clone()),
                name: lock.holder.name.as_deref().map(Into::into),
            },
            acquired_at: lock.acquired_at,
            expires_at: lock.expires_at,
            expires_in_ms: lock.expires_in_ms(now),
            ttl_seconds: lock.ttl_seconds,
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

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Handover)]
pub struct HandoverView {
    handover_id: Uuid,
    by: HolderView,
    #[schema(required)]
    message: Option<String>,
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
            Done::Live { lock, resumed } => Self::Live(LiveView {
                lock: LockView::new(lock, caller, now),
                resumed: *resumed,
                handovers: Vec::new(),
            }),
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

/// Several documents: all done, or a problem that lists what failed and what was done all the same.
pub fn many(outcome: &Outcome, caller: &Caller, now: Timestamp) -> Result<Items<DoneView>, Problem> {
    let items: Vec<_> = outcome.done.iter().map(|done| DoneView::new(done, caller, now)).collect();
    let Some(first) = outcome.failed.first() else { return Ok(Items { items }) };
    let failed: Vec<_> = outcome.failed.iter().map(|failed| FailedView::new(failed, caller, now)).collect();
    // Together they are a conflict, even if each alone would be a 403 or a 404.
    let code = match refusal(&first.refusal, caller, now).code {
        Code::NotOwner | Code::LockNotFound => Code::LeaseMismatch,
        code => code,
    };
    Err(Problem::new(code, format!("{} of the documents failed: `failed` says why.", failed.len()))
        .with("failed", failed)
        .with("items", items))
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
    fn new(failed: &Failed, caller: &Caller, now: Timestamp) -> Self {
        let (lock, is_you) = match &failed.refusal {
            Refusal::Held { lock, is_you, .. } => (Some(lock), Some(*is_you)),
            Refusal::NotOwner { lock } | Refusal::TakeOverForbidden { lock } => (Some(lock), None),
            Refusal::NotFound
            | Refusal::Ended(_)
            | Refusal::Mismatch
            | Refusal::CapacityMismatch { .. }
            | Refusal::RequestIdReused
            | Refusal::LimitReached { .. } => (None, None),
        };
        Self {
            document: failed.key.document.clone(),
            code: refusal(&failed.refusal, caller, now).code,
            lock: lock.map(|lock| LockView::new(lock, caller, now)),
            is_you,
        }
    }
}

pub fn refusal(refusal: &Refusal, caller: &Caller, now: Timestamp) -> Problem {
    let holder = |lock: &Lock| lock.holder.name.as_deref().unwrap_or(lock.holder.owner.as_str()).to_owned();
    match refusal {
        Refusal::Held { lock, is_you, free_at } => {
            let detail = if *is_you {
                "You hold it yourself, in another session.".to_owned()
            } else {
                format!("{} holds it.", holder(lock))
            };
            Problem::new(Code::LockHeld, detail)
                .with("lock", LockView::new(lock, caller, now))
                .with("is_you", is_you)
                .retry_after_ms(lock.expires_in_ms(now).min(free_at.millis_since(now).max(0)))
        }
        Refusal::NotFound => Problem::new(Code::LockNotFound, "No lock of yours is or was here."),
        Refusal::NotOwner { lock } => Problem::new(Code::NotOwner, format!("{} holds it.", holder(lock)))
            .with("lock", LockView::new(lock, caller, now)),
        Refusal::Ended(EndReason::Expired) => {
            Problem::new(Code::LeaseExpired, "No heartbeat came in time. Lock it again before you write.")
        }
        Refusal::Ended(EndReason::Released | EndReason::HandedOver) => {
            Problem::new(Code::LeaseReleased, "It was given up. Lock it again before you write.")
        }
        Refusal::Ended(EndReason::TakenOver) => {
            Problem::new(Code::LeaseRevoked, "It was taken over. Do not write what you have.")
        }
        Refusal::Ended(EndReason::Revoked) => {
            Problem::new(Code::LeaseRevoked, "An admin ended it. Do not write what you have.")
        }
        Refusal::Mismatch => Problem::new(
            Code::LeaseMismatch,
            "You hold a lock here, but not the one named. Name its lease_id or its session_id, and its hold to release it.",
        ),
        Refusal::CapacityMismatch { in_force } => {
            Problem::new(Code::CapacityMismatch, format!("While it is locked its capacity is {in_force}."))
                .with("capacity", in_force)
        }
        Refusal::RequestIdReused => {
            Problem::new(Code::RequestIdReused, "A request_id stands for one method, path and body.")
                .with("field", "request_id")
        }
        Refusal::TakeOverForbidden { lock } => Problem::new(
            Code::RoleForbids,
            "Taking over from others takes the permission `takeover` or the role admin.",
        )
        .with("lock", LockView::new(lock, caller, now)),
        Refusal::LimitReached { limit } => {
            Problem::new(Code::LimitReached, format!("One owner may hold {limit} locks.")).with("limit", limit)
        }
    }
}
