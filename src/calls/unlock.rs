//! `DELETE …/lock`: give it up.

use actix_web::{Responder, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    fields::{Fields, not_compared},
    problem::Problem,
    view::{DoneView, EndedView, Timed},
};
use crate::http::call::{Call, DocumentPath};
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

/// Unlock
///
/// The fields may be given as query parameters or as a JSON body.
#[utoipa::path(delete, path = "/api/documents/{room}/{document}/lock", tag = "locks",
    params(UnlockRequest), responses((status = 200, body = Timed<EndedView>)))]
pub async fn unlock(
    call: Call,
    name: DocumentPath,
    Fields(fields): Fields<UnlockRequest>,
) -> Result<impl Responder, Problem> {
    Ok(web::Json(run(&call, name, fields).await?))
}

/// However it was asked for.
pub async fn run(call: &Call, name: DocumentPath, fields: UnlockRequest) -> Result<Timed<DoneView>, Problem> {
    let key = call.key(Role::Editor, name)?;
    let tenant = key.tenant.clone();
    let keys = vec![key];
    let request = call.request(fields.request_id.clone(), "unlock", &keys, &fields)?;
    let command = Unlock {
        tenant,
        keys,
        owner: call.caller.owner.clone(),
        named: Named { lease_id: fields.lease_id, session: fields.session_id },
        document_version: fields.document_version,
        request,
    };
    let outcome = call.submit(Command::Unlock(command)).await?;
    let done = outcome.single().map_err(|refusal| call.refused(&refusal))?;
    let now = call.now();
    Ok(Timed { answer: DoneView::new(&done, &call.caller, now), server_time: now })
}
