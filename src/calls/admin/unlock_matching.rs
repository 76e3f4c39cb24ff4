//! Ends all locks that match a filter, whoever holds them, on the record.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::force;
use crate::{
    auth::Role,
    calls::{Call, Note, Problem, view::Timed},
    locking::names::{DocumentId, OwnerId, RoomId},
    storage::queries::LockFilter,
};

/// Locks ended in one command: other requests get in between.
const STEP: u64 = 100;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"filter": {"room": "minutes"}, "reason": "left open over the weekend"}))]
pub struct UnlockMatchingRequest {
    filter: UnlockFilter,
    /// For the audit trail.
    #[schema(max_length = 500, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    reason: Option<String>,
}

/// At least one must be given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UnlockFilter {
    room: Option<RoomId>,
    owner: Option<OwnerId>,
    document: Option<DocumentId>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Unlocked)]
pub struct UnlockedCount {
    unlocked: usize,
}

pub async fn run(call: &Call, request: UnlockMatchingRequest) -> Result<Timed<UnlockedCount>, Problem> {
    call.caller.require(Role::Admin)?;
    let note = request.reason.map(Note::parse).transpose()?;
    let UnlockFilter { room, owner, document } = request.filter;
    if room.is_none() && owner.is_none() && document.is_none() {
        return Err(Problem::invalid("filter", "must name a room, an owner or a document"));
    }
    let filter = LockFilter { room, owner, document };
    let (tenant, rooms) = (&call.caller.tenant, &call.caller.rooms);
    let mut unlocked = 0;
    let mut after = None;
    loop {
        let page = call.calls.queries.locks(tenant, rooms, &filter, after.as_ref(), STEP, &call.judged_at()).await?;
        let targets: Vec<_> = page.locks.into_iter().map(|lock| (lock.key, lock.lease_id)).collect();
        if !targets.is_empty() {
            unlocked += call.submit(force(call, targets, note.as_ref())).await?.done.len();
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    Ok(call.timed(UnlockedCount { unlocked }))
}
