//! `/api/rooms/{room}/locks`: all locks of a room, and several at once.

use actix_web::{Responder, web};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::{
    fields::{Fields, Query, not_compared, number_text},
    lock::{metadata, ttl_seconds},
    problem::Problem,
    view::{self, EndedView, Items, LiveView, LockView, Timed},
};
use crate::http::call::{Call, Documents, RoomPath};
use crate::{
    auth::{Role, RoomGlobs},
    locking::{
        Command, Extend, LockDocuments, Named, Unlock, Wanted,
        names::{DocumentId, RequestId, RoomId, SessionId},
    },
    storage::queries::{LockCursor, LockFilter},
};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageParams {
    /// `next_cursor` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
    /// 100 unless given.
    #[serde(default, deserialize_with = "number_text")]
    #[param(nullable = false, minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LockPageView {
    items: Vec<LockView>,
    /// Where the next page begins; null on the last.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Live locks of a room
#[utoipa::path(get, path = "/api/rooms/{room}/locks", tag = "rooms", params(PageParams),
    responses((status = 200, body = Timed<LockPageView>)))]
pub async fn room_locks(
    call: Call,
    RoomPath(room): RoomPath,
    Query(page): Query<PageParams>,
) -> Result<impl Responder, Problem> {
    call.caller.require_in(Role::Viewer, &room)?;
    let filter = LockFilter { room: Some(room), ..LockFilter::default() };
    let after = page.cursor.as_deref().map(decode_cursor).transpose()?;
    let found = call
        .api
        .queries
        .locks(&call.caller.tenant, &RoomGlobs::all(), &filter, after.as_ref(), limit(page.limit)?, call.judged_at())
        .await?;
    let now = call.now();
    let items = found.locks.iter().map(|lock| LockView::new(lock, &call.caller, now)).collect();
    let answer = LockPageView { items, next_cursor: found.next.as_ref().map(encode_cursor) };
    Ok(web::Json(Timed { answer, server_time: now }))
}

pub fn limit(given: Option<u64>) -> Result<u64, Problem> {
    match given {
        None => Ok(100),
        Some(limit) if (1..=1000).contains(&limit) => Ok(limit),
        Some(_) => Err(Problem::invalid("limit", "must be 1 to 1000")),
    }
}

pub fn encode_cursor(LockCursor { room, document, slot }: &LockCursor) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_string(&(room, document, slot)).unwrap_or_default())
}

pub fn decode_cursor(text: &str) -> Result<LockCursor, Problem> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok();
    let parts: Option<(RoomId, DocumentId, i32)> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let (room, document, slot) = parts.ok_or_else(|| Problem::invalid("cursor", "is not one this server gave"))?;
    Ok(LockCursor { room: room.to_string(), document: document.to_string(), slot })
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"documents": ["intro", "summary"], "session_id": "tab-1"}))]
pub struct LockManyRequest {
    #[schema(value_type = HashSet<DocumentId>, min_items = 1, max_items = 100)]
    documents: Documents,
    #[schema(minimum = 1, maximum = 300)]
    ttl_seconds: Option<u32>,
    session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "not_compared")]
    request_id: Option<RequestId>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Lock several documents, all or nothing
#[utoipa::path(post, path = "/api/rooms/{room}/locks", tag = "rooms", request_body = LockManyRequest,
    responses((status = 200, body = Timed<Items<LiveView>>)))]
pub async fn lock_many(
    call: Call,
    RoomPath(room): RoomPath,
    Fields(fields): Fields<LockManyRequest>,
) -> Result<impl Responder, Problem> {
    let keys = call.keys(Role::Editor, &room, &fields.documents)?;
    let request = call.request(fields.request_id.clone(), "lock many", &keys, &fields)?;
    let command = LockDocuments {
        tenant: call.caller.tenant.clone(),
        wanted: keys.into_iter().map(|key| Wanted { key, lease_id: call.new_lease_id() }).collect(),
        ttl_seconds: ttl_seconds(&call, fields.ttl_seconds)?,
        takeover: None,
        capacity: None,
        metadata: metadata(fields.metadata.as_ref())?,
        document_version: None,
        holder: call.holder(fields.session_id),
        request,
    };
    submit_many(&call, Command::Lock(command)).await
}

/// Several documents are named by session, or were locked without one.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"documents": ["intro", "summary"], "session_id": "tab-1"}))]
pub struct ExtendManyRequest {
    #[schema(value_type = HashSet<DocumentId>, min_items = 1, max_items = 100)]
    documents: Documents,
    #[schema(minimum = 1, maximum = 300)]
    ttl_seconds: Option<u32>,
    session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "not_compared")]
    request_id: Option<RequestId>,
}

/// Heartbeat for several documents
///
/// Each on its own: what can be extended is, and a 409 lists in `failed` what could not and in `items` what was.
#[utoipa::path(put, path = "/api/rooms/{room}/locks", tag = "rooms", request_body = ExtendManyRequest,
    responses((status = 200, body = Timed<Items<LiveView>>)))]
pub async fn extend_many(
    call: Call,
    RoomPath(room): RoomPath,
    Fields(fields): Fields<ExtendManyRequest>,
) -> Result<impl Responder, Problem> {
    let keys = call.keys(Role::Editor, &room, &fields.documents)?;
    let request = call.request(fields.request_id.clone(), "extend many", &keys, &fields)?;
    let command = Extend {
        keys,
        owner: call.caller.owner.clone(),
        named: Named { lease_id: None, session: fields.session_id },
        ttl_seconds: ttl_seconds(&call, fields.ttl_seconds)?,
        metadata: None,
        request,
    };
    submit_many(&call, Command::Extend(command)).await
}

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

/// Unlock several documents
///
/// Each on its own, as the heartbeat. The fields may be given as query parameters or as a JSON body.
#[utoipa::path(delete, path = "/api/rooms/{room}/locks", tag = "rooms", params(UnlockManyRequest),
    responses((status = 200, body = Timed<Items<EndedView>>)))]
pub async fn unlock_many(
    call: Call,
    RoomPath(room): RoomPath,
    Fields(fields): Fields<UnlockManyRequest>,
) -> Result<impl Responder, Problem> {
    let keys = call.keys(Role::Editor, &room, &fields.documents)?;
    let request = call.request(fields.request_id.clone(), "unlock many", &keys, &fields)?;
    let command = Unlock {
        tenant: call.caller.tenant.clone(),
        keys,
        owner: call.caller.owner.clone(),
        named: Named { lease_id: None, session: fields.session_id },
        document_version: None,
        request,
    };
    submit_many(&call, Command::Unlock(command)).await
}

async fn submit_many(call: &Call, command: Command) -> Result<impl Responder + use<>, Problem> {
    let outcome = call.submit(command).await?;
    let now = call.now();
    Ok(web::Json(Timed { answer: view::many(&outcome, &call.caller, now)?, server_time: now }))
}
