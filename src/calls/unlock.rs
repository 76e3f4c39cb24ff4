//! Gives a lock up.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    Call, DocumentName, Problem,
    request_id::not_compared,
    view::{DoneView, Timed},
};
use crate::{
    auth::Role,
    locking::{
        Command, Named, Unlock,
        names::{DocumentVersion, RequestId, SessionId},
    },
};

/// What is named must match the caller's lock. With nothing named, only a lock taken without session is meant.
#[derive(Debug, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UnlockRequest {
    #[param(nullable = false)]
    lease_id: Option<Uuid>,
    #[param(nullable = false)]
    session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "not_compared")]
    #[param(nullable = false)]
    request_id: Option<RequestId>,
    /// What the next holder is told.
    #[param(nullable = false)]
    document_version: Option<DocumentVersion>,
}

pub async fn run(call: &Call, name: DocumentName, request: UnlockRequest) -> Result<Timed<DoneView>, Problem> {
    let key = call.key(Role::Editor, name)?;
    let tenant = key.tenant.clone();
    let keys = vec![key];
    let id = call.request(request.request_id.as_ref(), "unlock", &keys, &request)?;
    let command = Unlock {
        tenant,
        keys,
        owner: call.caller.owner.clone(),
        named: Named { lease_id: request.lease_id, session: request.session_id, hold: None },
        document_version: request.document_version,
        request: id,
    };
    call.one(Command::Unlock(command)).await
}
