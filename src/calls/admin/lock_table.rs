//! Lists the lock table of a tenant, page by page.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    auth::Role,
    calls::{
        Call, PageLimit, Problem,
        fields::number_text,
        list::{decode_cursor, encode_cursor},
        view::{LockView, Timed},
    },
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

pub async fn run(call: &Call, params: LockTableParams) -> Result<Timed<LockTable>, Problem> {
    call.caller.require(Role::Admin)?;
    let LockTableParams { room, owner, document, cursor, limit } = params;
    let filter = LockFilter { room, owner, document };
    let after = cursor.as_deref().map(decode_cursor).transpose()?;
    let limit = PageLimit::parse(limit)?.items();
    let (tenant, rooms, at) = (&call.caller.tenant, &call.caller.rooms, call.judged_at());
    let page = call.calls.queries.locks(tenant, rooms, &filter, after.as_ref(), limit, &at).await?;
    let total = call.calls.queries.count_locks(tenant, rooms, &filter, &at).await?;
    let now = call.now();
    let items = page.locks.iter().map(|lock| LockView::new(lock, &call.caller, now)).collect();
    let answer = LockTable { items, next_cursor: page.next.as_ref().map(encode_cursor), total };
    Ok(Timed { answer, server_time: now })
}
