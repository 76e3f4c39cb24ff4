//! What admins of a tenant may ask: the lock table, the audit trail, figures, and the end of others' locks.

pub mod document;
pub mod events;
pub mod lock_table;
pub mod stats;
pub mod unlock_matching;
pub mod unlock_one;

use super::{Call, Note};
use crate::locking::{Command, DocumentKey, ForceUnlock, LeaseId};

/// The command that ends these locks in the caller's name.
fn force(call: &Call, targets: Vec<(DocumentKey, LeaseId)>, note: Option<&Note>) -> Command {
    Command::ForceUnlock(ForceUnlock { targets, by: call.caller.owner.clone(), note: note.map(Note::text) })
}
