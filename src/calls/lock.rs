//! `POST …/lock`: lock a document.

use actix_web::{Responder, web};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    fields::{Fields, not_compared},
    problem::Problem,
    view::{DoneView, LiveView, Timed},
};
use crate::http::call::{Call, DocumentPath};
use crate::{
    auth::Role,
    locking::{
        Command, LockDocuments, Metadata, TakeOver, Wanted,
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

/// Lock a document
#[utoipa::path(post, path = "/api/documents/{room}/{document}/lock", tag = "locks",
    request_body = Option<LockRequest>, responses((status = 200, body = Timed<LiveView>)))]
pub async fn lock_document(
    call: Call,
    name: DocumentPath,
    Fields(fields): Fields<LockRequest>,
) -> Result<impl Responder, Problem> {
    Ok(web::Json(run(&call, name, fields).await?))
}

/// However it was asked for.
pub async fn run(call: &Call, name: DocumentPath, fields: LockRequest) -> Result<Timed<DoneView>, Problem> {
    let key = call.key(Role::Editor, name)?;
    let request = call.request(fields.request_id.clone(), "lock", std::slice::from_ref(&key), &fields)?;
    let command = LockDocuments {
        tenant: key.tenant.clone(),
        wanted: vec![Wanted { key, lease_id: call.new_lease_id() }],
        ttl_seconds: ttl_seconds(call, fields.ttl_seconds)?,
        takeover: takeover(call, fields.takeover, fields.expected_token)?,
        capacity: capacity(fields.capacity)?,
        metadata: metadata(fields.metadata.as_ref())?,
        document_version: fields.document_version,
        holder: call.holder(fields.session_id),
        request,
    };
    let outcome = call.submit(Command::Lock(command)).await?;
    let done = outcome.single().map_err(|refusal| call.refused(&refusal))?;
    let now = call.now();
    Ok(Timed { answer: DoneView::new(&done, &call.caller, now), server_time: now })
}

pub fn ttl_seconds(call: &Call, given: Option<u32>) -> Result<Option<u32>, Problem> {
    let max = call.api.max_ttl_seconds;
    match given {
        Some(ttl) if !(1..=max).contains(&ttl) => Err(Problem::invalid("ttl_seconds", format!("must be 1 to {max}"))),
        given => Ok(given),
    }
}

pub fn metadata(given: Option<&Map<String, Value>>) -> Result<Option<Metadata>, Problem> {
    given.map(Metadata::new).transpose().map_err(|error| Problem::invalid("metadata", error))
}

fn takeover(call: &Call, wanted: Option<bool>, expected_token: Option<i64>) -> Result<Option<TakeOver>, Problem> {
    match (wanted.unwrap_or_default(), expected_token) {
        (false, Some(_)) => Err(Problem::invalid("expected_token", "goes with `takeover`: true")),
        (false, None) => Ok(None),
        (true, expected_token) => Ok(Some(TakeOver { expected_token, of_others: call.caller.may_take_over })),
    }
}

fn capacity(given: Option<u32>) -> Result<Option<u32>, Problem> {
    match given {
        Some(capacity) if !(1..=1000).contains(&capacity) => Err(Problem::invalid("capacity", "must be 1 to 1000")),
        given => Ok(given),
    }
}
