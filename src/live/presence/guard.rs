//! Presence as sockets, streams and the exchange between servers ask the publisher for it.

use tokio::sync::oneshot;

use super::{Elsewhere, Participants, RoomKey, Sighting};
use crate::{
    auth::Caller,
    live::{Hub, hub::Request},
    locking::names::{OwnerId, RoomId},
};

/// Held by a socket or stream for each room it is in. Dropping it says that it is gone, for whatever reason.
#[derive(Debug)]
pub struct PresenceGuard {
    hub: Hub,
    room: RoomKey,
    owner: OwnerId,
}

impl Drop for PresenceGuard {
    fn drop(&mut self) {
        let Self { hub, room, owner } = self;
        // If it cannot be sent, there is nothing to leave.
        let _ = hub.0.requests.send(Request::Depart { room: room.clone(), owner: owner.clone() });
    }
}

/// Which of its people a server tells others about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SightingsWanted {
    All,
    /// Those about whom something has changed since the last time.
    Changed,
}

impl Hub {
    /// Returns whom the room lists, which may leave out the newcomer; none if the publisher has ended.
    pub async fn arrive(&self, caller: &Caller, room: &RoomId) -> Option<(PresenceGuard, Participants)> {
        let (reply, listed) = oneshot::channel();
        let room = (caller.tenant.clone(), room.clone());
        let owner = caller.owner.clone();
        let arrival = Request::Arrive { room: room.clone(), owner: owner.clone(), name: caller.name.clone(), reply };
        // Before it arrives: should nobody wait for the answer, it departs again.
        let guard = PresenceGuard { hub: self.clone(), room, owner };
        self.0.requests.send(arrival).ok()?;
        Some((guard, listed.await.ok()?))
    }

    /// Returns what other servers have to be told; none if the publisher has ended.
    pub async fn sightings(&self, wanted: SightingsWanted) -> Option<Vec<Sighting>> {
        let (reply, sightings) = oneshot::channel();
        self.0.requests.send(Request::Sightings { wanted, reply }).ok()?;
        sightings.await.ok()
    }

    /// Passes on what another server says of its people.
    pub fn heard(&self, said: Elsewhere) {
        // If it cannot be sent, nobody is there to be told.
        let _ = self.0.requests.send(Request::Heard(said));
    }
}
