//! What the server answers, as JSON with a `type`. What it tells of rooms is in `live::messages`.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    calls::{Code, Problem},
    live::{
        messages::MessageId,
        socket::{MAX_MESSAGE, frame},
    },
    locking::{Timestamp, names::RoomId},
};

#[derive(Debug, Serialize)]
struct Welcome {
    r#type: &'static str,
    epoch: Uuid,
    server_time: Timestamp,
    ping_ms: i64,
    limits: WelcomeLimits,
}

#[derive(Debug, Serialize)]
struct WelcomeLimits {
    message_bytes: usize,
    rooms: u32,
}

pub fn welcome(epoch: Uuid, server_time: Timestamp, ping_ms: i64, rooms: u32) -> Bytes {
    let limits = WelcomeLimits { message_bytes: MAX_MESSAGE, rooms };
    frame::text(&Welcome { r#type: "welcome", epoch, server_time, ping_ms, limits })
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
