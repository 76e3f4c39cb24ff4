//! `POST /api/stream-tickets`: a way in for `EventSource`, which can send no header.
//!
//! A ticket stands in an address, which others may see: it is good once, for 30 s, for the rooms it was asked for, on the
//! server that gave it.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use actix_web::{Responder, web};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    call::Call,
    fields::Fields,
    problem::{Code, Problem},
    view::Timed,
};
use crate::{
    auth::{Caller, Role},
    locking::{Timestamp, names::RoomId},
};

const LIFE_MS: i64 = 30_000;
/// More are refused: nobody opens so many streams in half a minute.
const MAX_TICKETS: usize = 100_000;

#[derive(Debug, Default)]
pub struct Tickets(Mutex<HashMap<String, Ticket>>);

#[derive(Debug)]
struct Ticket {
    caller: Caller,
    rooms: Vec<RoomId>,
    expires_at: Timestamp,
}

impl Tickets {
    fn issue(&self, caller: &Caller, rooms: Vec<RoomId>, now: Timestamp) -> Result<String, Problem> {
        let busy = || Problem::new(Code::Overloaded, "Nothing was done. Try again in a moment.").retry_after_ms(1000);
        let mut secret = [0; 24];
        getrandom::fill(&mut secret).map_err(|_| busy())?;
        let text = BASE64_URL_SAFE_NO_PAD.encode(secret);
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() >= MAX_TICKETS {
            tickets.retain(|_, ticket| now < ticket.expires_at);
        }
        if tickets.len() >= MAX_TICKETS {
            return Err(busy());
        }
        let ticket = Ticket { caller: caller.clone(), rooms, expires_at: now.plus_millis(LIFE_MS) };
        tickets.insert(text.clone(), ticket);
        Ok(text)
    }

    /// Whose it is. Whatever comes of it, the ticket is used up.
    pub fn redeem(&self, ticket: &str, room: &RoomId, now: Timestamp) -> Result<Caller, Problem> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(ticket);
        let Ticket { caller, rooms, .. } = found
            .filter(|ticket| now < ticket.expires_at)
            .ok_or_else(|| Problem::new(Code::TokenInvalid, "The ticket is used up, too old, or of another server."))?;
        if !rooms.contains(room) {
            return Err(Problem::new(Code::RoomForbidden, "The ticket is for other rooms."));
        }
        Ok(caller)
    }
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
    let ticket = call.api.live.tickets.issue(&call.caller, fields.rooms, now)?;
    Ok(web::Json(Timed { answer: TicketView { ticket, expires_in_ms: LIFE_MS }, server_time: now }))
}
