//! What the server answers, as JSON with a `type`. What it tells of rooms is in `live::messages`.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    auth::{Caller, Role},
    calls::{Code, Problem, view::LockView},
    live::{
        messages::MessageId,
        socket::{MAX_MESSAGE, frame},
    },
    locking::{
        DocumentKey, Lock, Timestamp,
        names::{DocumentId, OwnerId, RoomId},
    },
};

#[derive(Debug, Serialize)]
struct Welcome<'a> {
    r#type: &'static str,
    epoch: Uuid,
    server_time: Timestamp,
    ping_ms: i64,
    limits: WelcomeLimits,
    owner_id: &'a OwnerId,
    name: Option<&'a str>,
    role: Role,
}

#[derive(Debug, Serialize)]
struct WelcomeLimits {
    message_bytes: usize,
    rooms: u32,
}

pub fn welcome(caller: &Caller, epoch: Uuid, server_time: Timestamp, ping_ms: i64, rooms: u32) -> Bytes {
    let limits = WelcomeLimits { message_bytes: MAX_MESSAGE, rooms };
    let (owner_id, name, role) = (&caller.owner, caller.name.as_deref(), caller.role);
    frame::text(&Welcome { r#type: "welcome", epoch, server_time, ping_ms, limits, owner_id, name, role })
}

/// The answer to `ping`.
pub fn pong(id: Option<&MessageId>, server_time: Timestamp) -> Bytes {
    frame::text(&Reply { r#type: "pong", id, answer: Moment { server_time } })
}

/// What a client is told of the document that it waits for.
#[derive(Debug, Serialize)]
pub struct InLine<'a> {
    pub granted: bool,
    pub position: u64,
    pub room: &'a RoomId,
    pub document: &'a DocumentId,
    pub server_time: Timestamp,
}

/// The answer to a `wait` that was granted at once.
#[derive(Debug, Serialize)]
pub struct GrantedAtOnce<T> {
    pub granted: bool,
    #[serde(flatten)]
    pub lock: T,
}

/// It is the client's turn. The pong to the ping that follows claims the lock.
pub fn granted(lock: &Lock, caller: &Caller, now: Timestamp) -> Bytes {
    #[derive(Serialize)]
    struct Granted<'a> {
        r#type: &'static str,
        room: &'a RoomId,
        document: &'a DocumentId,
        lock: LockView,
        server_time: Timestamp,
    }
    let DocumentKey { room, document, .. } = &lock.key;
    let view = LockView::new(lock, caller, now);
    frame::text(&Granted { r#type: "granted", room, document, lock: view, server_time: now })
}

/// Where the client stands in line; nowhere any more if that is none.
pub fn waiting(key: &DocumentKey, position: Option<u64>) -> Bytes {
    #[derive(Serialize)]
    struct Waiting<'a> {
        r#type: &'static str,
        room: &'a RoomId,
        document: &'a DocumentId,
        position: Option<u64>,
    }
    let DocumentKey { room, document, .. } = key;
    frame::text(&Waiting { r#type: "LockWaiting", room, document, position })
}

/// A renewal by the server that has been committed.
pub fn extended(lock: &Lock, now: Timestamp) -> Bytes {
    #[derive(Serialize)]
    struct Extended<'a> {
        r#type: &'static str,
        room: &'a RoomId,
        document: &'a DocumentId,
        lease_id: Uuid,
        expires_at: Timestamp,
        expires_in_ms: i64,
        server_time: Timestamp,
    }
    let DocumentKey { room, document, .. } = &lock.key;
    frame::text(&Extended {
        r#type: "extended",
        room,
        document,
        lease_id: lock.lease_id,
        expires_at: lock.expires_at,
        expires_in_ms: lock.expires_in_ms(now),
        server_time: now,
    })
}

#[derive(Debug, Serialize)]
struct Reply<'a, T> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a MessageId>,
    #[serde(flatten)]
    answer: T,
}

pub fn ok(id: Option<&MessageId>, answer: impl Serialize) -> Bytes {
    frame::text(&Reply { r#type: "ok", id, answer })
}

/// The answer to `unsubscribe`.
#[derive(Debug, Serialize)]
pub struct RoomMoment<'a> {
    pub room: &'a RoomId,
    pub server_time: Timestamp,
}

/// The answer to `auth`.
#[derive(Debug, Serialize)]
pub struct Moment {
    pub server_time: Timestamp,
}

#[derive(Debug, Serialize)]
struct ErrorReply<'a> {
    code: Code,
    retryable: bool,
    detail: &'a str,
    server_time: Timestamp,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

pub fn error(id: Option<&MessageId>, problem: &Problem, server_time: Timestamp) -> Bytes {
    let (code, detail, extra) = (problem.code, problem.detail.as_str(), problem.extra());
    let answer = ErrorReply { code, retryable: code.is_retryable(), detail, server_time, extra };
    frame::text(&Reply { r#type: "error", id, answer })
}

pub fn goodbye(reconnect_after_ms: u64) -> Bytes {
    #[derive(Serialize)]
    struct Goodbye {
        r#type: &'static str,
        reconnect_after_ms: u64,
    }
    frame::text(&Goodbye { r#type: "goodbye", reconnect_after_ms })
}
