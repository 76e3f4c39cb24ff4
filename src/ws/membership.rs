//! The rooms of one socket: getting in, getting out, and what happens when more comes than its outbox holds.

use std::sync::Arc;

use serde::Deserialize;
use uuid::Uuid;

use super::{
    Close,
    frames::{self, Asked, Room},
    join::{Asks, Newcomer, Stopped},
    socket::{End, Socket, Step},
    wire,
};
use crate::{
    auth::{Caller, Role},
    http::{
        fields,
        problem::{Code, Problem},
    },
    hub::{Joined, Scope, Subscriber, Wire},
    locking::names::RoomId,
    storage::tail::Head,
};

impl Socket {
    pub(super) async fn hear_everything(&mut self, caller: &Caller) -> Step {
        let hub = &self.api.live.hub;
        let (id, after) = (hub.next_id(), hub.watermark());
        let page = frames::Page {
            r#type: "subscribed",
            id: None,
            room: "*",
            opening: Some(frames::Opening {
                epoch: hub.epoch(),
                sequence: after,
                recovered: false,
                server_time: self.api.clock.now(),
            }),
            locks: Some(&[]),
            events: None,
            more: false,
            participants: Some(&[]),
        };
        self.push(wire::text(frames::json(&page).as_bytes()))?;
        let subscriber = Subscriber { after, ..Subscriber::new(id, Arc::clone(&self.outbox), caller, Wire::WebSocket) };
        let scope = Scope::Rooms(caller.rooms.clone());
        match self.api.live.hub.join(&caller.tenant, vec![(scope, subscriber)], None).await {
            Some(Joined::Live) => {
                self.everything = Some(id);
                Ok(())
            }
            // A thousand notices between two lines: let it come again.
            Some(Joined::TooOld) => Err(End::Close(Close::TooSlow, "too slow".to_owned())),
            None => Err(End::Gone),
        }
    }

    pub(super) async fn subscribe(&mut self, caller: &Arc<Caller>, mut asked: Asked) -> Step {
        let id = asked.id.clone();
        let asks = (|| {
            let room = asked.room()?;
            caller.require_in(Role::Viewer, &room)?;
            if self.everything.is_some() {
                return Err(Problem::new(Code::BadRequest, "This socket hears every room already."));
            }
            Ok((room, fields::from_object::<Subscribe>(asked.fields)?))
        })();
        let (room, fields) = match asks {
            Ok(asks) => asks,
            Err(problem) => return self.refuse(id.as_ref(), &problem),
        };
        // Again means anew.
        self.leave_room(caller, &room);
        let limit = self.api.live.rooms_per_socket;
        if limit != 0 && self.rooms.len() as u64 >= u64::from(limit) {
            let problem = Problem::new(Code::LimitReached, format!("One socket may subscribe to {limit} rooms."));
            self.refuse(id.as_ref(), &problem)?;
            return Err(End::Close(Close::TooMany, "too many rooms".to_owned()));
        }
        let (after, extensions) = (fields.after.map(Head::from), fields.extensions.unwrap_or_default());
        self.join(caller, &Asks { room: &room, after, extensions, id: id.as_ref() }).await
    }

    pub(super) async fn join(&mut self, caller: &Caller, asks: &Asks<'_>) -> Step {
        let newcomer = Newcomer { api: &self.api, caller, outbox: &self.outbox, wire: Wire::WebSocket };
        match newcomer.join(asks).await {
            Ok(member) => {
                self.rooms.insert(asks.room.clone(), member);
                Ok(())
            }
            Err(Stopped::Problem(problem)) => self.refuse(asks.id, &problem),
            Err(Stopped::Gone) => Err(End::Gone),
        }
    }

    /// More came at once than the outbox holds: once that is written the log has the rest. Who does not even take what
    /// is queued is too slow.
    pub(super) async fn stopped(&mut self) -> Step {
        let (Some(from), Some(caller)) = (self.outbox.full_from(), self.caller.clone()) else { return Err(End::Gone) };
        let hub = &self.api.live.hub;
        let newcomer = Newcomer { api: &self.api, caller: &caller, outbox: &self.outbox, wire: Wire::WebSocket };
        newcomer.taken().await.map_err(|_| End::Gone)?;
        for (room, (member, _)) in &mut self.rooms {
            hub.leave(&caller.tenant, Scope::Room(room.clone()), member.id);
            member.leave(from);
        }
        // Only when nobody writes to it any more: what comes next must follow what it has.
        hub.settle().await;
        self.outbox.reopen();
        let members = self.rooms.iter_mut().map(|(room, (member, _))| (room, member)).collect();
        match newcomer.go_on(members, None).await {
            Ok(()) => Ok(()),
            Err(Stopped::Gone) => Err(End::Gone),
            // The log cannot be read, and the socket cannot go on without it.
            Err(Stopped::Problem(_)) => Err(End::Close(Close::TooSlow, "too slow".to_owned())),
        }
    }

    pub(super) fn unsubscribe(&mut self, caller: &Caller, mut asked: Asked) -> Step {
        let id = asked.id.clone();
        match asked.room() {
            Ok(room) => {
                self.leave_room(caller, &room);
                let server_time = self.api.clock.now();
                self.push(frames::ok(id.as_ref(), Room { room: &room, server_time }))
            }
            Err(problem) => self.refuse(id.as_ref(), &problem),
        }
    }

    fn leave_room(&mut self, caller: &Caller, room: &RoomId) {
        if let Some((member, _)) = self.rooms.remove(room) {
            self.api.live.hub.leave(&caller.tenant, Scope::Room(room.clone()), member.id);
        }
    }

    pub(super) fn leave(&mut self) {
        let Some(caller) = self.caller.clone() else { return };
        let hub = &self.api.live.hub;
        for (room, (member, _)) in self.rooms.drain() {
            hub.leave(&caller.tenant, Scope::Room(room), member.id);
        }
        if let Some(subscriber) = self.everything.take() {
            hub.leave(&caller.tenant, Scope::Rooms(caller.rooms.clone()), subscriber);
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscribe {
    after: Option<After>,
    extensions: Option<bool>,
}

/// Where its last visit ended. An epoch of any form may come: one that is not known gives a snapshot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    epoch: String,
    sequence: i64,
}

impl From<After> for Head {
    fn from(After { epoch, sequence }: After) -> Self {
        Self { epoch: Uuid::try_parse(&epoch).unwrap_or_default(), sequence }
    }
}
