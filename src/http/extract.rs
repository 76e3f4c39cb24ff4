//! The extractors that every handler starts from: who calls, and which document, room or lease is meant.

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest,
    dev::Payload,
    http::header::{self, HeaderMap, HeaderValue},
    web,
};
use uuid::Uuid;

use super::{Api, observe::RouteName};
use crate::{
    calls::{self, Call, Code, DocumentName, Problem, path},
    locking::{
        LeaseId,
        names::{DocumentId, NameError, RequestId, RoomId},
    },
};

impl FromRequest for Call {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(bearer(request.headers()).and_then(|token| call_of(request, token)))
    }
}

/// Returns the call of the caller that the token stands for. The token comes from a header or, with a beacon, from the
/// body. Fails if the token is refused or its owner sends too many requests.
pub fn call_of(request: &HttpRequest, token: &str) -> Result<Call, Problem> {
    let calls = &api(request)?.calls;
    let caller = calls.caller(token)?;
    // For the log.
    request.extensions_mut().insert(Arc::clone(&caller));
    calls.admit(&caller)?;
    let idempotency_key = request.headers().get("idempotency-key").map(idempotency_key).transpose()?;
    Ok(Call { calls: Arc::clone(calls), caller, idempotency_key })
}

pub fn api(request: &HttpRequest) -> Result<&web::Data<Api>, Problem> {
    request.app_data().ok_or_else(|| Problem::new(Code::Draining, "The server is not ready."))
}

pub fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    calls::bearer(headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes))
}

fn idempotency_key(value: &HeaderValue) -> Result<RequestId, Problem> {
    let invalid = |reason: &dyn std::fmt::Display| Problem::invalid("Idempotency-Key", reason);
    let text = str::from_utf8(value.as_bytes()).map_err(|_| invalid(&"must be UTF-8"))?;
    RequestId::parse(text).map_err(|reason| invalid(&reason))
}

/// `…/documents/{room}/lock…` and `…/documents/{room}/{document}/lock…`.
impl FromRequest for DocumentName {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let room = segment(request, "room", RoomId::parse);
        ready(room.and_then(|room| {
            let document = match request.match_info().get("document") {
                Some(_) => segment(request, "document", DocumentId::parse)?,
                None => DocumentId::main(),
            };
            Ok(Self { room, document })
        }))
    }
}

/// `…/rooms/{room}/…`.
#[derive(Debug)]
pub struct RoomPath(pub RoomId);

impl FromRequest for RoomPath {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(segment(request, "room", RoomId::parse).map(Self))
    }
}

/// `…/admin/locks/{lease_id}`.
#[derive(Debug)]
pub struct LeasePath(pub LeaseId);

impl FromRequest for LeasePath {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(uuid(request, "lease_id").map(Self))
    }
}

/// `…/lock/handovers/{handover_id}`.
#[derive(Debug)]
pub struct HandoverPath(pub Uuid);

impl FromRequest for HandoverPath {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(uuid(request, "handover_id").map(Self))
    }
}

fn uuid(request: &HttpRequest, name: &str) -> Result<Uuid, Problem> {
    let text = request.match_info().get(name).unwrap_or_default();
    Uuid::try_parse(text).map_err(|_| Problem::invalid(name, "must be a UUID"))
}

fn segment<T>(
    request: &HttpRequest,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<T, Problem> {
    let pattern = request.app_data::<RouteName>().map_or("", RouteName::as_str);
    path::segment(pattern, request.uri().path(), name, parse)
}
