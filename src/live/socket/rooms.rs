//! The rooms of one socket: getting in, getting out, and what happens when more comes than its outbox holds.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Number;
use uuid::Uuid;

use super::{
    Close, Known, Socket, frame as wire,
    task::{Done, End, Step, Task},
};
use crate::{
    auth::Role,
    calls::{
        fields,
        problem::{Code, Problem},
    },
    live::{Entered, Present, Scope, Subscriber, Wire},
    live::{
        messages::{self as frames, Asked, Room},
        subscribe::{Asks, Member, Members, Newcomer, Stopped},
    },
    locking::names::RoomId,
    storage::tail::{Head, Start},
};

impl Socket {
    pub(super) fn hear_everything(&mut self, Known { caller, .. }: &Known) -> Step {
        let hub = self.api.live.hub.clone();
        let after = hub.watermark();
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
        let subscriber = Subscriber::new(Arc::clone(&self.outbox), caller, Wire::WebSocket, after, false);
        let (tenant, scope) = (caller.tenant.clone(), Scope::Rooms(caller.rooms.clone()));
        self.task = Some(Task::join(async move {
            match hub.join(&tenant, vec![(scope, subscriber)], None).await {
                Some(Entered::Live(seats)) => {
                    Ok(seats.into_iter().next().map_or(Done::Answered, Done::HearsEverything))
                }
                // A thousand notices between two lines: let it come again.
                Some(Entered::TooOld) => Err(End::Close(Close::TooSlow, "too slow".to_owned())),
                None => Err(End::Gone),
            }
        }));
        Ok(())
    }

    /// The room of its address. Without it the socket is good for nothing.
    pub(super) fn hear_room(&mut self, known: &Known, room: RoomId) -> Step {
        if let Err(forbidden) = known.caller.require_in(Role::Viewer, &room) {
            let problem = Problem::from(forbidden);
            self.refuse(None, &problem)?;
            return Err(End::Close(Close::Forbidden, problem.code.name().to_owned()));
        }
        let newcomer = self.newcomer(known);
        let asks = Asks { room, after: None, extensions: false, id: None };
        self.task = Some(Task::join(async move {
            let start = newcomer.start(&asks).await.map_err(Stopped::Problem)?;
            joined(&newcomer, asks, start).await
        }));
        Ok(())
    }

    pub(super) fn subscribe(&mut self, known: &Known, mut asked: Asked) -> Step {
        let id = asked.id.clone();
        let asks = (|| {
            self.api.rates.admit(&known.caller, self.api.clock.now())?;
            let room = asked.room()?;
            known.caller.require_in(Role::Viewer, &room)?;
            self.refuse_if_it_hears_everything()?;
            let Subscribe { after, extensions } = fields::from_object(asked.fields)?;
            let (after, extensions) = (after.map(Head::from), extensions.unwrap_or_default());
            Ok(Asks { room, after, extensions, id: asked.id })
        })();
        let asks = match asks {
            Ok(asks) => asks,
            Err(problem) => return self.refuse(id.as_ref(), &problem),
        };
        let limit = self.api.live.rooms_per_socket;
        if limit != 0 && self.rooms.len() as u64 >= u64::from(limit) && !self.rooms.contains_key(&asks.room) {
            let problem = Problem::new(Code::LimitReached, format!("One socket may subscribe to {limit} rooms."));
            self.refuse(id.as_ref(), &problem)?;
            return Err(End::Close(Close::TooMany, "too many rooms".to_owned()));
        }
        let old = self.rooms.remove(&asks.room);
        self.task = Some(Task::join(subscribe(self.newcomer(known), asks, old)));
        Ok(())
    }

    fn refuse_if_it_hears_everything(&self) -> Result<(), Problem> {
        match self.everything {
            Some(_) => Err(Problem::new(Code::BadRequest, "This socket hears every room already.")),
            None => Ok(()),
        }
    }

    fn newcomer(&self, Known { caller, turns }: &Known) -> Newcomer {
        let (api, outbox) = (self.api.clone(), Arc::clone(&self.outbox));
        Newcomer { api, caller: Arc::clone(caller), outbox, wire: Wire::WebSocket, turns: Arc::clone(turns) }
    }

    /// More came at once than the outbox holds: once that is written the log has the rest. Who does not even take what
    /// is queued is too slow.
    pub(super) fn stopped(&mut self) -> Step {
        let (Some(from), Some(known)) = (self.outbox.full_from(), &self.known) else { return Err(End::Gone) };
        let newcomer = self.newcomer(known);
        let members = self.rooms.iter_mut().map(|(room, (member, _))| (room.clone(), std::mem::take(member)));
        let mut members: Members = members.collect();
        self.task = Some(Task::join(async move {
            newcomer.taken().await?;
            for member in members.values_mut() {
                member.leave(from);
            }
            // Only when nobody writes to it any more: what comes next must follow what it has.
            newcomer.api.live.hub.settle().await;
            newcomer.outbox.reopen();
            newcomer.go_on(&mut members, None).await?;
            Ok(Done::WentOn(members))
        }));
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, mut asked: Asked) -> Step {
        let id = asked.id.clone();
        let room = (|| {
            let room = asked.room()?;
            self.refuse_if_it_hears_everything()?;
            fields::from_object::<Unsubscribe>(asked.fields)?;
            Ok(room)
        })();
        match room {
            Ok(room) => {
                self.rooms.remove(&room);
                let server_time = self.api.clock.now();
                self.push(frames::ok(id.as_ref(), Room { room: &room, server_time }))
            }
            Err(problem) => self.refuse(id.as_ref(), &problem),
        }
    }
}

/// Again means anew, but only once that is possible: until then it hears what it heard.
async fn subscribe(newcomer: Newcomer, asks: Asks, old: Option<(Member, Present)>) -> Step<Done> {
    match newcomer.start(&asks).await {
        Ok(start) => {
            drop(old);
            joined(&newcomer, asks, start).await
        }
        Err(problem) => {
            newcomer.outbox.push(frames::error(asks.id.as_ref(), &problem, newcomer.api.clock.now()))?;
            Ok(old.map_or(Done::Answered, |(member, present)| Done::Joined(asks.room, member, present)))
        }
    }
}

async fn joined(newcomer: &Newcomer, asks: Asks, start: Start) -> Step<Done> {
    let (member, present) = newcomer.join(&asks, start).await?;
    Ok(Done::Joined(asks.room, member, present))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscribe {
    after: Option<After>,
    extensions: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unsubscribe {}

/// Where its last visit ended. An epoch of any form may come, and any number: what is not known gives a snapshot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    epoch: String,
    sequence: Number,
}

impl From<After> for Head {
    fn from(After { epoch, sequence }: After) -> Self {
        let sequence = sequence.as_i64().unwrap_or(i64::MAX);
        Self { epoch: Uuid::try_parse(&epoch).unwrap_or_default(), sequence }
    }
}
