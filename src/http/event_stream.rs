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
use utoipa::IntoParams;

use super::{
    Api,
    call::{self, Call, RoomPath},
    fields::Query,
    problem::{Code, Problem},
};
use crate::{
    auth::{Caller, Role},
    hub::{Outbox, Scope, Wire},
    locking::names::RoomId,
    ws::{
        Place,
        join::{Asks, Newcomer},
        wire,
    },
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
    caller.require_in(Role::Viewer, &room)?;
    if api.draining.load(Ordering::Acquire) {
        return Err(Problem::new(Code::Draining, "The server is stopping.").retry_after_ms(1000));
    }
    let mut answer = HttpResponse::Ok();
    answer.content_type("text/event-stream").insert_header(("X-Accel-Buffering", "no"));
    if request.method() == Method::HEAD {
        return Ok(answer.finish());
    }
    let place = enter(&api, &request, &caller)?;
    let last = request.headers().get("last-event-id").and_then(|id| wire::event_id(id.to_str().ok()?));
    let outbox = Outbox::streaming(Bytes::new(), false);
    let stream = Stream { api, caller, room, outbox: Arc::clone(&outbox), _place: place };
    rt::spawn(stream.run(last));
    Ok(answer.insert_header((header::CACHE_CONTROL, "no-store")).body(outbox.body()))
}

fn enter(api: &web::Data<Api>, request: &HttpRequest, caller: &Caller) -> Result<Place, Problem> {
    let too_many = |_| Problem::new(Code::LimitReached, "There are as many streams and sockets as may be.");
    let (mut place, fits) = api.live.sockets.enter(api.proxies.client(request));
    fits.map_err(too_many)?;
    place.belongs_to(caller).map_err(too_many)?;
    Ok(place)
}

struct Stream {
    api: web::Data<Api>,
    caller: Caller,
    room: RoomId,
    outbox: Arc<Outbox>,
    _place: Place,
}

impl Stream {
    /// Until the reader is gone or too slow, its token ends, or the server stops.
    async fn run(self, last: Option<crate::storage::tail::Head>) {
        let newcomer = Newcomer { api: &self.api, caller: &self.caller, outbox: &self.outbox, wire: Wire::EventStream };
        let asks = Asks { room: &self.room, after: last, extensions: false, id: None };
        if let Ok((member, _present)) = newcomer.join(&asks).await {
            let clock = &self.api.clock;
            let left_ms = self.caller.expires_at.millis_since(clock.wall());
            let mut drain = self.api.live.drain.subscribe();
            tokio::select! {
                () = self.outbox.stopped() => {}
                () = self.keep_alive() => {}
                () = clock.sleep_until(clock.now().plus_millis(left_ms)) => {}
                _ = drain.wait_for(Option::is_some) => {}
            }
            self.api.live.hub.leave(&self.caller.tenant, Scope::Room(self.room.clone()), member.id);
        }
        self.outbox.end();
    }

    /// A comment now and then, for proxies that end what is silent.
    async fn keep_alive(&self) {
        loop {
            self.api.clock.sleep(KEEP_ALIVE).await;
            if self.outbox.push(Bytes::from_static(b":\n\n")).is_err() {
                return;
            }
        }
    }
}
