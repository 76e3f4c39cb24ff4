//! Stream passes: a way in for `EventSource`, which can send no header.
//!
//! A pass stands in an address, which others may see: it is good once, for 30 s, for the rooms it was asked for, on any
//! server of the database. Clients and tables know it as a ticket.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use crate::{
    auth::{Caller, Role, RoomGlobs},
    calls::{Call, Code, Problem, view::Timed},
    locking::{
        HolderKind, Timestamp,
        names::{OwnerId, RoomId, TenantId},
    },
    storage::SoftState,
};

const LIFE_MS: i64 = 30_000;
/// More are refused: nobody opens so many streams in half a minute.
const MAX_PASSES: usize = 100_000;

/// In memory with SQLite, where there is one server and a new one starts with none; otherwise in the database, for any
/// server to take.
#[derive(Debug)]
pub enum StreamPasses {
    Own(Mutex<HashMap<Digest, StreamPass>>),
    Shared(SoftState),
}

/// The pass itself is known to its bearer only.
type Digest = [u8; 32];

/// Whose it is, and what for.
#[derive(Debug, Serialize, Deserialize)]
pub struct StreamPass {
    tenant: TenantId,
    owner: OwnerId,
    name: Option<Arc<str>>,
    #[serde(default)]
    kind: HolderKind,
    role: Role,
    may_see: Option<Vec<String>>,
    may_take_over: bool,
    token_ends_ms: i64,
    rooms: Vec<RoomId>,
    expires_ms: i64,
}

impl StreamPasses {
    pub fn new(shared: Option<SoftState>) -> Self {
        shared.map_or_else(|| Self::Own(Mutex::default()), Self::Shared)
    }

    async fn issue(&self, caller: &Caller, rooms: Vec<RoomId>, now: Timestamp) -> Result<String, Problem> {
        let busy = || Problem::new(Code::Overloaded, "Nothing was done. Try again in a moment.").retry_after_ms(1000);
        let mut secret = [0; 24];
        getrandom::fill(&mut secret).map_err(|_| busy())?;
        let text = BASE64_URL_SAFE_NO_PAD.encode(secret);
        let expires_at = now.plus_millis(LIFE_MS);
        let pass = StreamPass::new(caller, rooms, expires_at);
        let is_kept = match self {
            Self::Own(passes) => keep(passes, digest(&text), pass, now),
            Self::Shared(database) => {
                let body = serde_json::to_string(&pass).map_err(|_| busy())?;
                keep_shared(database, digest(&text), body, expires_at, now).await?
            }
        };
        if is_kept { Ok(text) } else { Err(busy()) }
    }

    /// Returns whose it is. Whatever comes of it, the pass is used up.
    pub async fn redeem(&self, pass: &str, room: &RoomId, now: Timestamp) -> Result<Caller, Problem> {
        let found = match self {
            Self::Own(passes) => passes.lock().remove(&digest(pass)),
            Self::Shared(database) => {
                let body = database.take_ticket(digest(pass)).await?;
                body.and_then(|body| serde_json::from_str(&body).ok())
            }
        };
        let pass = found
            .filter(|pass: &StreamPass| now.millis() < pass.expires_ms)
            .ok_or_else(|| Problem::new(Code::TokenInvalid, "The ticket is used up or too old."))?;
        if !pass.rooms.contains(room) {
            return Err(Problem::new(Code::RoomForbidden, "The ticket is for other rooms."));
        }
        Ok(pass.into_caller())
    }
}

impl StreamPass {
    fn new(caller: &Caller, rooms: Vec<RoomId>, expires_at: Timestamp) -> Self {
        Self {
            tenant: caller.tenant.clone(),
            owner: caller.owner.clone(),
            name: caller.name.clone(),
            kind: caller.kind,
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
            kind: self.kind,
            role: self.role,
            rooms: RoomGlobs::from_stored(self.may_see),
            may_take_over: self.may_take_over,
            expires_at: Timestamp::from_millis(self.token_ends_ms),
        }
    }
}

fn digest(pass: &str) -> Digest {
    Sha256::digest(pass).into()
}

fn keep(passes: &Mutex<HashMap<Digest, StreamPass>>, digest: Digest, pass: StreamPass, now: Timestamp) -> bool {
    let mut passes = passes.lock();
    if passes.len() >= MAX_PASSES {
        passes.retain(|_, pass| now.millis() < pass.expires_ms);
    }
    if passes.len() >= MAX_PASSES {
        return false;
    }
    passes.insert(digest, pass);
    true
}

async fn keep_shared(
    database: &SoftState,
    digest: Digest,
    body: String,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<bool, Problem> {
    let limit = MAX_PASSES as u64;
    if database.keep_ticket(digest, body.clone(), expires_at, limit).await? {
        return Ok(true);
    }
    database.prune_tickets(now).await?;
    Ok(database.keep_ticket(digest, body, expires_at, limit).await?)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"rooms": ["minutes"]}))]
#[schema(as = TicketRequest)]
pub struct StreamPassRequest {
    #[schema(value_type = Vec<RoomId>, min_items = 1, max_items = 100)]
    rooms: Vec<RoomId>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TicketView)]
pub struct StreamPassView {
    /// For `?ticket=`, once.
    ticket: String,
    #[schema(minimum = 0)]
    expires_in_ms: i64,
}

/// Issues a pass for rooms that the caller may see.
pub async fn issue(
    passes: &StreamPasses,
    call: &Call,
    request: StreamPassRequest,
) -> Result<Timed<StreamPassView>, Problem> {
    if !(1..=100).contains(&request.rooms.len()) {
        return Err(Problem::invalid("rooms", "must be 1 to 100 rooms"));
    }
    for room in &request.rooms {
        call.caller.require_in(Role::Viewer, room)?;
    }
    let now = call.now();
    let ticket = passes.issue(&call.caller, request.rooms, now).await?;
    Ok(Timed { answer: StreamPassView { ticket, expires_in_ms: LIFE_MS }, server_time: now })
}
