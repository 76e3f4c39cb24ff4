//! doclock: real-time document locks.
//!
//! One idea: decide in Rust, arbitrate in SQL. What may happen to a document is one pure function
//! ([`locking::decide`]); who wins a race is settled by the database; concurrent requests share one transaction
//! ([`committer`]).
//!
//! The path of a request: a transport ([`http`], [`ws`]) turns bytes into a caller ([`auth`]) and a request type;
//! the verb in [`calls`] validates it, builds a command and submits it; the committer drains what is queued, storage loads
//! what the batch needs, each command is decided on the state the previous one left, changes and events are written,
//! and after the commit, and only then, callers get their answers.
//!
//! The path of a notice: the committer hands the events of each commit to the publisher in [`live`], which puts them into
//! the bounded outbox of everyone in the room; commits of other servers are found in the log
//! ([`storage::Tail`] wakes it). How a newcomer
//! gets into a room without gap or overlap, one socket's life, and who is in a room are in [`live`] too.
//!
//! The path of a wait: a ticket is a command too; the transaction that frees a document grants it to the first ticket.
//! [`lines`] knows who waits on this server, keeps their tickets alive and passes the grant on; [`keeper`] extends the locks
//! of sockets that answer pings. docs/architecture.md has all of these paths, step by step.
//!
//! The path of time ([`time`]): the clock never runs backwards; liveness knows outages, and where a lock ends that has lived
//! through one; workers ask the committer for signs of life, expiry and pruning.
//!
//! Back ends have [`client`], which is all there is without the feature `server`.
//!
//! Dependencies point one way: `http, ws -> calls, live -> committer -> storage -> locking, time::{clock, liveness}`; `auth` is below `calls` and
//! above `locking`. [`DEPENDENCIES`] is the whole list, and a test keeps to it. Only [`app`] knows everyone.

pub mod client;

#[cfg(feature = "server")]
pub mod app;
#[cfg(feature = "server")]
pub mod auth;
#[cfg(feature = "server")]
pub mod calls;
#[cfg(feature = "server")]
pub mod committer;
#[cfg(feature = "server")]
pub mod contention;
#[cfg(feature = "server")]
pub mod demo;
#[cfg(feature = "server")]
pub mod http;
#[cfg(feature = "server")]
pub mod keeper;
#[cfg(feature = "server")]
pub mod lines;
#[cfg(feature = "server")]
pub mod live;
#[cfg(feature = "server")]
pub mod locking;
#[cfg(feature = "server")]
pub mod logging;
#[cfg(feature = "server")]
pub mod metrics;
#[cfg(feature = "server")]
pub mod settings;
#[cfg(feature = "server")]
pub mod storage;
#[cfg(feature = "server")]
pub mod time;
#[cfg(feature = "server")]
pub mod ws;

/// What each module may import of the others; `app` may import all. The rooms of `time` stand on different floors, so each
/// counts by itself. `tests/architecture.rs` reads every path in `src/`
/// and fails on one that is not listed here. A change that needs an arrow up probably belongs one level down.
pub const DEPENDENCIES: &[(&str, &[&str])] = &[
    // Transports: none knows another.
    ("http", &["auth", "calls", "demo", "time::clock", "live", "locking", "metrics", "settings"]),
    ("ws", &["auth", "calls", "lines", "live", "locking"]),
    // A back end of others, for visitors.
    ("demo", &["auth", "calls", "locking"]),
    // What can be asked, and rooms live. `live` shows locks and refuses as `calls` does, and not the other way round.
    ("live", &["auth", "calls", "time::clock", "committer", "keeper", "lines", "locking", "storage"]),
    ("calls", &["auth", "time::clock", "committer", "contention", "lines", "time::liveness", "locking", "storage"]),
    // What the server does for clients that wait, and for locks that are kept.
    ("lines", &["time::clock", "committer", "time::liveness", "locking", "storage"]),
    ("keeper", &["time::clock", "committer", "locking"]),
    // What happens because time passes.
    ("time::sweep", &["committer", "time::expiry", "metrics", "storage"]),
    ("time::expiry", &["time::clock", "committer", "time::liveness", "locking", "storage"]),
    ("time::heartbeat", &["time::clock", "committer"]),
    // The engine.
    ("committer", &["time::clock", "contention", "locking", "metrics", "storage"]),
    ("storage", &["auth", "time::clock", "time::liveness", "locking", "settings"]),
    ("contention", &["auth", "locking"]),
    ("auth", &["locking", "settings"]),
    ("time::liveness", &["locking"]),
    ("time::clock", &["locking"]),
    ("locking", &[]),
    // For back ends, by themselves: a library of its own.
    ("client", &[]),
    // For those who run it.
    ("logging", &["settings"]),
    ("metrics", &[]),
    ("settings", &[]),
];
