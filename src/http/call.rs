//! Who calls, and what for: the extractors every handler starts from.

use std::{future::Ready, sync::Arc};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest,
    dev::Payload,
    http::header::{self, HeaderMap},
    web,
};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::Api;
use crate::{
    auth::{Caller, Role},
    calls::{
        problem::{Code, Problem},
        view,
    },
    locking::{
        Command, DocumentKey, Fingerprint, Holder, LeaseId, Outcome, Refusal, Request, Timestamp,
        names::{DocumentId, NameError, RequestId, RoomId, SessionId},
    },
};

/// A request of somebody we know.
#[derive(Debug)]
pub struct Call {
    pub api: web::Data<Api>,
    pub caller: Arc<Caller>,
    pub idempotency_key: Option<RequestId>,
}

impl FromRequest for Call {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        std::future::ready(bearer(request.headers()).and_then(|token| Self::of(request, token)))
    }
}

impl Call {
    /// For the token given, wherever it came from.
    pub fn of(request: &HttpRequest, token: &str) -> Result<Self, Problem> {
        let api = api(request)?;
        let caller = api.keys.verify(token, api.clock.wall())?;
        request.extensions_mut().insert(Arc::clone(&caller));
        api.rates.admit(&caller, api.clock.now())?;
        let idempotency_key = match request.headers().get("idempotency-key") {
            Some(value) => Some(idempotency_key(value)?),
            None => None,
        };
        Ok(Self { api, caller, idempotency_key })
    }

    pub fn now(&self) -> Timestamp {
        self.api.clock.now()
    }

    /// The moment at which a read sees whether locks live.
    pub fn judged_at(&self) -> Timestamp {
        self.api.life.judged_at(self.now())
    }

    /// The document, if the caller has the role and may enter the room.
    pub fn key(&self, role: Role, name: DocumentPath) -> Result<DocumentKey, Problem> {
        self.caller.require_in(role, &name.room)?;
        Ok(DocumentKey { tenant: self.caller.tenant.clone(), room: name.room, document: name.document })
    }

    pub fn keys(&self, role: Role, room: &RoomId, documents: &Documents) -> Result<Vec<DocumentKey>, Problem> {
        self.caller.require_in(role, room)?;
        let tenant = &self.caller.tenant;
        let key = |document: &DocumentId| DocumentKey {
            tenant: tenant.clone(),
            room: room.clone(),
            document: document.clone(),
        };
        Ok(documents.0.iter().map(key).collect())
    }

    pub fn holder(&self, session: Option<SessionId>) -> Holder {
        Holder { owner: self.caller.owner.clone(), session, name: self.caller.name.clone() }
    }

    pub fn new_lease_id(&self) -> LeaseId {
        let millis = u64::try_from(self.now().millis()).unwrap_or_default();
        let mut random = [0; 10];
        // Leases identify, they do not authenticate: the owner is always checked.
        getrandom::fill(&mut random).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// The request's id, from the body or the header, with what it stands for.
    pub fn request(
        &self,
        in_body: Option<RequestId>,
        verb: &str,
        keys: &[DocumentKey],
        fields: &impl Serialize,
    ) -> Result<Option<Request>, Problem> {
        let id = match (in_body, &self.idempotency_key) {
            (Some(id), Some(key)) if id != *key => {
                return Err(Problem::invalid("request_id", "differs from the header Idempotency-Key"));
            }
            (Some(id), _) => id,
            (None, Some(key)) => key.clone(),
            (None, None) => return Ok(None),
        };
        let mut digest = Sha256::new();
        let fields = serde_json::to_string(fields).unwrap_or_default();
        let names = keys.iter().flat_map(|key| [key.room.as_str(), key.document.as_str()]);
        for part in std::iter::once(verb).chain(names).chain([fields.as_str()]) {
            digest.update(part);
            // No part contains it, so parts cannot run together.
            digest.update([0]);
        }
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&digest.finalize()[..16]);
        Ok(Some(Request { id, fingerprint: Fingerprint(fingerprint) }))
    }

