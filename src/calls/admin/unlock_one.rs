//! Ends one lock, whoever holds it, on the record.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::force;
use crate::{
    auth::Role,
    calls::{
        Call, Note, Problem,
        view::{DoneView, Timed},
    },
    locking::{LeaseId, Refusal},
};

#[derive(Debug, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UnlockOneRequest {
    /// For the audit trail.
    #[param(nullable = false, max_length = 500, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[schema(max_length = 500, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    reason: Option<String>,
}

pub async fn run(call: &Call, lease_id: LeaseId, request: UnlockOneRequest) -> Result<Timed<DoneView>, Problem> {
    call.caller.require(Role::Admin)?;
    let note = request.reason.map(Note::parse).transpose()?;
    let lock = call.calls.queries.lock_by_lease(&call.caller.tenant, lease_id, &call.judged_at()).await?;
    let lock = lock.ok_or_else(|| call.refused(&Refusal::NotFound))?;
    call.caller.require_in(Role::Admin, &lock.key.room)?;
    call.one(force(call, vec![(lock.key, lease_id)], note.as_ref())).await
}
