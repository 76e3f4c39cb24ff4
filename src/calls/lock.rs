//! Locks a document.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    Call, Capacity, DocumentName, Problem, Ttl, metadata,
    request_id::not_compared,
    view::{DoneView, Timed},
};
use crate::{
    auth::{Caller, Role},
    locking::{
        Command, LockDocuments, TakeOver, Wanted,
        names::{DocumentVersion, RequestId, SessionId},
    },
};

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"ttl_seconds": 30, "session_id": "tab-1"}))]
pub struct LockRequest {
    /// How long it lives past its last heartbeat. 30 unless given.
    #[schema(minimum = 1, maximum = 300)]
    ttl_seconds: Option<u32>,
    /// The tab or process: the same session gets the same lock again.
    session_id: Option<SessionId>,
    /// Sent again, the request acts no second time. Also as header `Idempotency-Key`.
    #[serde(skip_serializing_if = "not_compared")]
    request_id: Option<RequestId>,
    /// Take the lock from whoever has it: one's own always, others' with the permission.
    takeover: Option<bool>,
    /// With `takeover`: only from the holder of this token.
    expected_token: Option<i64>,
    /// How many may hold the document at once. 1 unless given.
    #[schema(minimum = 1, maximum = 1000)]
    capacity: Option<u32>,
    /// Shown to others. At most 2 KiB.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The version the editor starts from, if no holder has left one yet.
    document_version: Option<DocumentVersion>,
}

pub async fn run(call: &Call, name: DocumentName, request: LockRequest) -> Result<Timed<DoneView>, Problem> {
    let key = call.key(Role::Editor, name)?;
    let id = call.request(request.request_id.as_ref(), "lock", std::slice::from_ref(&key), &request)?;
    let command = LockDocuments {
        tenant: key.tenant.clone(),
        wanted: vec![Wanted { key, lease_id: call.new_lease_id() }],
        ttl_seconds: call.ttl(request.ttl_seconds)?.map(Ttl::seconds),
        takeover: takeover(&call.caller, request.takeover, request.expected_token)?,
        capacity: request.capacity.map(Capacity::parse).transpose()?.map(Capacity::count),
        metadata: metadata(request.metadata.as_ref())?,
        document_version: request.document_version,
        holder: call.holder(request.session_id),
        request: id,
    };
    call.one(Command::Lock(command)).await
}

fn takeover(caller: &Caller, wanted: Option<bool>, expected_token: Option<i64>) -> Result<Option<TakeOver>, Problem> {
    match (wanted.unwrap_or_default(), expected_token) {
        (false, Some(_)) => Err(Problem::invalid("expected_token", "goes with `takeover`: true")),
        (false, None) => Ok(None),
        (true, expected_token) => Ok(Some(TakeOver { expected_token, of_others: caller.may_take_over })),
    }
}
