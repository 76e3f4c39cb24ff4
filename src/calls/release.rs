//! `POST …/lock/release`: the goodbye of a page that is being closed or reloaded.

use actix_web::{HttpRequest, Responder, web};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    fields::Beacon,
    problem::Problem,
    view::{DoneView, Timed},
};
use crate::http::call::{self, Call, DocumentPath};
use crate::{
    auth::Role,
    locking::{Command, Release},
};

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"lease_id": "01a1e884-dddf-78aa-85ad-c748c6ad7220", "hold": 1, "linger_ms": 3000}))]
pub struct ReleaseRequest {
    lease_id: Uuid,
    /// As the last answer told it: if the page came back and resumed the lock, its old goodbye does nothing.
    #[schema(minimum = 1)]
    hold: u32,
    /// Keep the lock this long, so that a reload can resume it. 0: unlock at once.
    #[schema(maximum = 10000)]
    linger_ms: Option<u32>,
    /// The token, where no header can be sent.
    #[serde(rename = "access_token")]
    _access_token: Option<String>,
}

/// The token is never printed.
impl std::fmt::Debug for ReleaseRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReleaseRequest").field("lease_id", &self.lease_id).finish_non_exhaustive()
    }
}

/// Unlock as a page closes, at once or in a moment
///
/// For `sendBeacon`: takes JSON as `text/plain` too.
#[utoipa::path(post, path = "/api/documents/{room}/{document}/lock/release", tag = "locks",
    request_body(content((ReleaseRequest = "application/json"), (ReleaseRequest = "text/plain"))),
    responses((status = 200, body = Timed<DoneView>)))]
pub async fn release(
    http: HttpRequest,
    name: DocumentPath,
    beacon: Result<Beacon, Problem>,
) -> Result<impl Responder, Problem> {
    // Who calls may stand in the body; what is wrong with a body is told only to callers we know.
    let call = match beacon.as_ref().ok().and_then(Beacon::access_token) {
        Some(token) => Call::of(&http, &token)?,
        None => Call::of(&http, call::bearer(http.headers())?)?,
    };
    let fields: ReleaseRequest = beacon?.fields()?;
    let linger_ms = fields.linger_ms.unwrap_or_default();
    if linger_ms > 10_000 {
        return Err(Problem::invalid("linger_ms", "must be 0 to 10000"));
    }
    let key = call.key(Role::Editor, name)?;
    let owner = call.caller.owner.clone();
    let command = Release { key, owner, lease_id: fields.lease_id, hold: fields.hold, linger_ms };
    let outcome = call.submit(Command::Release(command)).await?;
    let done = outcome.single().map_err(|refusal| call.refused(&refusal))?;
    let now = call.now();
    Ok(web::Json(Timed { answer: DoneView::new(&done, &call.caller, now), server_time: now }))
}
