//! What a room is told, as JSON with a `type`: the same for every transport that speaks doclock's own messages.

use serde::Serialize;
use serde_json::{Value, value::RawValue};
use uuid::Uuid;

use super::presence::{Participant, PresenceChange};
use crate::{
    calls::view::{HolderView, LockView},
    locking::{
        Activity, Ask, AskOutcome, DocumentKey, Event, EventKind, EventName, Lock, Timestamp,
        names::{DocumentId, DocumentVersion, MAX_NAME_BYTES, OwnerId, RoomId},
    },
    storage::soft_state::ActivitySaid,
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
        document_version: Option<&'a DocumentVersion>,
    },
    Saved {
        r#type: &'static str,
        sequence: i64,
        room: &'a RoomId,
        document: &'a DocumentId,
        fencing_token: i64,
        document_version: Option<&'a DocumentVersion>,
        by: &'a OwnerId,
    },
    HandoverAsked {
        r#type: &'static str,
        handover_id: Uuid,
        room: &'a RoomId,
        document: &'a DocumentId,
        by: HolderView,
        message: Option<&'a str>,
        expires_in_ms: i64,
    },
    HandoverAnswered {
        r#type: &'static str,
        handover_id: Uuid,
        room: &'a RoomId,
        document: &'a DocumentId,
        outcome: &'static str,
        message: Option<&'a str>,
    },
}

impl<'a> EventMessage<'a> {
    /// `sees_all`: with what only the lock's owner and admins may see.
    pub fn new(event: &'a Event, sequence: i64, sees_all: bool) -> Self {
        let DocumentKey { room, document, .. } = &event.lock.key;
        let r#type = event.kind.name().as_str();
        match &event.kind {
            EventKind::Locked { .. } => {
                let lock = LockView::shown(&event.lock, sees_all, event.at);
                Self::Locked { r#type, sequence, room, document, lock }
            }
            EventKind::Unlocked { reason, by, .. } => {
                let (fencing_token, reason, by) = (event.lock.fencing_token, reason.name(), by.as_ref());
                let document_version = event.lock.document_version.as_ref();
                Self::Unlocked { r#type, sequence, room, document, fencing_token, reason, by, document_version }
            }
            EventKind::Saved => Self::Saved {
                r#type,
                sequence,
                room,
                document,
                fencing_token: event.lock.fencing_token,
                document_version: event.lock.document_version.as_ref(),
                by: &event.lock.holder.owner,
            },
            EventKind::HandoverAsked(ask) => Self::asked(ask, event.at),
            EventKind::HandoverAnswered(ask) => Self::HandoverAnswered {
                r#type,
                handover_id: ask.id,
                room,
                document,
                outcome: ask.outcome.map_or("open", AskOutcome::name),
                message: ask.answer.as_deref(),
            },
        }
    }
}

impl<'a> EventMessage<'a> {
    /// An open ask, as its holder hears it at this moment.
    pub fn asked(ask: &'a Ask, now: Timestamp) -> Self {
        Self::HandoverAsked {
            r#type: EventName::HandoverAsked.as_str(),
            handover_id: ask.id,
            room: &ask.key.room,
            document: &ask.key.document,
            by: HolderView::shown(&ask.asker, false),
            message: ask.message.as_deref(),
            expires_in_ms: ask.expires_at.millis_since(now).max(0),
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

/// A holder has said something else of itself. It is in no log.
#[derive(Debug, Serialize)]
pub struct ActivityMessage<'a> {
    r#type: &'static str,
    room: &'a RoomId,
    document: &'a DocumentId,
    activity: Activity,
    active_at: Timestamp,
}

impl<'a> ActivityMessage<'a> {
    pub const TYPE: &'static str = "LockActivity";

    pub fn new(said: &'a ActivitySaid) -> Self {
        let DocumentKey { room, document, .. } = &said.key;
        Self { r#type: Self::TYPE, room, document, activity: said.activity, active_at: said.active_at }
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
