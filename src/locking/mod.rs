//! The rules of locking, and nothing else: no async, no SQL, no HTTP, no clock.
//!
//! 1. The edge parses what it was given into [`names`] and builds a [`Command`].
//! 2. Storage loads the [`State`] the command needs (its documents, their locks, the memo of its request id,
//!    how earlier locks ended) under row locks, and reads the time.
//! 3. [`decide`] says what happens: an [`Outcome`] for the caller, [`Change`]s to the rows, [`Event`]s for the log.
//! 4. [`State::apply`] brings the state up to date, and the next command of the batch is decided on it.
//!
//! Invariants: an overdue lock never refuses anyone; a fencing token is one above the document's last; a command
//! whose outcome is a refusal changes nothing, except that overdue locks it met are expired.

mod command;
mod decide;
mod event;
mod lock;
pub mod names;
mod outcome;
mod state;
#[cfg(test)]
mod testing;
mod time;

pub use command::{
    Command, Expire, Extend, Fingerprint, ForceUnlock, LockDocuments, Named, Needs, Release, Request, TakeOver, Unlock,
    Wanted,
};
pub use decide::{Decision, NotRead, decide};
pub use event::{EndReason, Event, EventKind, EventName};
pub use lock::{DocumentKey, Holder, LeaseId, Lock, Metadata, MetadataError};
pub use outcome::{Done, Failed, Outcome, Refusal};
pub use state::{Change, DocumentRow, Ending, Lookup, Memo, MemoKey, MemoLock, Policy, State, Which};
pub use time::Timestamp;
