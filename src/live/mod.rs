//! Rooms live: who hears what, over which connection, and who is there. Used by every transport, knowing none.
//!
//! 1. The committer hands the events of each commit, with their sequences, to the [`Publisher`], which alone owns the
//!    lists of `rooms`.
//! 2. An event is encoded once per wire format ([`Wire`]), however many hear it.
//! 3. Each subscriber has an [`Outbox`], which takes a notice at once or not at all. A full one reads on from the log at
//!    its own pace or is closed, and nobody else waits for it.
//! 4. A newcomer reads its room, is told what it read, and goes on from there (`subscribe`): it gets what came since from
//!    the latest notices, or from the log if those do not reach back far enough.
//! 5. A participant is known by its [`PresenceGuard`](presence::PresenceGuard); the others are told of it if there is
//!    room in their outbox (`presence`).
//! 6. A WebSocket's life is the same for every protocol (`socket`); what its messages mean is said by a
//!    [`Protocol`](socket::Protocol), in that protocol's own folder. Tickets, grants and kept locks of a socket end with it
//!    (`socket::holdings`).
//!
//! Invariant: the sequences a subscriber is told only grow. What is at or before the sequence it knows is left out, so a
//! snapshot, a replay and the live stream join without gap or overlap. If a newcomer were listed before it has
//! been told what it read, it would hear of a change before it knows what was changed.

mod admission;
mod end;
mod hub;
pub mod messages;
mod outbox;
pub mod passes;
pub mod presence;
mod publisher;
mod rooms;
pub mod socket;
pub mod subscribe;
pub mod upgrade;
mod wire;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    calls::{Code, Problem},
    keeper::Keeper,
    lines::Lines,
    storage::Queries,
    time::clock::Clock,
};
pub use admission::{Admission, Place, TooMany};
pub use end::{Close, End};
pub use hub::{Hub, NotJoined, Scope, Seat, Subscriber};
pub use outbox::{Outbox, OutboxStream, Refused};
use passes::StreamPasses;
pub use publisher::Publisher;
pub use wire::Wire;

/// What sockets and event streams work with. There is one, made by `app`.
#[derive(Debug)]
pub struct Live {
    pub hub: Hub,
    pub queries: Queries,
    pub clock: Clock,
    pub admission: Arc<Admission>,
    pub passes: StreamPasses,
    pub lines: Lines,
    pub keeper: Keeper,
    pub rooms_per_socket: u32,
    /// Of one socket. 0: no limit.
    pub frames_per_second: u32,
    /// No other server is there to answer while this one stops.
    pub is_alone: bool,
    is_draining: AtomicBool,
    /// Once it is set, sockets close at a moment of their own within this time.
    drain: watch::Sender<Option<Duration>>,
}

impl Live {
    pub fn new(
        hub: Hub,
        queries: Queries,
        clock: Clock,
        admission: Arc<Admission>,
        passes: StreamPasses,
        (lines, keeper): (Lines, Keeper),
        (rooms_per_socket, frames_per_second): (u32, u32),
    ) -> Self {
        Self {
            hub,
            queries,
            clock,
            admission,
            passes,
            lines,
            keeper,
            rooms_per_socket,
            frames_per_second,
            is_alone: false,
            is_draining: AtomicBool::new(false),
            drain: watch::Sender::new(None),
        }
    }

    /// Nobody new is let in from here on.
    pub fn begin_to_drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Has sockets and streams end within this time.
    pub fn end_within(&self, window: Duration) {
        self.drain.send_replace(Some(window));
    }

    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Fails if the server is stopping.
    pub fn refuse_if_draining(&self) -> Result<(), Problem> {
        if self.is_draining() {
            return Err(Problem::new(Code::Draining, "The server is stopping.").retry_after_ms(1000));
        }
        Ok(())
    }

    /// Tells when sockets and streams have to end.
    pub fn drains(&self) -> watch::Receiver<Option<Duration>> {
        self.drain.subscribe()
    }
}
