//! The rules of locking, and nothing else: no async, no SQL, no HTTP, no clock.
//!
//! 1. The edge parses what it was given into [`names`] and builds a [`Command`].
//! 2. Storage loads the [`State`] the command needs (its documents, their locks, the memo of its request id,
//!    how earlier locks ended) under row locks, and reads the time.
//! 3. [`decide`] says what happens: an [`Outcome`] for the caller, [`Change`]s to the rows, [`Event`]s for the log. The
//!    state is brought up to date with it, and the next command of the batch is decided on that.
//!
//! Invariants: an overdue lock never refuses anyone; a fencing token is one above the document's last; no slot of a document
//! is free while somebody waits in its line; a command whose outcome is a refusal changes nothing, except that overdue locks
//! it met are expired and their slots given to the line.

mod command;
mod decide;
mod event;
mod line;
mod lock;
pub mod names;
mod outcome;
mod state;
#[cfg(test)]
mod testing;
mod time;

pub use command::{
    Answer, AnswerAsk, AskForLock, AskNeeded, CancelAsk, Command, Expire, Extend, Fingerprint, ForceUnlock, LeaveLine,
    LockDocuments, Named, Needs, Release, Renew, Request, ShortCut, TakeOver, TicketName, TicketNeeded, Unlock, Wanted,
};
pub use decide::{Decision, NotRead, decide};
pub use event::{EndReason, Event, EventKind, EventName};
pub use line::{ASK_MS, Ask, AskOutcome, CLAIM_MS, Line, RING_MS, TICKET_MS, Ticket};
pub use lock::{Activity, DocumentKey, Holder, HolderKind, LeaseId, Lock, Metadata, MetadataError, Span};
pub use outcome::{Done, Failed, Outcome, Refusal};
pub use state::{Change, DocumentRow, Ending, Lookup, Memo, MemoKey, MemoLock, Policy, State, Which};
pub use time::Timestamp;
