//! Time, and what happens because it passes.
//!
//! Below storage, and pure but for the reading of clocks:
//! - [`clock`]: doclock's time, which never runs backwards. Nothing else may ask what time it is.
//! - [`liveness`]: what an outage is, and when a lock ends that has lived through one.
//!
//! Above the committer, workers that ask it for chores:
//! - [`heartbeat`]: signs of life.
//! - [`expiry`]: overdue locks that nobody asks for are ended within 250 ms.
//! - [`sweep`]: what is past its retention is deleted, on a schedule.
//!
//! Invariant: no answer depends on whether a worker has run. If expiry stands still, a command that meets an overdue
//! lock ends it; if signs of life stop, the next batch finds an outage and gives grace before it decides anything.

pub mod clock;
pub mod expiry;
pub mod heartbeat;
pub mod liveness;
pub mod sweep;
