//! The upgrade.

use std::sync::{Arc, atomic::Ordering};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest, HttpResponse,
    body::BoxBody,
    dev::Payload,
    http::header::{self, HeaderMap},
    rt,
    rt::net::TcpStream,
    web,
};
use bytes::Bytes;
use futures_util::FutureExt;
use serde::Deserialize;

use crate::{
    calls::{
        fields::Query,
        problem::{Code, Problem},
    },
    http::{Api, call, server::Upgradable},
    live::{
        Outbox, Place, TooMany,
        socket::{Close, Hears, PROTOCOL, Reader, Socket, frame as wire},
    },
    locking::names::RoomId,
};

/// Never a token: addresses end up in logs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    rooms: Option<String>,
}

/// `GET /ws`, and `GET /ws?rooms=*`.
pub async fn connect(
    request: HttpRequest,
    Query(parameters): Query<Parameters>,
) -> Result<HttpResponse<BoxBody>, Problem> {
    let hears = match parameters.rooms.as_deref() {
        None => Hears::WhatItAsksFor,
        Some("*") => Hears::Everything,
        Some(_) => return Err(Problem::invalid("rooms", "must be `*`; subscribe to single rooms by name")),
    };
    upgrade(&request, hears)
}

/// `GET /ws/{room}`.
pub async fn connect_room(
    request: HttpRequest,
    Query(parameters): Query<Parameters>,
) -> Result<HttpResponse<BoxBody>, Problem> {
    if parameters.rooms.is_some() {
        return Err(Problem::invalid("rooms", "goes with /ws alone"));
    }
    let room = call::parameter(&request, 1, "room", RoomId::parse)?;
    upgrade(&request, Hears::Room(room))
}

/// Agrees, and leaves what is needed to go on for the one who has the connection.
fn upgrade(request: &HttpRequest, hears: Hears) -> Result<HttpResponse<BoxBody>, Problem> {
    let api = call::api(request)?;
    if api.draining.load(Ordering::Acquire) {
        return Err(Problem::new(Code::Draining, "The server is stopping.").retry_after_ms(1000));
    }
    check_origin(&api, request.headers())?;
    let mut response = handshake(request)?;
    if !request.extensions().contains::<Upgradable>() {
        return Err(Problem::new(Code::BadRequest, "Not a WebSocket: the request has a body."));
    }
    let (place, fits) = api.live.sockets.enter(api.proxies.client(request));
    let token = token(request.headers()).map(ToOwned::to_owned);
    response.extensions_mut().insert(Opening { api, place, fits, token, hears });
    Ok(response.map_into_boxed_body())
}

/// A socket that has been agreed to.
pub struct Opening {
    api: web::Data<Api>,
    place: Place,
    fits: Result<(), TooMany>,
    token: Option<String>,
    hears: Hears,
}

impl Opening {
    /// With the answer to the handshake, and what the client has said since.
    pub fn start(self, connection: TcpStream, answer: &[u8], received: &[u8]) {
        // A notice must not wait for the one before to be acknowledged.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "small messages may be late");
        }
        let connection = Arc::new(connection);
        let recovers = !matches!(self.hears, Hears::Everything);
        let outbox = Outbox::writing(Arc::clone(&connection), wire::close(Close::TooSlow, "too slow"), recovers);
        // It has just been made: it is open.
        let _ = outbox.push_page(Bytes::copy_from_slice(answer));
        let socket = Socket::new(self.api, outbox, Reader::new(connection, received), self.place, self.hears);
        rt::spawn(socket.run(self.token, self.fits));
    }
}

/// actix-ws checks the headers and answers the key and the subprotocol. Its own body and stream are not used: it copies
/// every message for every socket, and waits for whole frames before it looks at their length.
fn handshake(request: &HttpRequest) -> Result<HttpResponse<()>, Problem> {
    let refused = |error: actix_web::Error| Problem::new(Code::BadRequest, format!("Not a WebSocket: {error}"));
    let nothing = web::Payload::from_request(request, &mut Payload::None).now_or_never();
    let nothing = nothing.and_then(Result::ok).ok_or_else(|| Problem::new(Code::BadRequest, "Not a WebSocket."))?;
    let (response, _, _) = actix_ws::handle_with_protocols(request, nothing, &[PROTOCOL]).map_err(refused)?;
    Ok(response.drop_body())
}

/// Browsers let any page open a socket anywhere, and say which page it was.
fn check_origin(api: &Api, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_own = origin.split_once("://").is_some_and(|(_, from)| Some(from) == host);
    if is_own || api.live.origins.allow(origin) {
        return Ok(());
    }
    Err(Problem::new(Code::RoleForbids, "Pages of this origin may not connect: see server.allowed_origins."))
}

/// From the header; or from a subprotocol, since pages cannot set headers.
fn token(headers: &HeaderMap) -> Option<&str> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).filter_map(|value| value.to_str().ok());
    let mut offered = offered.flat_map(|value| value.split(',')).map(str::trim);
    call::bearer(headers).ok().or_else(|| offered.find_map(|protocol| protocol.strip_prefix("bearer.")))
}
