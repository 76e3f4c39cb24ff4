//! `GET …/lock` and `POST …/lock/verify`: what is, without changing it.

use actix_web::{Responder, web};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    fields::Fields,
    problem::Problem,
    view::{LockView, Timed},
};
use crate::auth::Role;
use crate::http::call::{Call, DocumentPath};

#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentView {
    /// The caller's own if it has one, else the oldest.
    #[schema(required)]
    lock: Option<LockView>,
    /// How many wait for it.
    waiting: u64,
    /// The token of the last grant, 0 if there never was one.
    last_token: i64,
}

/// Who holds a document
#[utoipa::path(get, path = "/api/documents/{room}/{document}/lock", tag = "locks",
    responses((status = 200, body = Timed<DocumentView>)))]
pub async fn read_lock(call: Call, name: DocumentPath) -> Result<impl Responder, Problem> {
    let key = call.key(Role::Viewer, name)?;
    let document = call.api.queries.document(&key, call.judged_at()).await?;
    let now = call.now();
    let own = document.locks.iter().find(|lock| lock.holder.owner == call.caller.owner);
    let lock = own.or(document.locks.first()).map(|lock| LockView::new(lock, &call.caller, now));
    let answer = DocumentView { lock, waiting: document.waiting, last_token: document.last_token };
    Ok(web::Json(Timed { answer, server_time: now }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"fencing_token": 1}))]
pub struct VerifyRequest {
    #[schema(minimum = 0)]
    fencing_token: i64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Verified {
    /// That token's lock lives.
    valid: bool,
    current_token: i64,
}

/// Whether a fencing token's lock lives
///
/// Advisory: between this answer and a save the lock may end. The save itself must be one conditional write, such as
/// `UPDATE … WHERE fencing_token <= :token`.
#[utoipa::path(post, path = "/api/documents/{room}/{document}/lock/verify", tag = "locks",
    request_body = VerifyRequest, responses((status = 200, body = Timed<Verified>)))]
pub async fn verify(
    call: Call,
    name: DocumentPath,
    Fields(fields): Fields<VerifyRequest>,
) -> Result<impl Responder, Problem> {
    if fields.fencing_token < 0 {
        return Err(Problem::invalid("fencing_token", "must not be negative"));
    }
    let key = call.key(Role::Viewer, name)?;
    let document = call.api.queries.document(&key, call.judged_at()).await?;
    let valid = document.locks.iter().any(|lock| lock.fencing_token == fields.fencing_token);
    let answer = Verified { valid, current_token: document.last_token };
    Ok(web::Json(Timed { answer, server_time: call.now() }))
}
