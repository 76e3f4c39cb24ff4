//! The heartbeat for several documents of a room, each on its own.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Call, Documents, Problem, Ttl,
    request_id::not_compared,
    view::{DoneView, Items, Timed},
};
use crate::{
    auth::Role,
    locking::{
        Command, Extend, Named,
        names::{DocumentId, RequestId, RoomId, SessionId},
    },
};

/// Several documents are named by session, or were locked without one.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"documents": ["intro", "summary"], "session_id": "tab-1"}))]
pub struct ExtendManyRequest {
    #[schema(value_type = HashSet<DocumentId>, min_items = 1, max_items = 100)]
    documents: Documents,
    #[schema(minimum = 1, maximum = 86400)]
    ttl_seconds: Option<u32>,
    session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "not_compared")]
    request_id: Option<RequestId>,
}

pub async fn run(call: &Call, room: RoomId, request: ExtendManyRequest) -> Result<Timed<Items<DoneView>>, Problem> {
    let keys = call.keys(Role::Editor, &room, &request.documents)?;
    let id = call.request(request.request_id.as_ref(), "extend many", &keys, &request)?;
    let command = Extend {
        tenant: call.caller.tenant.clone(),
        keys,
        owner: call.caller.owner.clone(),
        named: Named { session: request.session_id, ..Named::default() },
        activity: None,
        document_version: None,
        ttl_seconds: call.ttl(request.ttl_seconds)?.map(Ttl::seconds),
        metadata: None,
        request: id,
    };
    call.many(Command::Extend(command)).await
}
