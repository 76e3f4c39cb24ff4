//! Into a room, without gap or overlap, over a WebSocket or as an event stream.
//!
//! 1. One transaction reads the head of the log, and either the room's locks or what the newcomer has missed.
//! 2. That is sent page by page, each when the one before has been taken: a large room is no reason to close anyone, and
//!    nothing has to be kept for the newcomer meanwhile.
//! 3. The hub is asked to go on from the head. If that is too long ago by now, what happened is read from the log, and
//!    the hub is asked again.

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix_web::web;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::{
    messages::{self as frames, Id, Opening, Page},
    socket::frame as wire,
};
use crate::{
    auth::{Caller, Role},
    calls::{problem::Problem, view::LockView},
    http::Api,
    live::{Entered, Outbox, Participant, Participants, Present, Refused, Scope, Seat, Subscriber, Wire},
    locking::{Event, names::RoomId},
    storage::tail::{Head, Sequenced, Start, Told},
};

/// A page ends with the item that makes it this large.
const PAGE_BYTES: usize = 32 * 1024;
const PAGE_EVENTS: u64 = 200;
/// Who does not take a page for so long is too slow.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who wants to hear, by which outbox.
#[derive(Clone)]
pub struct Newcomer {
    pub api: web::Data<Api>,
    pub caller: Arc<Caller>,
    pub outbox: Arc<Outbox>,
    pub wire: Wire,
    /// Its owner's turns to read.
    pub turns: Arc<Semaphore>,
}

/// What it asks for.
pub struct Asks {
    pub room: RoomId,
    pub after: Option<Head>,
    pub extensions: bool,
    pub id: Option<Id>,
}

/// What it knows of a room, and its place in it.
#[derive(Debug, Default)]
pub struct Member {
    /// Up to where it knew the room when it got its place.
    known: i64,
    /// None if its outbox was full: it is told nothing after what it knows.
    seat: Option<Seat>,
    extensions: bool,
}

impl Member {
    /// It leaves its place, with an outbox that has taken nothing from this sequence on.
    pub fn leave(&mut self, from: i64) {
        if self.seat.take().is_some() {
            self.known = self.known.max(from - 1);
        }
    }
}

/// The rooms of one outbox.
pub type Members = HashMap<RoomId, Member>;

/// Why it cannot go on.
#[derive(Debug)]
pub enum Stopped {
    /// The log cannot be read.
    Problem(Problem),
    /// Its outbox is closed.
    Gone,
}

impl From<Refused> for Stopped {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooSlow | Refused::Closed => Self::Gone,
        }
    }
}

impl Newcomer {
    /// What it will be told first. Until then nothing has happened that it could hear of.
    pub async fn start(&self, asks: &Asks) -> Result<Start, Problem> {
        let _turn = self.turns.acquire().await;
        Ok(self.api.queries.start(&self.caller.tenant, &asks.room, asks.after).await?)
    }

    /// It is there as long as it holds what it gets.
    pub async fn join(&self, asks: &Asks, start: Start) -> Result<(Member, Present), Stopped> {
        let (present, listed) = self.api.live.hub.arrive(&self.caller, &asks.room).await.ok_or(Stopped::Gone)?;
        self.tell(asks, start.head, &start.told, &listed).await?;
        let member = Member { known: start.head.sequence, seat: None, extensions: asks.extensions };
        let mut members = Members::from([(asks.room.clone(), member)]);
        self.go_on(&mut members, Some(listed)).await?;
        Ok((members.remove(&asks.room).unwrap_or_default(), present))
    }

    /// From what its members know on, with neither snapshot nor gap: by the log, over all rooms in its order, until the
    /// hub can go on with all of them at once; and if it was told who is in its only room, from there on.
    pub async fn go_on(&self, members: &mut Members, listed: Option<Participants>) -> Result<(), Stopped> {
        let hub = &self.api.live.hub;
        loop {
            let places = members.iter().map(|(room, member)| (Scope::Room(room.clone()), self.subscriber(member)));
            match hub.join(&self.caller.tenant, places.collect(), listed.clone()).await {
                Some(Entered::Live(seats)) => {
                    for (member, seat) in members.values_mut().zip(seats) {
                        member.seat = Some(seat);
                    }
                    return Ok(());
                }
                // It has to be emptied first.
                Some(Entered::TooOld) if self.outbox.full_from().is_some() => return Ok(()),
                Some(Entered::TooOld) => self.read_on(members).await?,
                None => return Err(Stopped::Gone),
            }
        }
    }

    fn subscriber(&self, member: &Member) -> Subscriber {
        let Member { known, extensions, .. } = *member;
        Subscriber::new(Arc::clone(&self.outbox), &self.caller, self.wire, known, extensions)
    }

