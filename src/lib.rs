//! doclock: real-time document locks.
//!
//! One idea: decide in Rust, arbitrate in SQL. What may happen to a document is one pure function
//! ([`locking::decide`]); who wins a race is settled by the database; concurrent requests share one transaction
//! ([`committer`]).
//!
//! The path of a request: [`http`] parses names into types, learns the caller from the token ([`auth`]) and submits
//! a command; the committer drains what is queued, storage loads what the batch needs, each command is decided on the
//! state the previous one left, changes and events are written, and after the commit, and only then, callers get
//! their answers.
//!
//! The path of a notice: the committer hands the events of each commit to the publisher of the [`live`], which writes them
//! to the bounded queue of everyone in the room; commits of other servers are found in the log ([`cluster`]). [`ws`] is
//! one socket's life, and how it gets into a room without gap or overlap. Who is in a room is known to the hub too, and told
//! between servers by [`live`].
//!
//! The path of time: [`clock`] never runs backwards; [`life`] notices outages and lets locks survive them; [`expiry`]
//! sends overdue locks through the committer; [`jobs`] clean up.
//!
//! Dependencies point one way: `http, ws, expiry, jobs -> committer -> hub, storage -> locking`. Only [`app`] knows everyone.

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
