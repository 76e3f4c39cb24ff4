//! The heartbeat: a lock lives another ttl from now.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Call, DocumentName, Problem, Ttl, metadata,
    request_id::not_compared,
    view::{DoneView, Timed},
};
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

pub async fn run(call: &Call, name: DocumentName, request: ExtendRequest) -> Result<Timed<DoneView>, Problem> {
    let key = call.key(Role::Editor, name)?;
    let tenant = key.tenant.clone();
    let keys = vec![key];
    let id = call.request(request.request_id.as_ref(), "extend", &keys, &request)?;
    let command = Extend {
        tenant,
        keys,
        owner: call.caller.owner.clone(),
        ttl_seconds: call.ttl(request.ttl_seconds)?.map(Ttl::seconds),
        metadata: metadata(request.metadata.as_ref())?,
        named: Named { lease_id: request.lease_id, session: request.session_id },
        request: id,
    };
    call.one(Command::Extend(command)).await
}
