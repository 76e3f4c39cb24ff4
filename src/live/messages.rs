//! What a room is told, as JSON with a `type`: the same for every transport that speaks doclock's own messages.

use serde::Serialize;
use serde_json::{Value, value::RawValue};
use uuid::Uuid;

use super::presence::{Participant, PresenceChange};
use crate::{
    calls::view::LockView,
    locking::{
        DocumentKey, Event, EventKind, Lock, Timestamp,
        names::{DocumentId, MAX_NAME_BYTES, OwnerId, RoomId},
    },
};

/// The client's own name for a command: a text or a number, told again in the answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct MessageId(Value);

impl MessageId {
    /// `null` is no id. Fails if it is neither a short text nor a number.
    pub fn parse(value: Value) -> Result<Option<Self>, &'static str> {
        match value {
            Value::Null => Ok(None),
            Value::Number(_) => Ok(Some(Self(value))),
            Value::String(ref text) if text.len() <= MAX_NAME_BYTES => Ok(Some(Self(value))),
            Value::String(_) | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                Err("`id` must be a short text or a number")
            }
        }
    }
}

/// A page of what a newcomer is told: `subscribed` first, then `snapshot`.
#[derive(Debug, Serialize)]
pub struct Page<'a> {
    pub r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a MessageId>,
    pub room: &'a str,
    #[serde(flatten)]
    pub start: Option<PageStart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks: Option<&'a [Box<RawValue>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<&'a [Box<RawValue>]>,
    pub more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participants: Option<&'a [Participant]>,
}

/// What only the first page says.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PageStart {
    pub epoch: Uuid,
    pub sequence: i64,
    pub recovered: bool,
    pub server_time: Timestamp,
}

/// An event as its room hears it; times are those of the event.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum EventMessage<'a> {
    Locked {
        r#type: &'static str,
        sequence: i64,
        room: &'a RoomId,
        document: &'a DocumentId,
        lock: LockView,
    },
    Unlocked {
        r#type: &'static str,
        sequence: i64,
        room: &'a RoomId,
        document: &'a DocumentId,
        fencing_token: i64,
        reason: &'static str,
        by: Option<&'a OwnerId>,
    },
}

impl<'a> EventMessage<'a> {
    /// `sees_all`: with what only the lock's owner and admins may see.
    pub fn new(event: &'a Event, sequence: i64, sees_all: bool) -> Self {
        let DocumentKey { room, document, .. } = &event.lock.key;
        let r#type = event.kind.name().as_str();
        match &event.kind {
            EventKind::Locked => {
                let lock = LockView::shown(&event.lock, sees_all, event.at);
                Self::Locked { r#type, sequence, room, document, lock }
            }
            EventKind::Unlocked { reason, by, .. } => {
                let (fencing_token, reason, by) = (event.lock.fencing_token, reason.name(), by.as_ref());
                Self::Unlocked { r#type, sequence, room, document, fencing_token, reason, by }
            }
        }
    }
}

/// A lock that was extended. It is in no log.
#[derive(Debug, Serialize)]
pub struct ExtensionMessage<'a> {
    r#type: &'static str,
    room: &'a RoomId,
    document: &'a DocumentId,
    expires_at: Timestamp,
}

impl<'a> ExtensionMessage<'a> {
    pub const TYPE: &'static str = "LockExtended";

    pub fn new(lock: &'a Lock) -> Self {
        let DocumentKey { room, document, .. } = &lock.key;
        Self { r#type: Self::TYPE, room, document, expires_at: lock.expires_at }
    }
}

/// Somebody came or went. It is in no log.
#[derive(Debug, Serialize)]
pub struct PresenceMessage<'a> {
    pub r#type: &'static str,
    room: &'a RoomId,
    participant: &'a Participant,
}

impl<'a> PresenceMessage<'a> {
    pub fn new(room: &'a RoomId, change: PresenceChange, participant: &'a Participant) -> Self {
        let r#type = match change {
            PresenceChange::Joined => "ParticipantJoined",
            PresenceChange::Left => "ParticipantLeft",
        };
        Self { r#type, room, participant }
    }
}
