//! Gives up the locks of several documents of a room, each on its own.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Call, Documents, Problem,
    request_id::not_compared,
    view::{DoneView, Items, Timed},
};
use crate::{
    auth::Role,
    locking::{
        Command, Named, Unlock,
        names::{DocumentId, RequestId, RoomId, SessionId},
    },
};

#[derive(Debug, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UnlockManyRequest {
    #[param(value_type = HashSet<DocumentId>, min_items = 1, max_items = 100)]
    #[schema(value_type = HashSet<DocumentId>, min_items = 1, max_items = 100)]
    documents: Documents,
    #[param(nullable = false)]
    session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "not_compared")]
    #[param(nullable = false)]
    request_id: Option<RequestId>,
}

pub async fn run(call: &Call, room: RoomId, request: UnlockManyRequest) -> Result<Timed<Items<DoneView>>, Problem> {
    let keys = call.keys(Role::Editor, &room, &request.documents)?;
    let id = call.request(request.request_id.as_ref(), "unlock many", &keys, &request)?;
    let command = Unlock {
        tenant: call.caller.tenant.clone(),
        keys,
        owner: call.caller.owner.clone(),
        named: Named { session: request.session_id, ..Named::default() },
        document_version: None,
        request: id,
    };
    call.many(Command::Unlock(command)).await
}
