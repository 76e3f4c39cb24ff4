//! The heartbeat: a lock lives another ttl from now.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Call, DocumentName, Keep, Problem, Ttl, metadata,
    request_id::not_compared,
    view::{DoneView, Timed},
};
use crate::{
    auth::Role,
    locking::{
        Activity, Command, Extend, Lock, Named,
        names::{DocumentVersion, RequestId, SessionId},
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
    #[schema(minimum = 1, maximum = 86400)]
    ttl_seconds: Option<u32>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// As the last answer told it: of two tabs with one session the older one is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    hold: Option<u32>,
    /// What the holder is doing; `active` unless it has said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    activity: Option<Activity>,
    /// The holder has saved the document as this version: the room is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    document_version: Option<DocumentVersion>,
    /// Over a socket: the server extends the lock from now on, as long as the socket answers pings.
    #[serde(skip_serializing_if = "not_compared")]
    #[schema(ignore)]
    pub keep: Option<Keep>,
}

/// Over HTTP.
pub async fn run(call: &Call, name: DocumentName, request: ExtendRequest) -> Result<Timed<DoneView>, Problem> {
    if request.keep.is_some() {
        return Err(Problem::invalid("keep", "goes with a WebSocket"));
    }
    Ok(run_for_socket(call, name, request).await?.0)
}

/// Over a socket, which may keep the lock.
pub async fn run_for_socket(
    call: &Call,
    name: DocumentName,
    request: ExtendRequest,
) -> Result<(Timed<DoneView>, Option<Lock>), Problem> {
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
        named: Named { lease_id: request.lease_id, session: request.session_id, hold: request.hold },
        activity: request.activity,
        document_version: request.document_version,
        request: id,
    };
    call.one_lock(Command::Extend(command)).await
}
