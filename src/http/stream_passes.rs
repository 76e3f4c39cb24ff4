//! `POST /api/stream-tickets` issues a stream pass for `EventSource`, which cannot send a header.

use actix_web::{Responder, web};

use super::{Api, body::Fields};
use crate::{
    calls::{Call, Problem, view::Timed},
    live::passes::{self, StreamPassRequest, StreamPassView},
};

/// A ticket for an event stream
///
/// For `EventSource`, which can send no header: good once, for 30 seconds, for one of these rooms.
#[utoipa::path(post, path = "/api/stream-tickets", tag = "rooms", request_body = StreamPassRequest,
    responses((status = 200, body = Timed<StreamPassView>)))]
pub async fn issue(
    api: web::Data<Api>,
    call: Call,
    Fields(request): Fields<StreamPassRequest>,
) -> Result<impl Responder, Problem> {
    passes::issue(&api.live.passes, &call, request).await.map(web::Json)
}
