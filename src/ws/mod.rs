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

mod admission;
pub mod asyncapi;
mod commands;
pub mod connect;
mod decoder;
pub mod frames;
pub mod join;
mod membership;
mod reader;
mod socket;
mod task;
pub mod wire;

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

pub use admission::{Place, Sockets};
pub use connect::Opening;
pub use wire::Close;

use crate::{
    http::{Origins, Tickets},
    hub::Hub,
};

/// The subprotocol.
pub const PROTOCOL: &str = "doclock.v1";
/// The largest message a client may send.
pub const MAX_MESSAGE: usize = 16 * 1024;

/// What sockets and event streams work with.
#[derive(Debug)]
pub struct Live {
    pub hub: Hub,
    pub sockets: Arc<Sockets>,
    pub tickets: Tickets,
    pub origins: Origins,
    pub rooms_per_socket: u32,
    /// Once it is set, sockets close at a moment of their own within this time.
    pub drain: watch::Sender<Option<Duration>>,
    /// The description of it all.
    pub asyncapi: String,
}
