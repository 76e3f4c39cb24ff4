//! `PUT …/lock`: the heartbeat.

use actix_web::{Responder, web};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    fields::{Fields, not_compared},
    lock::{metadata, ttl_seconds},
    problem::Problem,
    view::{DoneView, LiveView, Timed},
};
use crate::http::call::{Call, DocumentPath};
use crate::{
    auth::Role,
    locking::{
        Command, Extend, Named,
        names::{RequestId, SessionId},
    },
};

/// What is named must match the caller's lock. With nothing named, only a lock taken without session is meant.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"session_id": "tab-1"}))]
pub struct ExtendRequest {
    lease_id: Option<Uuid>,
    session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "not_compared")]
    request_id: Option<RequestId>,
    /// The lock's own unless given.
    #[schema(minimum = 1, maximum = 300)]
    ttl_seconds: Option<u32>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Heartbeat: the lock lives another ttl from now
#[utoipa::path(put, path = "/api/documents/{room}/{document}/lock", tag = "locks",
    request_body = Option<ExtendRequest>, responses((status = 200, body = Timed<LiveView>)))]
pub async fn extend_lock(
    call: Call,
    name: DocumentPath,
    Fields(fields): Fields<ExtendRequest>,
) -> Result<impl Responder, Problem> {
    Ok(web::Json(run(&call, name, fields).await?))
}

/// However it was asked for.
pub async fn run(call: &Call, name: DocumentPath, fields: ExtendRequest) -> Result<Timed<DoneView>, Problem> {
    let keys = vec![call.key(Role::Editor, name)?];
    let request = call.request(fields.request_id.clone(), "extend", &keys, &fields)?;
    let command = Extend {
        keys,
        owner: call.caller.owner.clone(),
        ttl_seconds: ttl_seconds(call, fields.ttl_seconds)?,
        metadata: metadata(fields.metadata.as_ref())?,
        named: Named { lease_id: fields.lease_id, session: fields.session_id },
        request,
    };
    let outcome = call.submit(Command::Extend(command)).await?;
    let done = outcome.single().map_err(|refusal| call.refused(&refusal))?;
    let now = call.now();
    Ok(Timed { answer: DoneView::new(&done, &call.caller, now), server_time: now })
}
