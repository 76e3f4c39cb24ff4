//! `/healthz`, `/readyz` and `/metrics`, for those who run the server.

use actix_web::{HttpRequest, HttpResponse, Responder, web};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Api, extract};
use crate::{
    auth::Role,
    calls::{Code, Problem, view::Timed},
};

#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    status: &'static str,
}

/// The process answers
#[utoipa::path(get, path = "/healthz", tag = "operations", security(()), responses((status = 200, body = Timed<Health>)))]
pub async fn healthz(api: web::Data<Api>) -> impl Responder {
    web::Json(Timed { answer: Health { status: "ok" }, server_time: api.calls.clock.now() })
}

/// Requests can be served: the database is reached and the server is not stopping
#[utoipa::path(get, path = "/readyz", tag = "operations", security(()), responses((status = 200, body = Timed<Health>)))]
pub async fn readyz(api: web::Data<Api>) -> Result<impl Responder, Problem> {
    let now = api.calls.clock.now();
    if api.live.is_draining() {
        return Err(Problem::new(Code::Draining, "The server is stopping."));
    }
    if !api.calls.life.is_alive(now) {
        return Err(Problem::new(Code::OutcomeUnknown, "The database has not been reached for more than 3 seconds."));
    }
    Ok(web::Json(Timed { answer: Health { status: "ready" }, server_time: now }))
}

/// Metrics in the Prometheus text format
#[utoipa::path(get, path = "/metrics", tag = "operations", security(()),
    responses((status = 200, body = String, content_type = "text/plain")))]
pub async fn metrics(request: HttpRequest) -> Result<impl Responder, Problem> {
    let api = extract::api(&request)?;
    if !api.public_metrics {
        extract::call_of(&request, extract::bearer(request.headers())?)?.caller.require(Role::Admin)?;
    }
    // Without the database the other figures still help.
    if let Ok(count) = api.calls.queries.count_all_locks().await {
        api.metrics.locks.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    let now = api.calls.clock.now();
    if let Ok(waiting) = api.calls.queries.waiting_now(None, now).await {
        api.metrics.waiting.set(i64::try_from(waiting.count).unwrap_or(i64::MAX));
        api.metrics.oldest_wait_seconds.set(waiting.oldest.map_or(0, |oldest| now.millis_since(oldest) / 1000));
    }
    Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(api.metrics.render()))
}
