//! Handlers of `/api/demo/…`. Without the demo these routes do not exist.

use actix_web::{HttpRequest, Responder, web};

use super::{
    body::{Fields, Query},
    extract,
};
use crate::{
    calls::{Call, Code, DocumentName, Problem, view::Timed},
    demo::{Demo, LoadParams, SaveRequest, SessionRequest},
};

fn demo(request: &HttpRequest) -> Result<&Demo, Problem> {
    extract::api(request)?.demo.as_ref().ok_or_else(|| Problem::new(Code::NotFound, "No such path."))
}

/// A token for a visitor.
pub async fn session(request: HttpRequest, Fields(fields): Fields<SessionRequest>) -> Result<impl Responder, Problem> {
    let clock = &extract::api(&request)?.calls.clock;
    let answer = demo(&request)?.session(&fields, clock.wall())?;
    Ok(web::Json(Timed { answer, server_time: clock.now() }))
}

/// A document's text; to edit, its token is claimed first.
pub async fn load(
    request: HttpRequest,
    call: Call,
    name: DocumentName,
    Query(params): Query<LoadParams>,
) -> Result<impl Responder, Problem> {
    demo(&request)?.load(&call, name, params).await.map(web::Json)
}

/// A save, which needs the fencing token.
pub async fn save(
    request: HttpRequest,
    call: Call,
    name: DocumentName,
    Fields(fields): Fields<SaveRequest>,
) -> Result<impl Responder, Problem> {
    demo(&request)?.save(&call, name, fields).await.map(web::Json)
}
