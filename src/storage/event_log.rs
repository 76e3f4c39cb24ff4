//! Events as rows of the log, written by the homes of storage and read by everyone else.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{StorageError, entities::event, queries};
use crate::locking::{
    Activity, Ask, AskOutcome, DocumentKey, EndReason, Event, EventKind, EventName, Holder, HolderKind, Lock, Metadata,
    Span, Timestamp,
    names::{DocumentVersion, OwnerId, SessionId},
};

/// Which log it is, and its last sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub epoch: Uuid,
    pub sequence: i64,
}

/// Tells two events apart that have the same sequence in two histories of one log: they differ in lease or in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub lease_id: Uuid,
    pub at: Timestamp,
}

impl Mark {
    pub fn of(event: &Event) -> Self {
        Self { lease_id: event.lock.lease_id, at: event.at }
    }
}

/// A head as this process has seen it, with the mark of the event there. The mark is `None` if the log is empty or the
/// event has been pruned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub head: Head,
    pub mark: Option<Mark>,
}

/// What this process has seen of the log. A log only grows: one that is behind, or has another event where this process
/// knows one, is a restored or failed-over database, whose tokens would be given out a second time.
#[derive(Debug, Default)]
pub(super) struct KnownHead(Mutex<Option<Known>>);

impl KnownHead {
    /// Returns the known head, to be compared with a head that is read after this call. To compare with the head known
    /// after the read would be wrong: another writer may have moved it meanwhile.
    pub fn before(&self) -> Option<Known> {
        *self.0.lock()
    }

    /// Takes a head that was read. Fails if the log has lost what `before` knows of it: `there` is the event that was
    /// found at the sequence of `before`.
    pub fn sees(&self, found: Known, before: Option<Known>, there: Option<Mark>) -> Result<(), StorageError> {
        if let Some(known) = before {
            let is_behind = found.head.epoch != known.head.epoch || found.head.sequence < known.head.sequence;
            // If there is no event, it was pruned: a restored log that has grown past the sequence has one there.
            let is_another = known.mark.is_some() && there.is_some() && known.mark != there;
            if is_behind || is_another {
                let other = if is_behind { "" } else { ", with another event there" };
                let (known, found) = (format!("{}{other}", known.head), found.head.to_string());
                return Err(StorageError::Rewound { known, found });
            }
        }
        self.goes_on(found);
        Ok(())
    }

    /// Takes what this process has committed: the last event and its sequence.
    pub fn wrote(&self, sequence: i64, last: &Event) {
        let epoch = self.0.lock().map(|known| known.head.epoch);
        if let Some(epoch) = epoch {
            self.goes_on(Known { head: Head { epoch, sequence }, mark: Some(Mark::of(last)) });
        }
    }

    fn goes_on(&self, found: Known) {
        let mut known = self.0.lock();
        if known.is_none_or(|known| known.head.sequence < found.head.sequence) {
            *known = Some(found);
        }
    }
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.epoch, self.sequence)
    }
}

/// What an event says beyond the columns that queries look at.
#[derive(Debug, Serialize, Deserialize)]
pub struct Body {
    pub name: Option<String>,
    pub hold: u32,
    pub acquired_at: i64,
    pub expires_at: i64,
    pub ttl_seconds: u32,
    pub metadata: Option<Metadata>,
    pub document_version: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: HolderKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskBody>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What an event says of an ask.
#[derive(Debug, Serialize, Deserialize)]
pub struct AskBody {
    pub id: Uuid,
    pub holder: String,
    pub owner: String,
    pub session: Option<String>,
    pub name: Option<String>,
    pub kind: HolderKind,
    pub message: Option<String>,
    pub asked_at: i64,
    pub expires_at: i64,
    pub lease_id: Uuid,
    pub outcome: Option<String>,
    pub answer: Option<String>,
}

impl AskBody {
    fn of(ask: &Ask) -> Self {
        Self {
            id: ask.id,
            holder: ask.holder.to_string(),
            owner: ask.asker.owner.to_string(),
            session: ask.asker.session.as_ref().map(ToString::to_string),
            name: ask.asker.name.as_deref().map(Into::into),
            kind: ask.asker.kind,
            message: ask.message.as_deref().map(Into::into),
            asked_at: ask.asked_at.millis(),
            expires_at: ask.expires_at.millis(),
            lease_id: ask.lease_id,
            outcome: ask.outcome.map(|outcome| outcome.name().to_owned()),
            answer: ask.answer.as_deref().map(Into::into),
        }
    }

