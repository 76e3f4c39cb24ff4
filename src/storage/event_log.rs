//! Events as rows of the log, written by the homes of storage and read by everyone else.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{StorageError, entities::event, queries};
use crate::locking::{
    EndReason, Event, EventKind, Holder, Lock, Metadata, Timestamp,
    names::{DocumentVersion, OwnerId, SessionId},
};

/// A name for a new log.
pub(super) fn random_epoch() -> Uuid {
    let mut bytes = [0; 16];
    // Without entropy, the rest of the program (secrets, leases) could not work either.
    getrandom::fill(&mut bytes).unwrap_or_default();
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// Which log, and how far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub epoch: Uuid,
    pub sequence: i64,
}

/// An event by what no other one has: in two histories of one log, the same lease does not do the same at the same time.
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

/// A head as this process has seen it, with the event there; none at the beginning, or if it has been pruned.
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
    /// What a head that is read from now on has to be compared with: another writer may go on meanwhile.
    pub fn before(&self) -> Option<Known> {
        *self.0.lock()
    }

    /// `there` is the event that was found where `before` knows one.
    pub fn sees(&self, found: Known, before: Option<Known>, there: Option<Mark>) -> Result<(), StorageError> {
        if let Some(known) = before {
            let is_behind = found.head.epoch != known.head.epoch || found.head.sequence < known.head.sequence;
            // Should it be gone, it was pruned: a log that was put back and grew past it again has one.
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

    /// Committed by this process.
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
    pub metadata: Option<Box<RawValue>>,
    pub document_version: Option<String>,
}

/// The columns that depend on the kind of event, and the body as text.
#[derive(Debug)]
pub struct Row<'e> {
    pub reason: Option<&'static str>,
    pub by: Option<&'e str>,
    pub note: Option<&'e str>,
    pub held_ms: Option<i64>,
    /// When the lock ended, which may be before that was noticed.
    pub ended_at: Option<i64>,
    pub body: String,
}

impl<'e> Row<'e> {
    pub fn of(event: &'e Event) -> Self {
        let lock = &event.lock;
        let metadata = lock.metadata.as_ref().map(|metadata| metadata.as_str().to_owned());
        let body = Body {
            name: lock.holder.name.as_deref().map(Into::into),
            hold: lock.hold,
            acquired_at: lock.acquired_at.millis(),
            expires_at: lock.expires_at.millis(),
            ttl_seconds: lock.ttl_seconds,
            metadata: metadata.and_then(|text| RawValue::from_string(text).ok()),
            document_version: lock.document_version.as_ref().map(|version| version.as_str().to_owned()),
        };
        let body = serde_json::to_string(&body).unwrap_or_default();
        match &event.kind {
            EventKind::Locked => Self { reason: None, by: None, note: None, held_ms: None, ended_at: None, body },
            EventKind::Unlocked { reason, by, note } => Self {
                reason: Some(reason.name()),
                by: by.as_ref().map(|by| by.as_str()),
                note: note.as_deref(),
                held_ms: Some(event.at.millis_since(lock.acquired_at)),
                ended_at: Some(lock.ended_at(event.at).millis()),
                body,
            },
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
    pub kind: String,
    pub lease_id: Option<Uuid>,
    pub fencing_token: i64,
    pub owner_id: String,
    pub session_id: Option<String>,
    pub reason: Option<String>,
    pub by: Option<String>,
    pub note: Option<String>,
    pub held_ms: Option<i64>,
    pub body: Body,
}

impl TryFrom<event::Model> for Logged {
    type Error = serde_json::Error;

    fn try_from(row: event::Model) -> Result<Self, Self::Error> {
        Ok(Self {
            sequence: row.sequence,
            tenant: row.tenant,
            at: Timestamp::from_millis(row.at),
            room: row.room,
            document: row.document,
            kind: row.kind,
            lease_id: row.lease_id,
            fencing_token: row.fencing_token,
            owner_id: row.owner_id,
            session_id: row.session_id,
            reason: row.reason,
            by: row.by,
            note: row.note,
            held_ms: row.held_ms,
            body: serde_json::from_str(&row.body)?,
        })
    }
}

impl Logged {
    /// As it was when it was appended, but for what no notice tells: slot and due time.
    pub fn into_event(self) -> Event {
        let expires_at = Timestamp::from_millis(self.body.expires_at);
        let kind = match self.reason.as_deref().and_then(EndReason::from_name) {
            None => EventKind::Locked,
            Some(reason) => {
                EventKind::Unlocked { reason, by: self.by.map(OwnerId::from_stored), note: self.note.map(Into::into) }
            }
        };
        let lock = Lock {
            key: queries::key(&self.tenant, &self.room, &self.document),
            slot: 0,
            lease_id: self.lease_id.unwrap_or_default(),
            hold: self.body.hold,
            fencing_token: self.fencing_token,
            holder: Holder {
                owner: OwnerId::from_stored(self.owner_id),
                session: self.session_id.map(SessionId::from_stored),
                name: self.body.name.map(Into::into),
            },
            acquired_at: Timestamp::from_millis(self.body.acquired_at),
            expires_at,
            due_at: expires_at,
            ttl_seconds: self.body.ttl_seconds,
            metadata: self.body.metadata.map(|metadata| Metadata::from_stored(metadata.get())),
            document_version: self.body.document_version.map(DocumentVersion::from_stored),
            linger_ms: None,
            extend_ids: Vec::new(),
        };
        Event { at: self.at, lock, kind }
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
}
