//! What is said over a socket: the messages of both sides, as JSON with a `type`.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use uuid::Uuid;

use super::socket::{MAX_MESSAGE, frame as wire};
use crate::{
    calls::{
        problem::{Code, Problem},
        view::LockView,
    },
    live::{Change, Encoders, Form, Participant, Wire},
    locking::{
        DocumentKey, Event, EventKind, Lock, Timestamp,
        names::{DocumentId, MAX_NAME_BYTES, OwnerId, RoomId},
    },
    storage::tail::Head,
};

/// The client's own name for a command: a text or a number, told again in the answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Id(Value);

/// What a client asks.
pub struct Asked {
    pub kind: String,
    pub id: Option<Id>,
    /// Everything else it said. May hold a token: never printed.
    pub fields: Map<String, Value>,
}

impl Asked {
    /// Fails if it is not a message at all.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else { return Err("not a JSON object") };
        let Some(Value::String(kind)) = fields.remove("type") else { return Err("no `type`") };
        let id = match fields.remove("id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) if id.len() <= MAX_NAME_BYTES => Some(Id(Value::String(id))),
            Some(Value::Number(id)) => Some(Id(Value::Number(id))),
            Some(_) => return Err("`id` must be a short text or a number"),
        };
        Ok(Self { kind, id, fields })
    }

    /// A name among the fields, which is taken out.
    pub fn name<T: TryFrom<String>>(&mut self, field: &str) -> Result<Option<T>, Problem>
    where
        T::Error: std::fmt::Display,
    {
        match self.fields.remove(field) {
            None => Ok(None),
            Some(Value::String(text)) => match T::try_from(text) {
                Ok(name) => Ok(Some(name)),
                Err(reason) => Err(Problem::invalid(field, reason)),
            },
            Some(_) => Err(Problem::invalid(field, "must be a text")),
        }
    }

    pub fn room(&mut self) -> Result<RoomId, Problem> {
        self.name("room")?.ok_or_else(|| Problem::invalid("room", "is needed"))
    }
}

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
    text(&Welcome { r#type: "welcome", epoch, server_time, ping_ms, limits })
}

#[derive(Debug, Serialize)]
struct Done<'a, T> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    #[serde(flatten)]
    answer: T,
}

pub fn ok(id: Option<&Id>, answer: impl Serialize) -> Bytes {
    text(&Done { r#type: "ok", id, answer })
}

#[derive(Debug, Serialize)]
pub struct Room<'a> {
    pub room: &'a RoomId,
    pub server_time: Timestamp,
}

#[derive(Debug, Serialize)]
pub struct Time {
    pub server_time: Timestamp,
}

#[derive(Debug, Serialize)]
struct Failed<'a> {
    code: Code,
    retryable: bool,
    detail: &'a str,
    server_time: Timestamp,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

pub fn error(id: Option<&Id>, problem: &Problem, server_time: Timestamp) -> Bytes {
    let (code, detail, extra) = (problem.code, problem.detail.as_str(), problem.extra());
    let answer = Failed { code, retryable: code.is_retryable(), detail, server_time, extra };
    text(&Done { r#type: "error", id, answer })
}

pub fn goodbye(reconnect_after_ms: u64) -> Bytes {
    #[derive(Serialize)]
    struct Goodbye {
        r#type: &'static str,
        reconnect_after_ms: u64,
    }
    text(&Goodbye { r#type: "goodbye", reconnect_after_ms })
}

/// What a newcomer is told first, and the pages after it.
#[derive(Debug, Serialize)]
pub struct Page<'a> {
    pub r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a Id>,
    pub room: &'a str,
    #[serde(flatten)]
    pub opening: Option<Opening>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks: Option<&'a [Box<RawValue>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<&'a [Box<RawValue>]>,
    pub more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participants: Option<&'a [Participant]>,
}

/// Only on the first page.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Opening {
    pub epoch: Uuid,
    pub sequence: i64,
    pub recovered: bool,
    pub server_time: Timestamp,
}

#[derive(Debug, Serialize)]
struct Locked<'a> {
    r#type: &'static str,
    sequence: i64,
    room: &'a RoomId,
    document: &'a DocumentId,
    lock: LockView,
}

#[derive(Debug, Serialize)]
struct Unlocked<'a> {
    r#type: &'static str,
    sequence: i64,
    room: &'a RoomId,
    document: &'a DocumentId,
    fencing_token: i64,
    reason: &'static str,
    by: Option<&'a OwnerId>,
}

/// An event as its room hears it; times are those of the event.
pub fn notice(event: &Event, sequence: i64, is_full: bool) -> String {
    let DocumentKey { room, document, .. } = &event.lock.key;
    let r#type = event.kind.name();
    match &event.kind {
        EventKind::Locked => {
            let lock = LockView::shown(&event.lock, is_full, event.at);
            json(&Locked { r#type, sequence, room, document, lock })
        }
        EventKind::Unlocked { reason, by, .. } => {
            let (fencing_token, reason, by) = (event.lock.fencing_token, reason.name(), by.as_ref());
            json(&Unlocked { r#type, sequence, room, document, fencing_token, reason, by })
        }
    }
}

/// For the hub.
pub const ENCODERS: Encoders = Encoders { event: encode_event, extension: encode_extension, presence: encode_presence };

fn encode_event(event: &Event, sequence: i64, epoch: Uuid, form: Form) -> Bytes {
    let json = notice(event, sequence, form.is_full);
    wire::message(form.wire, event.kind.name(), Some(Head { epoch, sequence }), &json)
}

/// No event stream asks for it.
fn encode_extension(key: &DocumentKey, lock: &Lock) -> Bytes {
    #[derive(Serialize)]
    struct Extended<'a> {
        r#type: &'static str,
        room: &'a RoomId,
        document: &'a DocumentId,
        expires_at: Timestamp,
    }
    text(&Extended { r#type: "LockExtended", room: &key.room, document: &key.document, expires_at: lock.expires_at })
}

/// As an event it has no id, since it is in no log.
fn encode_presence(room: &RoomId, change: Change, participant: &Participant, wire: Wire) -> Bytes {
    #[derive(Serialize)]
    struct Presence<'a> {
        r#type: &'static str,
        room: &'a RoomId,
        participant: &'a Participant,
    }
    let r#type = match change {
        Change::Joined => "ParticipantJoined",
        Change::Left => "ParticipantLeft",
    };
    wire::message(wire, r#type, None, &json(&Presence { r#type, room, participant }))
}

fn text(message: &impl Serialize) -> Bytes {
    wire::text(json(message).as_bytes())
}

/// Our own types always can be written.
pub fn json(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}
