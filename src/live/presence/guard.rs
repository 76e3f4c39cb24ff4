//! What sockets, streams and the exchange between servers ask of the publisher about presence.

use tokio::sync::oneshot;

use super::{Elsewhere, Participants, RoomKey, Sighting};
use crate::{
    auth::Caller,
    live::{Hub, hub::Request},
    locking::names::{OwnerId, RoomId},
    storage::soft_state::ActivitySaid,
};

/// Held by a socket or stream for each room it is in. Dropping it tells the publisher that it has left the room.
#[derive(Debug)]
pub struct PresenceGuard {
    hub: Hub,
    room: RoomKey,
    owner: OwnerId,
}

impl Drop for PresenceGuard {
    fn drop(&mut self) {
        let Self { hub, room, owner } = self;
        // This fails only if the publisher has ended. Then there is nothing to leave.
        let _ = hub.0.requests.send(Request::Depart { room: room.clone(), owner: owner.clone() });
    }
}

/// Which of its people a server tells others about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SightingsWanted {
    All,
    /// The people about whom something has changed since the last time.
    Changed,
}

impl Hub {
    /// Puts the caller into the room. Returns whom the room lists, which may leave out the newcomer; `None` if the
    /// publisher has ended.
    pub async fn arrive(&self, caller: &Caller, room: &RoomId) -> Option<(PresenceGuard, Participants)> {
        let (reply, listed) = oneshot::channel();
        let room = (caller.tenant.clone(), room.clone());
        let owner = caller.owner.clone();
        let arrival = Request::Arrive { room: room.clone(), owner: owner.clone(), name: caller.name.clone(), reply };
        // Made before the request is sent: if this future is dropped while it waits, the guard makes the caller depart.
        let guard = PresenceGuard { hub: self.clone(), room, owner };
        self.0.requests.send(arrival).ok()?;
        Some((guard, listed.await.ok()?))
    }

    /// Returns what other servers have to be told; `None` if the publisher has ended.
    pub async fn sightings(&self, wanted: SightingsWanted) -> Option<Vec<Sighting>> {
        let (reply, sightings) = oneshot::channel();
        self.0.requests.send(Request::Sightings { wanted, reply }).ok()?;
        sightings.await.ok()
    }

    /// Returns what holders have said here that other servers have to be told; none if the publisher has ended.
    pub async fn untold_activity(&self) -> Option<Vec<ActivitySaid>> {
        let (reply, said) = oneshot::channel();
        self.0.requests.send(Request::UntoldActivity(reply)).ok()?;
        said.await.ok()
    }

    /// Passes on what holders have said to other servers.
    pub fn heard_activity(&self, said: Vec<ActivitySaid>) {
        let _ = self.0.requests.send(Request::HeardActivity(said));
    }

    /// Passes on what another server says of its people.
    pub fn heard(&self, said: Elsewhere) {
        // This fails only if the publisher has ended. Then nobody is there to be told.
        let _ = self.0.requests.send(Request::Heard(said));
    }
}