    /// What happened since, by the log.
    async fn read_on(&self, members: &mut Members) -> Result<(), Stopped> {
        let after = members.values().map(|member| member.known).min().unwrap_or_default();
        let rooms: Vec<_> = members.keys().collect();
        let turn = self.turns.acquire().await;
        let read = self.api.queries.rooms_after(&self.caller.tenant, &rooms, after, PAGE_EVENTS).await;
        drop(turn);
        let (events, head) = read.map_err(|error| Stopped::Problem(error.into()))?;
        let is_new = |(sequence, event): &&Sequenced| {
            members.get(&event.lock.key.room).is_some_and(|member| *sequence > member.known)
        };
        for (sequence, event) in events.iter().filter(is_new) {
            let json = frames::notice(event, *sequence, self.sees_all(event));
            let id = Head { epoch: head.epoch, sequence: *sequence };
            self.outbox.push_page(wire::message(self.wire, event.kind.name(), Some(id), &json))?;
        }
        self.taken().await?;
        let reached = match events.last() {
            Some((last, _)) if events.len() as u64 == PAGE_EVENTS => *last,
            _ => head.sequence,
        };
        for member in members.values_mut() {
            member.known = member.known.max(reached);
        }
        Ok(())
    }

    async fn tell(&self, asks: &Asks, head: Head, told: &Told, listed: &Participants) -> Result<(), Stopped> {
        let now = self.api.clock.now();
        let raw = |json: String| RawValue::from_string(json).unwrap_or_default();
        let (items, recovered): (Vec<_>, _) = match told {
            Told::Locks(locks) => {
                let view = |lock| raw(frames::json(&LockView::new(lock, &self.caller, now)));
                (locks.iter().map(view).collect(), false)
            }
            Told::Missed(events) => {
                let view = |(sequence, event): &Sequenced| raw(frames::notice(event, *sequence, self.sees_all(event)));
                (events.iter().map(view).collect(), true)
            }
        };
        let opening = Opening { epoch: head.epoch, sequence: head.sequence, recovered, server_time: now };
        let participants = self.with_itself(listed);
        let mut rest = items.as_slice();
        let mut is_first = true;
        while is_first || !rest.is_empty() {
            if !is_first {
                self.taken().await?;
            }
            let (page, others) = rest.split_at(page_length(rest));
            rest = others;
            self.page(asks, opening, is_first.then_some(&participants), page, !rest.is_empty())?;
            is_first = false;
        }
        Ok(())
    }

    fn page(
        &self,
        asks: &Asks,
        opening: Opening,
        participants: Option<&[Participant]>,
        items: &[Box<RawValue>],
        more: bool,
    ) -> Result<(), Stopped> {
        let is_first = participants.is_some();
        let r#type = if is_first { "subscribed" } else { "snapshot" };
        let page = Page {
            r#type,
            id: asks.id.as_ref().filter(|_| is_first),
            room: asks.room.as_str(),
            opening: is_first.then_some(opening),
            locks: (!opening.recovered).then_some(items),
            events: opening.recovered.then_some(items),
            more,
            participants,
        };
        // Whoever has not got all of it has to get it again.
        let id = (!more).then_some(Head { epoch: opening.epoch, sequence: opening.sequence });
        Ok(self.outbox.push_page(wire::message(self.wire, r#type, id, &frames::json(&page)))?)
    }

    /// A full room may not list the newcomer, who is there all the same.
    fn with_itself(&self, listed: &Participants) -> Vec<Participant> {
        let Caller { owner, name, .. } = &*self.caller;
        let mut participants = listed.to_vec();
        if participants.binary_search_by(|other| other.owner_id.cmp(owner)).is_err() {
            let place = participants.partition_point(|other| other.owner_id < *owner);
            participants.insert(place, Participant { owner_id: owner.clone(), name: name.clone() });
        }
        participants
    }

    /// Until everything queued has been taken.
    pub async fn taken(&self) -> Result<(), Stopped> {
        if tokio::time::timeout(PATIENCE, self.outbox.drained()).await.is_err() {
            self.outbox.close_as_too_slow();
            return Err(Stopped::Gone);
        }
        Ok(())
    }

    fn sees_all(&self, event: &Event) -> bool {
        self.caller.role == Role::Admin || self.caller.owner == event.lock.holder.owner
    }
}

fn page_length(items: &[Box<RawValue>]) -> usize {
    let mut bytes = 0;
    let mut is_full = |item: &RawValue| {
        bytes += item.get().len();
        bytes >= PAGE_BYTES
    };
    items.iter().position(|item| is_full(item)).map_or(items.len(), |last| last + 1)
}
