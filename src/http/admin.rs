//! Handlers of `/api/admin/…`, for admins of a tenant.

use actix_web::{Responder, web};

use super::{
    body::{Fields, Query},
    extract::LeasePath,
};
use crate::calls::{
    Call, DocumentName, Problem,
    admin::{
        document::{self, DocumentDetail},
        events::{self, EventPageView, EventParams},
        lock_table::{self, LockTable, LockTableParams},
        stats::{self, StatsView},
        unlock_matching::{self, UnlockMatchingRequest, UnlockedCount},
        unlock_one::{self, UnlockOneRequest},
    },
    view::{EndedView, Timed},
};

/// The lock table
#[utoipa::path(get, path = "/api/admin/locks", tag = "admin", params(LockTableParams),
    responses((status = 200, body = Timed<LockTable>)))]
pub async fn locks(call: Call, Query(params): Query<LockTableParams>) -> Result<impl Responder, Problem> {
    lock_table::run(&call, params).await.map(web::Json)
}

/// One document: its locks, its line, open asks and the last events
#[utoipa::path(get, path = "/api/admin/documents/{room}/{document}", tag = "admin",
    responses((status = 200, body = Timed<DocumentDetail>)))]
pub async fn document(call: Call, name: DocumentName) -> Result<impl Responder, Problem> {
    document::run(&call, name).await.map(web::Json)
}

/// End one lock
#[utoipa::path(delete, path = "/api/admin/locks/{lease_id}", tag = "admin",
    params(("lease_id" = uuid::Uuid, Path), UnlockOneRequest), responses((status = 200, body = Timed<EndedView>)))]
pub async fn unlock_one(
    call: Call,
    LeasePath(lease_id): LeasePath,
    Fields(request): Fields<UnlockOneRequest>,
) -> Result<impl Responder, Problem> {
    unlock_one::run(&call, lease_id, request).await.map(web::Json)
}

/// End all locks that match
#[utoipa::path(post, path = "/api/admin/locks/unlock", tag = "admin", request_body = UnlockMatchingRequest,
    responses((status = 200, body = Timed<UnlockedCount>)))]
pub async fn unlock_matching(
    call: Call,
    Fields(request): Fields<UnlockMatchingRequest>,
) -> Result<impl Responder, Problem> {
    unlock_matching::run(&call, request).await.map(web::Json)
}

/// The audit trail
#[utoipa::path(get, path = "/api/admin/events", tag = "admin", params(EventParams),
    responses((status = 200, body = Timed<EventPageView>)))]
pub async fn events(call: Call, Query(params): Query<EventParams>) -> Result<impl Responder, Problem> {
    events::run(&call, params).await.map(web::Json)
}

/// Rates, contention, hold and wait times, hottest documents
#[utoipa::path(get, path = "/api/admin/stats", tag = "admin", responses((status = 200, body = Timed<StatsView>)))]
pub async fn stats(call: Call) -> Result<impl Responder, Problem> {
    stats::run(&call).await.map(web::Json)
}
