//! What the log should tell.

use uuid::Uuid;

use super::Model;
use crate::locking::{AskOutcome, DocumentKey, EndReason, Event, EventKind, LeaseId, names::DocumentVersion};

#[derive(Debug, Clone, PartialEq)]
pub enum ToldEvent {
    Locked { lease: LeaseId, token: i64, waited_ms: Option<i64> },
    Unlocked { lease: LeaseId, reason: EndReason },
    Saved { lease: LeaseId, version: DocumentVersion },
    Asked { ask: Uuid, lease: LeaseId },
    Answered { ask: Uuid, outcome: AskOutcome },
}

impl ToldEvent {
    pub fn by(event: &Event) -> Self {
        let lease = event.lock.lease_id;
        match &event.kind {
            EventKind::Locked { waited_ms } => {
                Self::Locked { lease, token: event.lock.fencing_token, waited_ms: *waited_ms }
            }
            EventKind::Unlocked { reason, .. } => Self::Unlocked { lease, reason: *reason },
            EventKind::Saved => Self::Saved { lease, version: event.lock.document_version.clone().unwrap() },
            EventKind::HandoverAsked(ask) => Self::Asked { ask: ask.id, lease },
            EventKind::HandoverAnswered(ask) => Self::Answered { ask: ask.id, outcome: ask.outcome.unwrap() },
        }
    }
}

impl Model {
    /// Of one document: commands on several say nothing of the order between them.
    pub fn log_of(&self, key: &DocumentKey) -> Vec<ToldEvent> {
        self.log.iter().filter(|(of, _)| of == key).map(|(_, told)| told.clone()).collect()
    }
}
