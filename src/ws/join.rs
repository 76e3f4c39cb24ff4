//! Into a room, without gap or overlap, over a WebSocket or as an event stream.
//!
//! 1. One transaction reads the head of the log, and either the room's locks or what the newcomer has missed.
//! 2. That is sent page by page, each when the one before has been taken: a large room is no reason to close anyone, and
//!    nothing has to be kept for the newcomer meanwhile.
//! 3. The hub is asked to go on from the head. If that is too long ago by now, what happened is read from the log, and
//!    the hub is asked again.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;

use super::{
    frames::{self, Id, Opening, Page},
    wire,
};
use crate::{
    auth::{Caller, Role},
    http::{Api, problem::Problem, view::LockView},
    hub::{Joined, Outbox, Refused, Scope, Subscriber, SubscriberId, Wire},
    locking::{Event, names::RoomId},
    storage::tail::{Head, Sequenced, Told},
};

/// A page ends with the item that makes it this large.
const PAGE_BYTES: usize = 32 * 1024;
const PAGE_EVENTS: u64 = 200;
/// Who does not take a page for so long is too slow.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Newcomer<'a> {
    pub api: &'a Api,
    pub caller: &'a Caller,
    pub outbox: &'a Arc<Outbox>,
    pub wire: Wire,
}

/// What it asks for.
pub struct Asks<'a> {
    pub room: &'a RoomId,
    pub after: Option<Head>,
    pub extensions: bool,
    pub id: Option<&'a Id>,
}

/// Its place in a room.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    pub id: SubscriberId,
    /// Up to where it knew the room when it got its place.
    known: i64,
    /// Not if its outbox was full: it is told nothing after what it knows.
    is_live: bool,
    pub extensions: bool,
}

impl Member {
    /// Up to where it knows the room, if its outbox takes nothing from this sequence on.
    pub fn known_before(&self, from: i64) -> i64 {
        if self.is_live { self.known.max(from - 1) } else { self.known }
    }

    /// Without a place, for the time being.
    #[must_use]
    pub fn away(self, known: i64) -> Self {
        Self { known, is_live: false, ..self }
    }

    pub fn known(&self) -> i64 {
        self.known
    }
}

/// Why it did not get in.
#[derive(Debug)]
pub enum Stopped {
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

impl Newcomer<'_> {
    pub async fn join(&self, asks: &Asks<'_>) -> Result<Member, Stopped> {
        let problem = |error| Stopped::Problem(Problem::from(error));
        let start = self.api.queries.start(&self.caller.tenant, asks.room, asks.after).await.map_err(problem)?;
        self.tell(asks, start.head, &start.told).await?;
        self.go_on(asks.room, start.head.sequence, asks.extensions).await
    }

    /// From a sequence on, with neither snapshot nor gap.
    pub async fn go_on(&self, room: &RoomId, after: i64, extensions: bool) -> Result<Member, Stopped> {
        let hub = &self.api.live.hub;
        let mut member = Member { id: hub.next_id(), known: after, is_live: true, extensions };
        loop {
            let (id, after) = (member.id, member.known);
            let outbox = Arc::clone(self.outbox);
            let subscriber = Subscriber { after, extensions, ..Subscriber::new(id, outbox, self.caller, self.wire) };
            match hub.join(&self.caller.tenant, Scope::Room(room.clone()), subscriber).await {
                Some(Joined::Live) => return Ok(member),
                // It has to be emptied first.
                Some(Joined::TooOld) if self.outbox.full_from().is_some() => {
                    return Ok(Member { is_live: false, ..member });
                }
                Some(Joined::TooOld) => member.known = self.read_on(room, after).await?,
                None => return Err(Stopped::Gone),
            }
        }
    }

    /// What happened since, by the log; answers how far that reaches.
    async fn read_on(&self, room: &RoomId, after: i64) -> Result<i64, Stopped> {
        let read = self.api.queries.room_after(&self.caller.tenant, room, after, PAGE_EVENTS).await;
        let (events, head) = read.map_err(|error| Stopped::Problem(error.into()))?;
        let has_more = events.len() as u64 == PAGE_EVENTS;
        let last = events.last().map_or(after, |(sequence, _)| *sequence);
        for (sequence, event) in &events {
            let json = frames::notice(event, *sequence, self.sees_all(event));
            let id = Head { epoch: head.epoch, sequence: *sequence };
            self.outbox.push_page(wire::message(self.wire, event.kind.name(), Some(id), &json))?;
        }
        self.taken().await?;
        Ok(if has_more { last } else { head.sequence })
    }

    async fn tell(&self, asks: &Asks<'_>, head: Head, told: &Told) -> Result<(), Stopped> {
        let now = self.api.clock.now();
        let raw = |json: String| RawValue::from_string(json).unwrap_or_default();
        let (items, recovered): (Vec<_>, _) = match told {
            Told::Locks(locks) => {
                let view = |lock| raw(frames::json(&LockView::new(lock, self.caller, now)));
                (locks.iter().map(view).collect(), false)
            }
            Told::Missed(events) => {
                let view = |(sequence, event): &Sequenced| raw(frames::notice(event, *sequence, self.sees_all(event)));
                (events.iter().map(view).collect(), true)
            }
        };
        let opening = Opening { epoch: head.epoch, sequence: head.sequence, recovered, server_time: now };
        let mut rest = items.as_slice();
        let mut is_first = true;
        while is_first || !rest.is_empty() {
            if !is_first {
                self.taken().await?;
            }
            let (page, others) = rest.split_at(page_length(rest));
            rest = others;
            self.page(asks, opening, is_first, page, !rest.is_empty())?;
            is_first = false;
        }
        Ok(())
    }

    fn page(
        &self,
        asks: &Asks<'_>,
        opening: Opening,
        is_first: bool,
        items: &[Box<RawValue>],
        more: bool,
    ) -> Result<(), Stopped> {
        let r#type = if is_first { "subscribed" } else { "snapshot" };
        let page = Page {
            r#type,
            id: asks.id.filter(|_| is_first),
            room: asks.room.as_str(),
            opening: is_first.then_some(opening),
            locks: (!opening.recovered).then_some(items),
            events: opening.recovered.then_some(items),
            more,
            participants: is_first.then_some([]),
        };
        // Whoever has not got all of it has to get it again.
        let id = (!more).then_some(Head { epoch: opening.epoch, sequence: opening.sequence });
        Ok(self.outbox.push_page(wire::message(self.wire, r#type, id, &frames::json(&page)))?)
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
