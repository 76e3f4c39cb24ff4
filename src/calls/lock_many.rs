//! Locks several documents of a room, all or nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    Call, Documents, Problem, Ttl, metadata,
    request_id::not_compared,
    view::{DoneView, Items, Timed},
};
use crate::{
    auth::Role,
    locking::{
        Command, LockDocuments, Wanted,
        names::{DocumentId, RequestId, RoomId, SessionId},
    },
};

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"documents": ["intro", "summary"], "session_id": "tab-1"}))]
pub struct LockManyRequest {
    #[schema(value_type = HashSet<DocumentId>, min_items = 1, max_items = 100)]
    documents: Documents,
    #[schema(minimum = 1, maximum = 86400)]
    ttl_seconds: Option<u32>,
    session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "not_compared")]
    request_id: Option<RequestId>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

pub async fn run(call: &Call, room: RoomId, request: LockManyRequest) -> Result<Timed<Items<DoneView>>, Problem> {
    let keys = call.keys(Role::Editor, &room, &request.documents)?;
    let id = call.request(request.request_id.as_ref(), "lock many", &keys, &request)?;
    let command = LockDocuments {
        tenant: call.caller.tenant.clone(),
        wanted: keys.into_iter().map(|key| Wanted { key, lease_id: call.new_lease_id() }).collect(),
        ttl_seconds: call.ttl(request.ttl_seconds)?.map(Ttl::seconds),
        takeover: None,
        capacity: None,
        metadata: metadata(request.metadata.as_ref())?,
        document_version: None,
        holder: call.holder(request.session_id),
        request: id,
        waits: false,
    };
    call.many(Command::Lock(command)).await
}
