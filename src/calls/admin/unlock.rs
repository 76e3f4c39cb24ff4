//! `DELETE /api/admin/locks/{lease_id}` and `POST /api/admin/locks/unlock`: end locks of others, on the record.

use std::sync::Arc;

use actix_web::{Responder, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    auth::Role,
    calls::{
        fields::Fields,
        problem::Problem,
        view::{DoneView, EndedView, Timed},
    },
    http::call::{Call, LeasePath},
    locking::{
        Command, DocumentKey, ForceUnlock, LeaseId, Refusal,
        names::{DocumentId, OwnerId, RoomId},
    },
    storage::queries::LockFilter,
};

const REASON_BYTES: usize = 500;
/// Locks ended in one command: other requests get in between.
const STEP: u64 = 100;

#[derive(Debug, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UnlockOneRequest {
    /// For the audit trail.
    #[param(nullable = false, max_length = 500, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[schema(max_length = 500, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    reason: Option<String>,
}

/// End one lock
#[utoipa::path(delete, path = "/api/admin/locks/{lease_id}", tag = "admin",
    params(("lease_id" = uuid::Uuid, Path), UnlockOneRequest), responses((status = 200, body = Timed<EndedView>)))]
pub async fn unlock_one(
    call: Call,
    LeasePath(lease_id): LeasePath,
    Fields(fields): Fields<UnlockOneRequest>,
) -> Result<impl Responder, Problem> {
    call.caller.require(Role::Admin)?;
    let note = note(fields.reason)?;
    let lock = call.api.queries.lock_by_lease(&call.caller.tenant, lease_id, call.judged_at()).await?;
    let lock = lock.ok_or_else(|| call.refused(&Refusal::NotFound))?;
    call.caller.require_in(Role::Admin, &lock.key.room)?;
    let outcome = call.submit(force(&call, vec![(lock.key, lease_id)], note)).await?;
    let done = outcome.single().map_err(|refusal| call.refused(&refusal))?;
    let now = call.now();
    Ok(web::Json(Timed { answer: DoneView::new(&done, &call.caller, now), server_time: now }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"filter": {"room": "minutes"}, "reason": "left open over the weekend"}))]
pub struct UnlockMatchingRequest {
    filter: Filter,
    /// For the audit trail.
    #[schema(max_length = 500, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    reason: Option<String>,
}

/// At least one must be given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UnlockFilter)]
pub struct Filter {
    room: Option<RoomId>,
    owner: Option<OwnerId>,
    document: Option<DocumentId>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Unlocked {
    unlocked: usize,
}

/// End all locks that match
#[utoipa::path(post, path = "/api/admin/locks/unlock", tag = "admin", request_body = UnlockMatchingRequest,
    responses((status = 200, body = Timed<Unlocked>)))]
pub async fn unlock_matching(
    call: Call,
    Fields(fields): Fields<UnlockMatchingRequest>,
) -> Result<impl Responder, Problem> {
    call.caller.require(Role::Admin)?;
    let note = note(fields.reason)?;
    let Filter { room, owner, document } = fields.filter;
    if room.is_none() && owner.is_none() && document.is_none() {
        return Err(Problem::invalid("filter", "must name a room, an owner or a document"));
    }
    let filter = LockFilter { room, owner, document };
    let (tenant, rooms) = (&call.caller.tenant, &call.caller.rooms);
    let mut unlocked = 0;
    let mut after = None;
    loop {
        let page = call.api.queries.locks(tenant, rooms, &filter, after.as_ref(), STEP, call.judged_at()).await?;
        let targets: Vec<_> = page.locks.into_iter().map(|lock| (lock.key, lock.lease_id)).collect();
        if !targets.is_empty() {
            unlocked += call.submit(force(&call, targets, note.clone())).await?.done.len();
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    Ok(web::Json(Timed { answer: Unlocked { unlocked }, server_time: call.now() }))
}

fn force(call: &Call, targets: Vec<(DocumentKey, LeaseId)>, note: Option<Arc<str>>) -> Command {
    Command::ForceUnlock(ForceUnlock { targets, by: call.caller.owner.clone(), note })
}

fn note(reason: Option<String>) -> Result<Option<Arc<str>>, Problem> {
    match reason {
        Some(reason) if reason.len() > REASON_BYTES => {
            Err(Problem::invalid("reason", format!("must be at most {REASON_BYTES} bytes")))
        }
        Some(reason) if reason.chars().any(char::is_control) => {
            Err(Problem::invalid("reason", "must not contain control characters"))
        }
        reason => Ok(reason.map(Into::into)),
    }
}
