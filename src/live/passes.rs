//! `POST /api/stream-tickets`: a way in for `EventSource`, which can send no header.
//!
//! A ticket stands in an address, which others may see: it is good once, for 30 s, for the rooms it was asked for, on
//! any server of the database.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use actix_web::{Responder, web};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use crate::calls::{
    fields::Fields,
    problem::{Code, Problem},
    view::Timed,
};
use crate::http::call::Call;
use crate::{
    auth::{Caller, Role, RoomGlobs},
    locking::{
        Timestamp,
        names::{OwnerId, RoomId, TenantId},
    },
    storage::SoftState,
};

const LIFE_MS: i64 = 30_000;
/// More are refused: nobody opens so many streams in half a minute.
const MAX_TICKETS: usize = 100_000;

/// In memory with SQLite, where there is one server and a new one starts with none; otherwise in the database, for any
/// server to take.
#[derive(Debug)]
pub enum Tickets {
    Own(Mutex<HashMap<Digest, Ticket>>),
    Shared(SoftState),
}

/// The ticket itself is known to its bearer only.
type Digest = [u8; 32];

/// Whose it is, and what for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ticket {
    tenant: TenantId,
    owner: OwnerId,
    name: Option<Arc<str>>,
    role: Role,
    may_see: Option<Vec<String>>,
    may_take_over: bool,
    token_ends_ms: i64,
    rooms: Vec<RoomId>,
    expires_ms: i64,
}

impl Tickets {
    pub fn new(shared: Option<SoftState>) -> Self {
        shared.map_or_else(|| Self::Own(Mutex::default()), Self::Shared)
    }

    async fn issue(&self, caller: &Caller, rooms: Vec<RoomId>, now: Timestamp) -> Result<String, Problem> {
        let busy = || Problem::new(Code::Overloaded, "Nothing was done. Try again in a moment.").retry_after_ms(1000);
        let mut secret = [0; 24];
        getrandom::fill(&mut secret).map_err(|_| busy())?;
        let text = BASE64_URL_SAFE_NO_PAD.encode(secret);
        let expires_at = now.plus_millis(LIFE_MS);
        let ticket = Ticket::new(caller, rooms, expires_at);
        let is_kept = match self {
            Self::Own(tickets) => keep(tickets, digest(&text), ticket, now),
            Self::Shared(database) => {
                let body = serde_json::to_string(&ticket).map_err(|_| busy())?;
                keep_shared(database, digest(&text), body, expires_at, now).await?
            }
        };
        if is_kept { Ok(text) } else { Err(busy()) }
    }

    /// Whose it is. Whatever comes of it, the ticket is used up.
    pub async fn redeem(&self, ticket: &str, room: &RoomId, now: Timestamp) -> Result<Caller, Problem> {
        let found = match self {
            Self::Own(tickets) => tickets.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest(ticket)),
            Self::Shared(database) => {
                let body = database.take_ticket(digest(ticket)).await?;
                body.and_then(|body| serde_json::from_str(&body).ok())
            }
        };
        let ticket: Ticket = found
            .filter(|ticket: &Ticket| now.millis() < ticket.expires_ms)
            .ok_or_else(|| Problem::new(Code::TokenInvalid, "The ticket is used up or too old."))?;
        if !ticket.rooms.contains(room) {
            return Err(Problem::new(Code::RoomForbidden, "The ticket is for other rooms."));
        }
        Ok(ticket.into_caller())
    }
}

impl Ticket {
    fn new(caller: &Caller, rooms: Vec<RoomId>, expires_at: Timestamp) -> Self {
        Self {
            tenant: caller.tenant.clone(),
            owner: caller.owner.clone(),
            name: caller.name.clone(),
            role: caller.role,
            may_see: caller.rooms.patterns().map(<[_]>::to_vec),
            may_take_over: caller.may_take_over,
            token_ends_ms: caller.expires_at.millis(),
            rooms,
            expires_ms: expires_at.millis(),
        }
    }

    fn into_caller(self) -> Caller {
        Caller {
            tenant: self.tenant,
            owner: self.owner,
            name: self.name,
            role: self.role,
            rooms: RoomGlobs::from_stored(self.may_see),
            may_take_over: self.may_take_over,
            expires_at: Timestamp::from_millis(self.token_ends_ms),
        }
    }
}

fn digest(ticket: &str) -> Digest {
    Sha256::digest(ticket).into()
}

fn keep(tickets: &Mutex<HashMap<Digest, Ticket>>, digest: Digest, ticket: Ticket, now: Timestamp) -> bool {
    let mut tickets = tickets.lock().unwrap_or_else(PoisonError::into_inner);
    if tickets.len() >= MAX_TICKETS {
        tickets.retain(|_, ticket| now.millis() < ticket.expires_ms);
    }
    if tickets.len() >= MAX_TICKETS {
        return false;
    }
    tickets.insert(digest, ticket);
    true
}

async fn keep_shared(
    database: &SoftState,
    digest: Digest,
    body: String,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<bool, Problem> {
    let limit = MAX_TICKETS as u64;
    if database.keep_ticket(digest, body.clone(), expires_at, limit).await? {
        return Ok(true);
    }
    database.prune_tickets(now).await?;
    Ok(database.keep_ticket(digest, body, expires_at, limit).await?)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"rooms": ["minutes"]}))]
pub struct TicketRequest {
    #[schema(value_type = Vec<RoomId>, min_items = 1, max_items = 100)]
    rooms: Vec<RoomId>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TicketView {
    /// For `?ticket=`, once.
    ticket: String,
    #[schema(minimum = 0)]
    expires_in_ms: i64,
}

/// A ticket for an event stream
///
/// For `EventSource`, which can send no header: good once, for 30 seconds, for one of these rooms.
#[utoipa::path(post, path = "/api/stream-tickets", tag = "rooms", request_body = TicketRequest,
    responses((status = 200, body = Timed<TicketView>)))]
pub async fn issue(call: Call, Fields(fields): Fields<TicketRequest>) -> Result<impl Responder, Problem> {
    if !(1..=100).contains(&fields.rooms.len()) {
        return Err(Problem::invalid("rooms", "must be 1 to 100 rooms"));
    }
    for room in &fields.rooms {
        call.caller.require_in(Role::Viewer, room)?;
    }
    let now = call.now();
    let ticket = call.api.live.tickets.issue(&call.caller, fields.rooms, now).await?;
    Ok(web::Json(Timed { answer: TicketView { ticket, expires_in_ms: LIFE_MS }, server_time: now }))
}
