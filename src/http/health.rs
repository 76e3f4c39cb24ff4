//! For those who run the server: does it live, is it ready, how is it doing.

use std::sync::atomic::Ordering;

use actix_web::{HttpRequest, HttpResponse, Responder, web};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    call::{self, Call},
};
use crate::auth::Role;
use crate::calls::{
    problem::{Code, Problem},
    view::Timed,
};

#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    status: &'static str,
}

/// The process answers
#[utoipa::path(get, path = "/healthz", tag = "operations", security(()), responses((status = 200, body = Timed<Health>)))]
pub async fn healthz(api: web::Data<Api>) -> impl Responder {
    web::Json(Timed { answer: Health { status: "ok" }, server_time: api.clock.now() })
}

/// Requests can be served: the database is reached and the server is not stopping
#[utoipa::path(get, path = "/readyz", tag = "operations", security(()), responses((status = 200, body = Timed<Health>)))]
pub async fn readyz(api: web::Data<Api>) -> Result<impl Responder, Problem> {
    let now = api.clock.now();
    if api.draining.load(Ordering::Acquire) {
        return Err(Problem::new(Code::Draining, "The server is stopping."));
    }
    if !api.life.is_alive(now) {
        return Err(Problem::new(Code::OutcomeUnknown, "The database has not been reached for more than 3 seconds."));
    }
    Ok(web::Json(Timed { answer: Health { status: "ready" }, server_time: now }))
}

/// Metrics in the Prometheus text format
#[utoipa::path(get, path = "/metrics", tag = "operations", security(()),
    responses((status = 200, body = String, content_type = "text/plain")))]
pub async fn metrics(request: HttpRequest) -> Result<impl Responder, Problem> {
    let api = call::api(&request)?;
    if !api.public_metrics {
        Call::of(&request, call::bearer(request.headers())?)?.caller.require(Role::Admin)?;
    }
    // Without the database the other figures still help.
    if let Ok(count) = api.queries.count_all_locks().await {
        api.metrics.locks.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(api.metrics.render()))
}
