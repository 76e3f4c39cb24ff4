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
//! the bounded outbox of everyone in the room; commits of other servers are found in the log ([`cluster`]). How a newcomer
//! gets into a room without gap or overlap, one socket's life, and who is in a room are in [`live`] too.
//!
//! The path of time: [`clock`] never runs backwards; [`life`] notices outages and lets locks survive them; [`expiry`]
//! sends overdue locks through the committer; [`jobs`] clean up.
//!
//! Dependencies point one way: `http, ws -> calls, live -> committer -> storage -> locking`; `auth` is below `calls` and
//! above `locking`. [`DEPENDENCIES`] is the whole list, and a test keeps to it. Only [`app`] knows everyone.

pub mod app;
pub mod auth;
pub mod calls;
pub mod clock;
pub mod cluster;
pub mod committer;
pub mod contention;
pub mod expiry;
pub mod http;
pub mod jobs;
pub mod life;
pub mod live;
pub mod locking;
pub mod logging;
pub mod metrics;
pub mod settings;
pub mod storage;
pub mod ws;

/// What each module may import of the others; `app` may import all. `tests/architecture.rs` reads every path in `src/`
/// and fails on one that is not listed here. A change that needs an arrow up probably belongs one level down.
pub const DEPENDENCIES: &[(&str, &[&str])] = &[
    // Transports: none knows another.
    ("http", &["auth", "calls", "clock", "live", "locking", "metrics", "settings"]),
    ("ws", &["auth", "calls", "live", "locking"]),
    // What can be asked, and rooms live. `live` shows locks and refuses as `calls` does, and not the other way round.
    ("live", &["auth", "calls", "clock", "cluster", "committer", "locking", "storage"]),
    ("calls", &["auth", "clock", "committer", "contention", "life", "locking", "storage"]),
    // What time does.
    ("jobs", &["committer", "expiry", "metrics", "storage"]),
    ("expiry", &["clock", "committer", "life", "locking", "storage"]),
    ("life", &["clock", "committer", "locking"]),
    // The engine.
    ("committer", &["clock", "contention", "locking", "metrics", "storage"]),
    // `life` closes a circle: storage -> life -> committer -> storage. It goes when liveness moves below storage, into
    // `time/`, and its workers above the committer.
    ("storage", &["auth", "clock", "life", "locking", "settings"]),
    ("cluster", &[]),
    ("contention", &["auth", "locking"]),
    ("auth", &["locking", "settings"]),
    ("clock", &["locking"]),
    ("locking", &[]),
    // For those who run it.
    ("logging", &["settings"]),
    ("metrics", &[]),
    ("settings", &[]),
];

/// The one edge that closes a circle.
pub const KNOWN_CIRCLE: (&str, &str) = ("storage", "life");
