//! `GET /api/rooms/{room}/events`: a room's notices as Server-Sent Events.
//!
//! The messages and their order are those of a WebSocket, and a stream joins a room in the same way. The id of an event
//! is its position in the log; a browser sends the last id it got when it connects again.

use std::{sync::Arc, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    body::{BodyStream, BoxBody},
    http::{Method, header},
    rt, web,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    Api,
    body::Query,
    extract::{self, RoomPath},
};
use crate::{
    auth::{Caller, Role, TokenError},
    calls::{Code, Problem},
    live::{
        Outbox, Place, Wire,
        messages::{ActivityMessage, EventMessage, ExtensionMessage, PresenceMessage},
        subscribe::{Head, Listener, Start, Subscription},
    },
    locking::EventName,
};

static WIRE: Wire = Wire {
    name: "event stream",
    event: |event, at, sees_all| {
        written(event.kind.name().as_str(), Some(at), &EventMessage::new(event, at.sequence, sees_all))
    },
    // Never called: no stream asks for extensions.
    extension: |lock| written(ExtensionMessage::TYPE, None, &ExtensionMessage::new(lock)),
    ask: |ask, now| written(EventName::HandoverAsked.as_str(), None, &EventMessage::asked(ask, now)),
    activity: |said| written(ActivityMessage::TYPE, None, &ActivityMessage::new(said)),
    presence: |room, change, participant| {
        let message = PresenceMessage::new(room, change, participant);
        written(message.r#type, None, &message)
    },
    page: |page, complete_to| written(page.r#type, complete_to, page),
};

const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StreamParams {
    /// From `POST /api/stream-tickets`, instead of a token.
    #[param(nullable = false)]
    ticket: Option<String>,
    /// The id of the last event that was heard, `<epoch>:<sequence>`, for a page that opens a new stream.
    #[param(nullable = false)]
    after: Option<String>,
}

/// A room's notices as Server-Sent Events
///
/// First `subscribed` (and `snapshot`, while there is `more`), then `DocumentLocked` and `DocumentUnlocked` as they are
/// committed, and `ParticipantJoined` and `ParticipantLeft`. With `Last-Event-ID`, what was missed instead of a
/// snapshot.
#[utoipa::path(get, path = "/api/rooms/{room}/events", tag = "rooms",
    params(StreamParams, ("Last-Event-ID" = Option<String>, Header, description = "Of the last event that was heard.")),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub async fn events(
    request: HttpRequest,
    RoomPath(room): RoomPath,
    Query(params): Query<StreamParams>,
) -> Result<HttpResponse<BoxBody>, Problem> {
    let api = extract::api(&request)?;
    let live = &api.live;
    let is_head = request.method() == Method::HEAD;
    let caller = match &params.ticket {
        // It is good once, and nothing is streamed to a HEAD.
        Some(_) if is_head => return Ok(HttpResponse::Ok().content_type("text/event-stream").finish()),
        Some(pass) => Arc::new(live.passes.redeem(pass, &room, live.clock.now()).await?),
        None => extract::call_of(&request, extract::bearer(request.headers())?)?.caller,
    };
    if caller.expires_at <= live.clock.wall() {
        return Err(TokenError::Expired.into());
    }
    caller.require_in(Role::Viewer, &room)?;
    live.refuse_if_draining()?;
    let mut answer = HttpResponse::Ok();
    answer.content_type("text/event-stream").insert_header(("X-Accel-Buffering", "no"));
    if is_head {
        return Ok(answer.finish());
    }
    let (place, turns) = enter(api, &request, &caller)?;
    // A browser that comes back by itself knows more than the address it was given.
    let last_id = request.headers().get("last-event-id").and_then(|id| event_id(id.to_str().ok()?));
    let after = last_id.or_else(|| params.after.as_deref().and_then(event_id));
    let subscription = Subscription { room, after, extensions: false, id: None };
    let outbox = Outbox::streaming(Bytes::new(), false);
    let body = BodyStream::new(outbox.stream());
    let listener = Listener { live: Arc::clone(live), caller, outbox, wire: &WIRE, turns };
    // The first read comes before the response is sent, so that its failure can still be an HTTP status.
    let start = listener.start(&subscription).await?;
    rt::spawn(EventStream { listener, _place: place }.run(subscription, start));
    Ok(answer.insert_header((header::CACHE_CONTROL, "no-store")).body(body))
}

fn enter(api: &web::Data<Api>, request: &HttpRequest, caller: &Caller) -> Result<(Place, Arc<Semaphore>), Problem> {
    let too_many = |_| Problem::new(Code::LimitReached, "There are as many streams and sockets as may be.");
    let client = api.proxies.client(request.peer_addr(), request.headers());
    let (mut place, fits) = api.live.admission.enter(client);
    fits.map_err(too_many)?;
    let turns = place.belongs_to(caller).map_err(too_many)?;
    Ok((place, turns))
}

/// One reader's stream.
struct EventStream {
    listener: Listener,
    _place: Place,
}

impl EventStream {
    /// Runs until the reader is gone or too slow, its token ends, or the server stops.
    async fn run(self, subscription: Subscription, start: Start) {
        let Listener { live, caller, outbox, .. } = &self.listener;
        let left_ms = caller.expires_at.millis_since(live.clock.wall());
        let mut drain = live.drains();
        let heard = async {
            if let Ok(_memberships) = self.listener.join(subscription, start).await {
                tokio::select! {
                    () = outbox.stopped() => {}
                    () = self.keep_alive() => {}
                }
            }
        };
        tokio::select! {
            () = heard => {}
            () = live.clock.sleep_until(live.clock.now().plus_millis(left_ms)) => {}
            _ = drain.wait_for(Option::is_some) => {}
        }
        outbox.end();
    }

    /// Sends a comment now and then, because proxies end silent connections.
    async fn keep_alive(&self) {
        let Listener { live, outbox, .. } = &self.listener;
        loop {
            live.clock.sleep(KEEP_ALIVE).await;
            if outbox.push(Bytes::from_static(b":\n\n")).is_err() {
                return;
            }
        }
    }
}

/// Returns a Server-Sent Event. Its id is its position in the log; a message that is not in the log has none.
fn written(kind: &str, id: Option<Head>, message: &impl Serialize) -> Bytes {
    let id = id.map(|Head { epoch, sequence }| format!("id: {epoch}:{sequence}\n")).unwrap_or_default();
    let mut event = format!("{id}event: {kind}\ndata: ").into_bytes();
    // Our own types can always be written, and JSON has no line breaks of its own.
    let _ = serde_json::to_writer(&mut event, message);
    event.extend_from_slice(b"\n\n");
    event.into()
}

/// Parses a `Last-Event-ID`. A text that is not one of our ids is treated as no id.
fn event_id(text: &str) -> Option<Head> {
    let (epoch, sequence) = text.trim().split_once(':')?;
    Some(Head { epoch: Uuid::try_parse(epoch).ok()?, sequence: sequence.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_type_its_data_and_an_id_that_is_read_back() {
        let head = Head { epoch: Uuid::from_u128(7), sequence: 42 };
        let event = written("Kind", Some(head), &["a\nb"]);
        let expected = format!("id: {}:42\nevent: Kind\ndata: [\"a\\nb\"]\n\n", head.epoch);
        assert_eq!(event, Bytes::from(expected));
        assert_eq!(event_id(&format!(" {}:42", head.epoch)), Some(head));
        assert_eq!(written("Kind", None, &1), Bytes::from_static(b"event: Kind\ndata: 1\n\n"));
        assert_eq!(event_id("42"), None);
    }
}
