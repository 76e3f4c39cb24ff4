//! `GET /api/rooms/{room}/events`: a room's notices as Server-Sent Events.
//!
//! The same messages as over a WebSocket, in the same order, joined by the same means. The id of each says how far its
//! reader has come; a browser sends the last one again when it comes back.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use actix_web::{
    HttpRequest, HttpResponse,
    body::BoxBody,
    http::{Method, header},
    rt, web,
};
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::Semaphore;
use utoipa::IntoParams;

use super::{
    Api,
    call::{self, Call, RoomPath},
};
use crate::calls::{
    fields::Query,
    problem::{Code, Problem},
};
use crate::{
    auth::{Caller, Role, TokenError},
    live::{
        Outbox, Place, Wire,
        socket::frame as wire,
        subscribe::{Asks, Newcomer},
    },
    storage::tail::Start,
};

const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StreamParams {
    /// From `POST /api/stream-tickets`, instead of a token.
    #[param(nullable = false)]
    ticket: Option<String>,
}

/// A room's notices as Server-Sent Events
///
/// First `subscribed` (and `snapshot`, while there is `more`), then `DocumentLocked` and `DocumentUnlocked` as they are
/// committed, and `ParticipantJoined` and `ParticipantLeft`. With `Last-Event-ID`, what was missed instead of a snapshot.
#[utoipa::path(get, path = "/api/rooms/{room}/events", tag = "rooms",
    params(StreamParams, ("Last-Event-ID" = Option<String>, Header, description = "Of the last event that was heard.")),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub async fn events(
    request: HttpRequest,
    RoomPath(room): RoomPath,
    Query(params): Query<StreamParams>,
) -> Result<HttpResponse<BoxBody>, Problem> {
    let api = call::api(&request)?;
    let caller = match &params.ticket {
        Some(ticket) => api.live.tickets.redeem(ticket, &room, api.clock.now()).await?,
        None => (*Call::of(&request, call::bearer(request.headers())?)?.caller).clone(),
    };
    if caller.expires_at <= api.clock.wall() {
        return Err(TokenError::Expired.into());
    }
    caller.require_in(Role::Viewer, &room)?;
    if api.draining.load(Ordering::Acquire) {
        return Err(Problem::new(Code::Draining, "The server is stopping.").retry_after_ms(1000));
    }
    let mut answer = HttpResponse::Ok();
    answer.content_type("text/event-stream").insert_header(("X-Accel-Buffering", "no"));
    if request.method() == Method::HEAD {
        return Ok(answer.finish());
    }
    let (place, turns) = enter(&api, &request, &caller)?;
    let after = request.headers().get("last-event-id").and_then(|id| wire::event_id(id.to_str().ok()?));
    let asks = Asks { room, after, extensions: false, id: None };
    let outbox = Outbox::streaming(Bytes::new(), false);
    let body = outbox.body();
    let newcomer = Newcomer { api, caller: Arc::new(caller), outbox, wire: Wire::EventStream, turns };
    // What cannot be read is told while there is a status to tell it by.
    let start = newcomer.start(&asks).await?;
    rt::spawn(Stream { newcomer, _place: place }.run(asks, start));
    Ok(answer.insert_header((header::CACHE_CONTROL, "no-store")).body(body))
}

fn enter(api: &web::Data<Api>, request: &HttpRequest, caller: &Caller) -> Result<(Place, Arc<Semaphore>), Problem> {
    let too_many = |_| Problem::new(Code::LimitReached, "There are as many streams and sockets as may be.");
    let (mut place, fits) = api.live.sockets.enter(api.proxies.client(request));
    fits.map_err(too_many)?;
    let turns = place.belongs_to(caller).map_err(too_many)?;
    Ok((place, turns))
}

struct Stream {
    newcomer: Newcomer,
    _place: Place,
}

impl Stream {
    /// Until the reader is gone or too slow, its token ends, or the server stops.
    async fn run(self, asks: Asks, start: Start) {
        let Newcomer { api, caller, outbox, .. } = &self.newcomer;
        let left_ms = caller.expires_at.millis_since(api.clock.wall());
        let mut drain = api.live.drain.subscribe();
        let heard = async {
            if let Ok(_member) = self.newcomer.join(&asks, start).await {
                tokio::select! {
                    () = outbox.stopped() => {}
                    () = self.keep_alive() => {}
                }
            }
        };
        tokio::select! {
            () = heard => {}
            () = api.clock.sleep_until(api.clock.now().plus_millis(left_ms)) => {}
            _ = drain.wait_for(Option::is_some) => {}
        }
        outbox.end();
    }

    /// A comment now and then, for proxies that end what is silent.
    async fn keep_alive(&self) {
        loop {
            self.newcomer.api.clock.sleep(KEEP_ALIVE).await;
            if self.newcomer.outbox.push(Bytes::from_static(b":\n\n")).is_err() {
                return;
            }
        }
    }
}
