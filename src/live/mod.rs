//! Rooms live: who hears what, over which connection, and who is there.

mod admission;
mod hub;
pub mod messages;
mod notice;
mod outbox;
mod passes;
mod presence;
mod publisher;
mod rooms;
pub mod socket;
pub mod subscribe;

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::http::Origins;
pub use admission::{Place, Sockets, TooMany};
pub use hub::{Entered, Hub, Scope, Seat, Subscriber};
pub use notice::{Encode, Form, Notice, Wire};
pub use outbox::{Outbox, OutboxBody, Refused};
pub use passes::{__path_issue, Tickets, issue};
pub use presence::{
    Change, Elsewhere, Exchange, Handle, LISTED, Participant, Participants, Presence, Present, RoomKey, Sighting, Which,
};
pub use publisher::{Announcer, Encoders, Extension, Publisher};

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
