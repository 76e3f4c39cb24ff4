//! The handle of the publisher: how sockets and streams get their places in rooms, and leave them.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::{
    Outbox, Wire,
    presence::{Elsewhere, Participants, RoomKey, Sighting, SightingsWanted},
};
use crate::{
    auth::{Caller, Role, RoomGlobs},
    locking::names::{OwnerId, RoomId, TenantId},
    storage::soft_state::ActivitySaid,
};

pub(super) type SubscriberId = u64;

/// One who hears a room, or all rooms it may see.
#[derive(Debug)]
pub struct Subscriber {
    /// Given by [`Hub::join`].
    pub(super) id: SubscriberId,
    pub scope: Scope,
    pub outbox: Arc<Outbox>,
    pub owner: OwnerId,
    pub is_admin: bool,
    pub wire: &'static Wire,
    /// The last sequence it knows: it is told what comes after.
    pub after: i64,
    /// Whether it wants to hear of extended locks too.
    pub extensions: bool,
}

impl Subscriber {
    pub fn new(
        scope: Scope,
        outbox: Arc<Outbox>,
        caller: &Caller,
        wire: &'static Wire,
        after: i64,
        extensions: bool,
    ) -> Self {
        let (owner, is_admin) = (caller.owner.clone(), caller.role == Role::Admin);
        Self { id: 0, scope, outbox, owner, is_admin, wire, after, extensions }
    }
}

#[derive(Debug, Clone)]
pub enum Scope {
    Room(RoomId),
    /// Every room of the tenant that these allow.
    Rooms(RoomGlobs),
}

impl Scope {
    pub(super) fn includes(&self, room: &RoomId) -> bool {
        match self {
            Self::Room(own) => own == room,
            Self::Rooms(globs) => globs.allow(room),
        }
    }
}

/// Why a subscriber has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotJoined {
    /// What it knows is too long ago, or its outbox has no room for what came since.
    TooOld,
    /// The publisher has ended.
    Stopped,
}

/// Subscription guard. Dropping it unsubscribes; [`Hub::settle`] waits until that has taken effect.
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
        subscribers: Vec<Subscriber>,
        /// The list of participants the newcomer was told, if it was: it hears who has come and gone since.
        told: Option<Participants>,
        reply: oneshot::Sender<Result<(), NotJoined>>,
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
        wanted: SightingsWanted,
        reply: oneshot::Sender<Vec<Sighting>>,
    },
    Heard(Elsewhere),
    /// What holders have said to other servers.
    HeardActivity(Vec<ActivitySaid>),
    /// What other servers have to be told of that.
    UntoldActivity(oneshot::Sender<Vec<ActivitySaid>>),
    /// Answered when everything before it has been done.
    Settle(oneshot::Sender<()>),
}

#[derive(Debug, Clone)]
pub struct Hub(pub(super) Arc<HubState>);

#[derive(Debug)]
pub(super) struct HubState {
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

    /// Gives places to the subscribers of one outbox, all or none; seats come in their order. From here on each is told
    /// what comes after the sequence it knows, as long as its seat is kept.
    pub async fn join(
        &self,
        tenant: &TenantId,
        mut subscribers: Vec<Subscriber>,
        told: Option<Participants>,
    ) -> Result<Vec<Seat>, NotJoined> {
        let (reply, joined) = oneshot::channel();
        // Before they are taken: should nobody wait for the answer, they are left again.
        let seats = subscribers.iter_mut().map(|subscriber| {
            subscriber.id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
            Seat { hub: self.clone(), tenant: tenant.clone(), scope: subscriber.scope.clone(), id: subscriber.id }
        });
        let seats = seats.collect();
        let request = Request::Join { tenant: tenant.clone(), subscribers, told, reply };
        self.0.requests.send(request).map_err(|_| NotJoined::Stopped)?;
        joined.await.unwrap_or(Err(NotJoined::Stopped))?;
        Ok(seats)
    }

    /// Returns when everyone who has left by now hears nothing any more.
    pub async fn settle(&self) {
        let (reply, settled) = oneshot::channel();
        if self.0.requests.send(Request::Settle(reply)).is_ok() {
            let _ = settled.await;
        }
    }
}
