//! The upgrade.

use std::sync::Arc;

use actix_web::{
    FromRequest, HttpMessage, HttpRequest, HttpResponse,
    body::BoxBody,
    dev::Payload,
    http::header::{self, HeaderMap, HeaderValue},
    web,
};
use futures_util::FutureExt;
use serde::Deserialize;

use super::{
    Endpoint, PROTOCOL,
    protocol::{DoclockV1, Hears},
};
use crate::{
    auth::Origins,
    calls::{self, Code, Problem, fields, path},
    live::{socket, upgrade::Upgradable},
    locking::names::RoomId,
};

/// Never a token: addresses end up in logs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SocketParams {
    rooms: Option<String>,
}

/// `GET /ws`, and `GET /ws?rooms=*`.
pub async fn connect(request: HttpRequest, endpoint: web::Data<Endpoint>) -> Result<HttpResponse<BoxBody>, Problem> {
    let SocketParams { rooms } = fields::from_query(request.query_string())?;
    let hears = match rooms.as_deref() {
        None => Hears::WhatItAsksFor,
        Some("*") => Hears::Everything,
        Some(_) => return Err(Problem::invalid("rooms", "must be `*`; subscribe to single rooms by name")),
    };
    upgrade(&request, &endpoint, hears)
}

/// `GET /ws/{room}`.
pub async fn connect_room(
    request: HttpRequest,
    endpoint: web::Data<Endpoint>,
) -> Result<HttpResponse<BoxBody>, Problem> {
    let SocketParams { rooms } = fields::from_query(request.query_string())?;
    if rooms.is_some() {
        return Err(Problem::invalid("rooms", "goes with /ws alone"));
    }
    let room = path::segment("/ws/{room}", request.uri().path(), "room", RoomId::parse)?;
    upgrade(&request, &endpoint, Hears::Room(room))
}

/// Agrees, and leaves what is done with the connection for the server that has it.
fn upgrade(request: &HttpRequest, endpoint: &Endpoint, hears: Hears) -> Result<HttpResponse<BoxBody>, Problem> {
    let Endpoint { calls, live, origins } = endpoint;
    live.refuse_if_draining()?;
    check_origin(origins, request.headers())?;
    let mut response = answer(request)?;
    let Some(Upgradable { client }) = request.extensions().get().copied() else {
        return Err(Problem::new(Code::BadRequest, "Not a WebSocket: the request has a body."));
    };
    let (place, fits) = live.admission.enter(client);
    let token = token(request.headers()).map(ToOwned::to_owned);
    // One that hears everything has no places to go on from.
    let recovers = !matches!(hears, Hears::Everything);
    let protocol = DoclockV1::new(Arc::clone(calls), token, hears);
    response.extensions_mut().insert(socket::upgrade(protocol, Arc::clone(live), place, fits, recovers));
    Ok(response.map_into_boxed_body())
}

/// actix-ws checks the headers and answers the key and the subprotocol. Its own body and stream are not used: it copies
/// every message for every socket, and waits for whole frames before it looks at their length.
fn answer(request: &HttpRequest) -> Result<HttpResponse<()>, Problem> {
    let refused = |error: actix_web::Error| Problem::new(Code::BadRequest, format!("Not a WebSocket: {error}"));
    let nothing = web::Payload::from_request(request, &mut Payload::None).now_or_never();
    let nothing = nothing.and_then(Result::ok).ok_or_else(|| Problem::new(Code::BadRequest, "Not a WebSocket."))?;
    let (response, _, _) = actix_ws::handle_with_protocols(request, nothing, &[PROTOCOL]).map_err(refused)?;
    Ok(response.drop_body())
}

/// Browsers let any page open a socket anywhere, and say which page it was.
fn check_origin(origins: &Origins, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_own = origin.split_once("://").is_some_and(|(_, from)| Some(from) == host);
    if is_own || origins.allow(origin) {
        return Ok(());
    }
    Err(Problem::new(Code::OriginForbidden, "Pages of this origin may not connect: see server.allowed_origins."))
}

/// The token of the header; or of a subprotocol, since pages cannot set headers.
fn token(headers: &HeaderMap) -> Option<&str> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).filter_map(|value| value.to_str().ok());
    let mut offered = offered.flat_map(|value| value.split(',')).map(str::trim);
    let bearer = calls::bearer(headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes)).ok();
    bearer.or_else(|| offered.find_map(|protocol| protocol.strip_prefix("bearer.")))
}
