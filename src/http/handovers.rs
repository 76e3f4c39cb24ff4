//! Handlers of `…/lock/handovers…`: asking for a lock that somebody holds.

use actix_web::{Responder, web};

use super::{
    body::{Fields, Query},
    extract::HandoverPath,
    receipt,
};
use crate::calls::{
    Call, DocumentName, Problem,
    handover::{self, AnswerRequest, AskRequest, OutcomeParams},
    view::{HandoverView, Timed},
};

/// Ask the holder for the lock
#[utoipa::path(post, path = "/api/documents/{room}/{document}/lock/handovers", tag = "handovers",
    request_body = Option<AskRequest>, responses((status = 200, body = Timed<HandoverView>)))]
pub async fn ask_handover(
    call: Call,
    name: DocumentName,
    Fields(request): Fields<AskRequest>,
) -> Result<impl Responder, Problem> {
    handover::ask(&call, name, request).await.map(|(answer, _)| web::Json(answer))
}

/// How an ask stands
///
/// With `wait_ms` as soon as it has an outcome. A lock that was granted meanwhile is in the answer.
#[utoipa::path(get, path = "/api/documents/{room}/{document}/lock/handovers/{handover_id}", tag = "handovers",
    params(("handover_id" = uuid::Uuid, Path), OutcomeParams), responses((status = 200, body = Timed<HandoverView>)))]
pub async fn read_handover(
    call: Call,
    name: DocumentName,
    HandoverPath(id): HandoverPath,
    Query(params): Query<OutcomeParams>,
) -> Result<impl Responder, Problem> {
    let (answer, receipt) = handover::outcome(&call, name, id, params).await?;
    Ok(receipt::answer(&answer, receipt))
}

/// Take an ask back
#[utoipa::path(delete, path = "/api/documents/{room}/{document}/lock/handovers/{handover_id}", tag = "handovers",
    params(("handover_id" = uuid::Uuid, Path)), responses((status = 200, body = Timed<HandoverView>)))]
pub async fn cancel_handover(
    call: Call,
    name: DocumentName,
    HandoverPath(id): HandoverPath,
) -> Result<impl Responder, Problem> {
    handover::cancel(&call, name, id).await.map(web::Json)
}

/// Answer an ask, as the holder
#[utoipa::path(post, path = "/api/documents/{room}/{document}/lock/handovers/{handover_id}/answer", tag = "handovers",
    params(("handover_id" = uuid::Uuid, Path)), request_body = AnswerRequest,
    responses((status = 200, body = Timed<HandoverView>)))]
pub async fn answer_handover(
    call: Call,
    name: DocumentName,
    HandoverPath(id): HandoverPath,
    Fields(request): Fields<AnswerRequest>,
) -> Result<impl Responder, Problem> {
    handover::answer(&call, name, id, request).await.map(web::Json)
}
