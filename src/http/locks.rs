//! Handlers of `/api/documents/…/lock`: one document's lock.

use actix_web::{HttpRequest, Responder, web};

use super::{
    body::{Beacon, Fields},
    extract::{bearer, call_of},
    receipt,
};
use crate::calls::{
    Call, DocumentName, Problem,
    extend::{self, ExtendRequest},
    lock::{self, LockRequest},
    read::{self, DocumentView},
    release::{self, ReleaseRequest},
    unlock::{self, UnlockRequest},
    verify::{self, Verified, VerifyRequest},
    view::{DoneView, EndedView, LiveView, Timed},
};

/// Lock a document
#[utoipa::path(post, path = "/api/documents/{room}/{document}/lock", tag = "locks",
    request_body = Option<LockRequest>, responses((status = 200, body = Timed<LiveView>)))]
pub async fn lock_document(
    call: Call,
    name: DocumentName,
    Fields(request): Fields<LockRequest>,
) -> Result<impl Responder, Problem> {
    let (answer, receipt) = lock::run(&call, name, request).await?;
    Ok(receipt::answer(&answer, receipt))
}

/// Heartbeat: the lock lives another ttl from now
#[utoipa::path(put, path = "/api/documents/{room}/{document}/lock", tag = "locks",
    request_body = Option<ExtendRequest>, responses((status = 200, body = Timed<LiveView>)))]
pub async fn extend_lock(
    call: Call,
    name: DocumentName,
    Fields(request): Fields<ExtendRequest>,
) -> Result<impl Responder, Problem> {
    extend::run(&call, name, request).await.map(web::Json)
}

/// Unlock
///
/// The fields may be given as query parameters or as a JSON body.
#[utoipa::path(delete, path = "/api/documents/{room}/{document}/lock", tag = "locks",
    params(UnlockRequest), responses((status = 200, body = Timed<EndedView>)))]
pub async fn unlock(
    call: Call,
    name: DocumentName,
    Fields(request): Fields<UnlockRequest>,
) -> Result<impl Responder, Problem> {
    unlock::run(&call, name, request).await.map(web::Json)
}

/// Unlock as a page closes, at once or in a moment
///
/// For `sendBeacon`: takes JSON as `text/plain` too.
#[utoipa::path(post, path = "/api/documents/{room}/{document}/lock/release", tag = "locks",
    request_body(content((ReleaseRequest = "application/json"), (ReleaseRequest = "text/plain"))),
    responses((status = 200, body = Timed<DoneView>)))]
pub async fn release(http: HttpRequest, name: DocumentName, beacon: Beacon) -> Result<impl Responder, Problem> {
    // The token may be in the body. What is wrong with the rest of the body is told only to a caller who is known.
    let call = match &beacon.access_token {
        Some(token) => call_of(&http, token)?,
        None => call_of(&http, bearer(http.headers())?)?,
    };
    release::run(&call, name, beacon.request?).await.map(web::Json)
}

/// Who holds a document
#[utoipa::path(get, path = "/api/documents/{room}/{document}/lock", tag = "locks",
    responses((status = 200, body = Timed<DocumentView>)))]
pub async fn read_lock(call: Call, name: DocumentName) -> Result<impl Responder, Problem> {
    read::run(&call, name).await.map(web::Json)
}

/// Whether a fencing token's lock lives
///
/// Advisory: between this answer and a save the lock may end. The save itself must be one conditional write, such as
/// `UPDATE … WHERE fencing_token <= :token`.
#[utoipa::path(post, path = "/api/documents/{room}/{document}/lock/verify", tag = "locks",
    request_body = VerifyRequest, responses((status = 200, body = Timed<Verified>)))]
pub async fn verify(
    call: Call,
    name: DocumentName,
    Fields(request): Fields<VerifyRequest>,
) -> Result<impl Responder, Problem> {
    verify::run(&call, name, request).await.map(web::Json)
}