    pub async fn submit(&self, command: Command) -> Result<Outcome, Problem> {
        Ok(self.api.committer.submit(command).await?)
    }

    pub fn refused(&self, refusal: &Refusal) -> Problem {
        view::refusal(refusal, &self.caller, self.now())
    }
}

pub fn api(request: &HttpRequest) -> Result<web::Data<Api>, Problem> {
    let api = request.app_data::<web::Data<Api>>().cloned();
    api.ok_or_else(|| Problem::new(Code::Draining, "The server is not ready."))
}

pub fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let missing = || Problem::new(Code::TokenMissing, "Send `Authorization: Bearer <token>`.");
    let value = headers.get(header::AUTHORIZATION).ok_or_else(missing)?;
    let value = value.to_str().map_err(|_| Problem::new(Code::TokenInvalid, "The token is not valid: not ASCII"))?;
    let (scheme, token) = value.split_once(' ').ok_or_else(missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") || token.trim().is_empty() {
        return Err(missing());
    }
    Ok(token.trim())
}

fn idempotency_key(value: &header::HeaderValue) -> Result<RequestId, Problem> {
    let invalid = |reason: &dyn std::fmt::Display| Problem::invalid("Idempotency-Key", reason);
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| invalid(&"must be UTF-8"))?;
    RequestId::parse(text).map_err(|reason| invalid(&reason))
}

/// `…/documents/{room}/lock…` and `…/documents/{room}/{document}/lock…`.
#[derive(Debug)]
pub struct DocumentPath {
    pub room: RoomId,
    pub document: DocumentId,
}

/// `…/rooms/{room}/…`.
#[derive(Debug)]
pub struct RoomPath(pub RoomId);

/// `…/admin/locks/{lease_id}`.
#[derive(Debug)]
pub struct LeasePath(pub LeaseId);

impl FromRequest for DocumentPath {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        std::future::ready((|| {
            let room = parameter(request, 2, "room", RoomId::parse)?;
            let document = match request.match_info().get("document") {
                Some(_) => parameter(request, 3, "document", DocumentId::parse)?,
                None => DocumentId::main(),
            };
            Ok(Self { room, document })
        })())
    }
}

impl FromRequest for RoomPath {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        std::future::ready(parameter(request, 2, "room", RoomId::parse).map(Self))
    }
}

impl FromRequest for LeasePath {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let text = request.match_info().get("lease_id").unwrap_or_default();
        let lease_id = Uuid::try_parse(text).map_err(|_| Problem::invalid("lease_id", "must be a UUID"));
        std::future::ready(lease_id.map(Self))
    }
}

/// A segment of the path, decoded from what was sent: the router's own decoding would turn two different invalid names
/// into the same one.
pub fn parameter<T>(
    request: &HttpRequest,
    segment: usize,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<T, Problem> {
    let raw = request.uri().path().split('/').skip(1).nth(segment).unwrap_or_default();
    let text = percent_decode_str(raw).decode_utf8().map_err(|_| Problem::invalid(name, "must be UTF-8"))?;
    parse(&text).map_err(|reason| Problem::invalid(name, reason))
}

/// Up to 100 different documents of a room.
#[derive(Debug, Clone, Serialize, serde::Deserialize)]
#[serde(try_from = "Vec<DocumentId>")]
pub struct Documents(Vec<DocumentId>);

impl TryFrom<Vec<DocumentId>> for Documents {
    type Error = &'static str;

    fn try_from(documents: Vec<DocumentId>) -> Result<Self, Self::Error> {
        if !(1..=100).contains(&documents.len()) {
            return Err("must be 1 to 100 documents");
        }
        let mut sorted: Vec<_> = documents.iter().collect();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("must not name a document twice");
        }
        Ok(Self(documents))
    }
}
