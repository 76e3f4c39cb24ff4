//! The WebSocket: `GET /ws`, `GET /ws/{room}`, `GET /ws?rooms=*`, subprotocol `doclock.v1`.
//!
//! 1. `handshake` refuses a foreign Origin before the upgrade; everything else that is wrong is told by a close code,
//!    which pages can read. It leaves an [`Upgrade`](crate::live::upgrade::Upgrade) in its answer.
//! 2. [`crate::live::socket`] lives the socket's life: it reads frames, pings, closes, and keeps its places in rooms.
//! 3. `requests` parses what a client says, once; `protocol` does it: locks by the verbs of `calls`, rooms by the
//!    socket's session; `replies` are the answers.
//!
//! A socket does what it is asked in order, one thing at a time; it never makes another one wait. An `auth` message alone
//! overtakes: the old token may end meanwhile.

pub mod asyncapi;
mod commands;
mod handshake;
mod protocol;
mod replies;
mod requests;

use std::sync::Arc;

pub use handshake::{connect, connect_room};

use crate::{auth::Origins, calls::Calls, live::Live};

/// The subprotocol.
pub const PROTOCOL: &str = "doclock.v1";

/// What handshakes work with.
#[derive(Debug)]
pub struct Endpoint {
    pub calls: Arc<Calls>,
    pub live: Arc<Live>,
    pub origins: Origins,
}
