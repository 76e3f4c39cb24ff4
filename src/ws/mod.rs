//! Live notices: `GET /ws`, `GET /ws/{room}`, `GET /ws?rooms=*`.
//!
//! 1. `connect` refuses a foreign Origin before the upgrade; everything else that is wrong is told by a close code,
//!    which pages can read. The handshake is actix-ws's.
//! 2. `decoder` reads frames and refuses them by their declared length, before anything is kept.
//! 3. `socket` is one socket's life: who it is, what it asks, whether it still answers; `task` is what it is busy with,
//!    `membership` its rooms.
//! 4. `join` brings it into a room without gap or overlap; from there on the hub puts ready frames into its outbox, and
//!    the writer of its thread writes them to its connection.
//!
//! A socket does what it is asked in order, one thing at a time; it never makes another one wait.

pub mod asyncapi;
pub mod commands;
pub mod connect;

pub use connect::Opening;