    fn into_ask(self, key: DocumentKey) -> Ask {
        Ask {
            id: self.id,
            key,
            lease_id: self.lease_id,
            holder: OwnerId::from_stored(self.holder),
            asker: Holder {
                owner: OwnerId::from_stored(self.owner),
                session: self.session.map(SessionId::from_stored),
                name: self.name.map(Into::into),
                kind: self.kind,
            },
            message: self.message.map(Into::into),
            asked_at: Timestamp::from_millis(self.asked_at),
            expires_at: Timestamp::from_millis(self.expires_at),
            outcome: self.outcome.as_deref().and_then(AskOutcome::from_name),
            answer: self.answer.map(Into::into),
        }
    }
}

/// The columns that depend on the kind of event, and the body as text.
#[derive(Debug)]
pub struct Row<'e> {
    pub reason: Option<&'static str>,
    pub by: Option<&'e str>,
    pub note: Option<&'e str>,
    /// The one who is told of it, if it is not the whole room.
    pub recipient: Option<&'e str>,
    pub held_ms: Option<i64>,
    pub waited_ms: Option<i64>,
    /// When the lock ended, which may be before that was noticed.
    pub ended_at: Option<i64>,
    pub body: String,
}

impl<'e> Row<'e> {
    pub fn of(event: &'e Event) -> Self {
        let lock = &event.lock;
        let body = Body {
            name: lock.holder.name.as_deref().map(Into::into),
            hold: lock.hold,
            acquired_at: lock.acquired_at.millis(),
            expires_at: lock.expires_at.millis(),
            ttl_seconds: lock.ttl_seconds,
            metadata: lock.metadata.clone(),
            document_version: lock.document_version.as_ref().map(|version| version.as_str().to_owned()),
            kind: lock.holder.kind,
            ask: match &event.kind {
                EventKind::Locked { .. } | EventKind::Unlocked { .. } | EventKind::Saved => None,
                EventKind::HandoverAsked(ask) | EventKind::HandoverAnswered(ask) => Some(AskBody::of(ask)),
            },
        };
        let plain = Self {
            reason: None,
            by: None,
            note: None,
            recipient: event.recipient().map(|recipient| recipient.as_str()),
            held_ms: None,
            waited_ms: None,
            ended_at: None,
            body: serde_json::to_string(&body).unwrap_or_default(),
        };
        match &event.kind {
            EventKind::Locked { waited_ms } => Self { waited_ms: *waited_ms, ..plain },
            EventKind::Unlocked { reason, by, note } => Self {
                reason: Some(reason.name()),
                by: by.as_ref().map(|by| by.as_str()),
                note: note.as_deref(),
                held_ms: Some(event.at.millis_since(lock.acquired_at)),
                ended_at: Some(lock.ended_at(event.at).millis()),
                ..plain
            },
            EventKind::Saved => Self { by: Some(lock.holder.owner.as_str()), ..plain },
            EventKind::HandoverAsked(ask) => {
                Self { by: Some(ask.asker.owner.as_str()), note: ask.message.as_deref(), ..plain }
            }
            EventKind::HandoverAnswered(ask) => {
                let by = match ask.outcome {
                    Some(AskOutcome::Granted | AskOutcome::Denied) => Some(ask.holder.as_str()),
                    Some(AskOutcome::Cancelled) => Some(ask.asker.owner.as_str()),
                    Some(AskOutcome::Unanswered | AskOutcome::Moot) | None => None,
                };
                Self { by, note: ask.answer.as_deref(), ..plain }
            }
        }
    }
}

/// An event read back.
#[derive(Debug)]
pub struct Logged {
    pub sequence: i64,
    pub tenant: String,
    pub at: Timestamp,
    pub room: String,
    pub document: String,
    pub name: EventName,
    pub lease_id: Option<Uuid>,
    pub fencing_token: i64,
    pub owner_id: String,
    pub session_id: Option<String>,
    pub reason: Option<EndReason>,
    pub by: Option<String>,
    pub note: Option<String>,
    pub held_ms: Option<i64>,
    pub waited_ms: Option<i64>,
    pub recipient: Option<String>,
    pub body: Body,
}

/// A row of the log that this version cannot read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("event {sequence} is of the unknown kind `{kind}`")]
    Kind { sequence: i64, kind: String },
    #[error("event {sequence} is of kind {} and has no reason that is known", .name.as_str())]
    Reason { sequence: i64, name: EventName },
    #[error("event {sequence} is of kind {} and says nothing of its ask", .name.as_str())]
    Ask { sequence: i64, name: EventName },
    #[error("event {sequence}: {reason}")]
    Body { sequence: i64, reason: serde_json::Error },
}

impl From<Unreadable> for StorageError {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unavailable(unreadable.to_string())
    }
}

impl TryFrom<event::Model> for Logged {
    type Error = Unreadable;

    fn try_from(row: event::Model) -> Result<Self, Unreadable> {
        let sequence = row.sequence;
        let Some(name) = EventName::parse(&row.kind) else { return Err(Unreadable::Kind { sequence, kind: row.kind }) };
        Ok(Self {
            sequence,
            tenant: row.tenant,
            at: Timestamp::from_millis(row.at),
            room: row.room,
            document: row.document,
            name,
            lease_id: row.lease_id,
            fencing_token: row.fencing_token,
            owner_id: row.owner_id,
            session_id: row.session_id,
            reason: row.reason.as_deref().and_then(EndReason::from_name),
            by: row.by,
            note: row.note,
            held_ms: row.held_ms,
            waited_ms: row.waited_ms,
            recipient: row.recipient,
            body: serde_json::from_str(&row.body).map_err(|reason| Unreadable::Body { sequence, reason })?,
        })
    }
}

