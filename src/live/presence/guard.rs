//! Presence as those ask for it who are not the publisher.

use tokio::sync::oneshot;

use super::{Elsewhere, Participants, RoomKey, Sighting};
use crate::{
    auth::Caller,
    live::{Hub, hub::Request},
    locking::names::{OwnerId, RoomId},
};

/// Held by a socket or stream for each room it is in: who drops it is no longer there, for whatever reason.
#[derive(Debug)]
pub struct Present {
    hub: Hub,
    room: RoomKey,
    owner: OwnerId,
}

impl Drop for Present {
    fn drop(&mut self) {
        let Self { hub, room, owner } = self;
        // If it cannot be sent, there is nothing to leave.
        let _ = hub.0.requests.send(Request::Depart { room: room.clone(), owner: owner.clone() });
    }
}

/// Which of its people a server tells others about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Everyone,
    /// Those about whom something has changed since the last time.
    Changed,
}

impl Hub {
    /// Answers whom the room lists, which may leave out the newcomer; nothing if the publisher has ended.
    pub async fn arrive(&self, caller: &Caller, room: &RoomId) -> Option<(Present, Participants)> {
        let (reply, listed) = oneshot::channel();
        let room = (caller.tenant.clone(), room.clone());
        let owner = caller.owner.clone();
        let arrival = Request::Arrive { room: room.clone(), owner: owner.clone(), name: caller.name.clone(), reply };
        // Before it arrives: should nobody wait for the answer, it departs again.
        let present = Present { hub: self.clone(), room, owner };
        self.0.requests.send(arrival).ok()?;
        Some((present, listed.await.ok()?))
    }

    /// What other servers have to be told; nothing if the publisher has ended.
    pub async fn sightings(&self, which: Which) -> Option<Vec<Sighting>> {
        let (reply, sightings) = oneshot::channel();
        self.0.requests.send(Request::Sightings { which, reply }).ok()?;
        sightings.await.ok()
    }

    /// What another server says of its people.
    pub fn heard(&self, said: Elsewhere) {
        // If it cannot be sent, nobody is there to be told.
        let _ = self.0.requests.send(Request::Heard(said));
    }
}
