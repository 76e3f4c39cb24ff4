//! `GET /api/admin/locks`: the lock table.

use actix_web::{Responder, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    auth::Role,
    calls::{
        fields::{Query, number_text},
        problem::Problem,
        room_locks::{decode_cursor, encode_cursor, limit},
        view::{LockView, Timed},
    },
    http::call::Call,
    locking::names::{DocumentId, OwnerId, RoomId},
    storage::queries::LockFilter,
};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LockTableParams {
    #[param(nullable = false)]
    room: Option<RoomId>,
    #[param(nullable = false)]
    owner: Option<OwnerId>,
    #[param(nullable = false)]
    document: Option<DocumentId>,
    /// `next_cursor` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
    /// 100 unless given.
    #[serde(default, deserialize_with = "number_text")]
    #[param(nullable = false, minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LockTable {
    items: Vec<LockView>,
    #[schema(required)]
    next_cursor: Option<String>,
    /// How many match, on all pages.
    total: u64,
}

/// The lock table
#[utoipa::path(get, path = "/api/admin/locks", tag = "admin", params(LockTableParams),
    responses((status = 200, body = Timed<LockTable>)))]
pub async fn locks(call: Call, Query(params): Query<LockTableParams>) -> Result<impl Responder, Problem> {
    call.caller.require(Role::Admin)?;
    let LockTableParams { room, owner, document, cursor, limit: wanted } = params;
    let filter = LockFilter { room, owner, document };
    let after = cursor.as_deref().map(decode_cursor).transpose()?;
    let (tenant, rooms, at) = (&call.caller.tenant, &call.caller.rooms, call.judged_at());
    let page = call.api.queries.locks(tenant, rooms, &filter, after.as_ref(), limit(wanted)?, at).await?;
    let total = call.api.queries.count_locks(tenant, rooms, &filter, at).await?;
    let now = call.now();
    let items = page.locks.iter().map(|lock| LockView::new(lock, &call.caller, now)).collect();
    let answer = LockTable { items, next_cursor: page.next.as_ref().map(encode_cursor), total };
    Ok(web::Json(Timed { answer, server_time: now }))
}