impl Logged {
    /// Returns the event as it was appended, except for what no notice tells: the lock's slot and due time.
    pub fn into_event(self) -> Result<Event, Unreadable> {
        let (sequence, name) = (self.sequence, self.name);
        let key = queries::key(&self.tenant, &self.room, &self.document);
        let ask = self.body.ask.map(|ask| Box::new(ask.into_ask(key.clone())));
        let ask = ask.ok_or(Unreadable::Ask { sequence, name });
        let kind = match name {
            EventName::DocumentLocked => EventKind::Locked { waited_ms: self.waited_ms },
            EventName::DocumentSaved => EventKind::Saved,
            EventName::HandoverAsked => EventKind::HandoverAsked(ask?),
            EventName::HandoverAnswered => EventKind::HandoverAnswered(ask?),
            EventName::DocumentUnlocked => EventKind::Unlocked {
                reason: self.reason.ok_or(Unreadable::Reason { sequence, name })?,
                by: self.by.map(OwnerId::from_stored),
                note: self.note.map(Into::into),
            },
        };
        let expires_at = Timestamp::from_millis(self.body.expires_at);
        let lock = Lock {
            key,
            slot: 0,
            lease_id: self.lease_id.unwrap_or_default(),
            hold: self.body.hold,
            fencing_token: self.fencing_token,
            holder: Holder {
                owner: OwnerId::from_stored(self.owner_id),
                session: self.session_id.map(SessionId::from_stored),
                name: self.body.name.map(Into::into),
                kind: self.body.kind,
            },
            acquired_at: Timestamp::from_millis(self.body.acquired_at),
            expires_at,
            due_at: expires_at,
            ttl_seconds: self.body.ttl_seconds,
            metadata: self.body.metadata,
            document_version: self.body.document_version.map(DocumentVersion::from_stored),
            span: Span::Ttl,
            activity: Activity::Active,
            active_at: self.at,
            is_wanted: false,
            extend_ids: Vec::new(),
        };
        Ok(Event { at: self.at, lock, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(epoch: u128, sequence: i64, lease: u128) -> Known {
        let mark = Mark { lease_id: Uuid::from_u128(lease), at: Timestamp::from_millis(sequence) };
        Known { head: Head { epoch: Uuid::from_u128(epoch), sequence }, mark: Some(mark) }
    }

    #[test]
    fn a_log_that_is_behind_or_has_another_event_is_rewound() {
        let head = KnownHead::default();
        head.sees(known(1, 10, 5), None, None).unwrap();
        let before = head.before();
        let there = known(1, 10, 5).mark;
        assert!(head.sees(known(2, 10, 5), before, there).is_err(), "another epoch");
        assert!(head.sees(known(1, 9, 4), before, None).is_err(), "behind");
        assert!(head.sees(known(1, 11, 7), before, known(1, 10, 6).mark).is_err(), "another event");
        head.sees(known(1, 11, 6), before, there).unwrap();
        assert_eq!(head.before().map(|known| known.head.sequence), Some(11));
        head.sees(known(1, 12, 7), head.before(), None).expect("what is known was pruned");
    }

    fn row(kind: &str, reason: Option<&str>) -> event::Model {
        event::Model {
            sequence: 7,
            tenant: "default".to_owned(),
            room: "room".to_owned(),
            document: "main".to_owned(),
            at: 0,
            kind: kind.to_owned(),
            lease_id: None,
            fencing_token: 1,
            owner_id: "alice".to_owned(),
            session_id: None,
            reason: reason.map(ToOwned::to_owned),
            by: None,
            note: None,
            recipient: None,
            held_ms: None,
            waited_ms: None,
            body: r#"{"name":null,"hold":1,"acquired_at":0,"expires_at":0,"ttl_seconds":30,"metadata":null,
                "document_version":null}"#
                .to_owned(),
        }
    }

    #[test]
    fn a_row_of_an_unknown_kind_or_an_end_without_reason_is_an_error_and_never_a_lock() {
        let read = |row| Logged::try_from(row).and_then(Logged::into_event).map(|event| event.kind.name());
        assert_eq!(read(row("DocumentLocked", None)).unwrap(), EventName::DocumentLocked);
        assert_eq!(read(row("DocumentUnlocked", Some("expired"))).unwrap(), EventName::DocumentUnlocked);
        assert!(matches!(read(row("DocumentSung", None)), Err(Unreadable::Kind { sequence: 7, .. })));
        assert!(matches!(read(row("DocumentUnlocked", None)), Err(Unreadable::Reason { sequence: 7, .. })));
        assert!(matches!(read(row("DocumentUnlocked", Some("bored"))), Err(Unreadable::Reason { .. })));
    }
}
