//! Who hears what: rooms, subscribers, and a bounded queue for each.
//!
//! 1. The committer hands the events of each commit, with their sequences, to the [`Publisher`], which alone owns the
//!    lists of `rooms`: publishing takes no lock that anyone could hold, but for a queue's own moment.
//! 2. An event becomes a [`Notice`]: bytes ready for the wire, encoded once per form however many hear it.
//! 3. Each subscriber has an [`Outbox`], which takes a notice at once or not at all. One that is full is left to read the
//!    log at its own pace or is closed, and nobody else waits for it.
//! 4. A newcomer says up to which sequence it knows its room; it gets what came after from the latest notices, and
//!    everything from then on. If those do not reach back far enough it reads the log and asks again.
//! 5. Who is in a room is known by its [`Present`]; those in it are told of others who come and go, if there is room in
//!    their outbox (`presence`).
//!
//! Sequences of a subscriber only grow: notices at or before the one it knows are left out.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::{Elsewhere, Outbox, Participants, RoomKey, Sighting, Which, Wire};
use crate::{
    auth::{Caller, Role, RoomGlobs},
    locking::names::{OwnerId, RoomId, TenantId},
};

pub(super) type SubscriberId = u64;

#[derive(Debug)]
pub struct Subscriber {
    /// Of each place it takes.
    pub(super) id: SubscriberId,
    pub outbox: Arc<Outbox>,
    pub owner: OwnerId,
    pub is_admin: bool,
    pub wire: Wire,
    /// What it knows already.
    pub after: i64,
    /// Whether it wants to hear of extended locks too.
    pub extensions: bool,
}

impl Subscriber {
    pub fn new(outbox: Arc<Outbox>, caller: &Caller, wire: Wire, after: i64, extensions: bool) -> Self {
        let (owner, is_admin) = (caller.owner.clone(), caller.role == Role::Admin);
        Self { id: 0, outbox, owner, is_admin, wire, after, extensions }
    }
}

#[derive(Debug, Clone)]
pub enum Scope {
    Room(RoomId),
    /// Every room of the tenant that these allow.
    Rooms(RoomGlobs),
}

/// A subscriber's place in a room, or in all of them.
pub(super) type Place = (Scope, Subscriber);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    Live,
    TooOld,
}

#[derive(Debug)]
pub enum Entered {
    /// From the sequence on that it knows, as long as it keeps these.
    Live(Vec<Seat>),
    /// What it knows is too long ago, or its outbox has no room for what came since.
    TooOld,
}

/// A place in the lists: who drops it hears nothing any more, once that has settled.
#[derive(Debug)]
pub struct Seat {
    hub: Hub,
    tenant: TenantId,
    scope: Scope,
    id: SubscriberId,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Self { hub, tenant, scope, id } = self;
        // If it cannot be sent, there is nothing to leave.
        let _ = hub.0.requests.send(Request::Leave { tenant: tenant.clone(), scope: scope.clone(), id: *id });
    }
}

#[derive(Debug)]
pub(super) enum Request {
    /// All of them or none, at one moment of the log.
    Join {
        tenant: TenantId,
        places: Vec<Place>,
        /// Whom the newcomer was told to be there, if it was: it hears who has come and gone since.
        told: Option<Participants>,
        reply: oneshot::Sender<Joined>,
    },
    Leave {
        tenant: TenantId,
        scope: Scope,
        id: SubscriberId,
    },
    Arrive {
        room: RoomKey,
        owner: OwnerId,
        name: Option<Arc<str>>,
        reply: oneshot::Sender<Participants>,
    },
    Depart {
        room: RoomKey,
        owner: OwnerId,
    },
    Sightings {
        which: Which,
        reply: oneshot::Sender<Vec<Sighting>>,
    },
    Heard(Elsewhere),
    /// Answered when everything before it has been done.
    Settle(oneshot::Sender<()>),
}

/// The handle.
#[derive(Debug, Clone)]
pub struct Hub(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub epoch: Uuid,
    pub requests: mpsc::UnboundedSender<Request>,
    pub next_id: AtomicU64,
    /// Up to where everything has been published.
    pub watermark: AtomicI64,
}

impl Hub {
    pub fn epoch(&self) -> Uuid {
        self.0.epoch
    }

    pub fn watermark(&self) -> i64 {
        self.0.watermark.load(Ordering::Acquire)
    }

    /// The places of one outbox; seats come in their order. Answers nothing if the publisher has ended.
    pub async fn join(
        &self,
        tenant: &TenantId,
        mut places: Vec<(Scope, Subscriber)>,
        told: Option<Participants>,
    ) -> Option<Entered> {
        let (reply, joined) = oneshot::channel();
        // Before they are taken: should nobody wait for the answer, they are left again.
        let seats = places.iter_mut().map(|(scope, subscriber)| {
            subscriber.id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
            Seat { hub: self.clone(), tenant: tenant.clone(), scope: scope.clone(), id: subscriber.id }
        });
        let seats = seats.collect();
        self.0.requests.send(Request::Join { tenant: tenant.clone(), places, told, reply }).ok()?;
        Some(match joined.await.ok()? {
            Joined::Live => Entered::Live(seats),
            Joined::TooOld => Entered::TooOld,
        })
    }

    /// Whoever has left hears nothing any more.
    pub async fn settle(&self) {
        let (reply, settled) = oneshot::channel();
        if self.0.requests.send(Request::Settle(reply)).is_ok() {
            let _ = settled.await;
        }
    }
}
