//! Into a room, without gap or overlap, whatever the transport.
//!
//! 1. One transaction reads the head of the log, and either the room's locks or what the newcomer has missed since its
//!    last visit ([`Listener::start`]).
//! 2. That is sent page by page, each when the one before has been taken: a large room is no reason to close anyone, and
//!    nothing has to be kept for the newcomer meanwhile ([`Listener::join`]).
//! 3. The hub is asked to go on from the head. If that is too long ago by now, what happened is read from the log, and
//!    the hub is asked again ([`Listener::go_on`]).
//!
//! If the hub were asked before the pages are sent, what happens meanwhile would fill the outbox of whoever joins a
//! large room.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::Semaphore;

use super::{
    End, Live, NotJoined, Outbox, Scope, Seat, Subscriber, Wire,
    messages::{EventMessage, MessageId, Page, PageStart},
    presence::{Participant, Participants, PresenceGuard},
};
pub use crate::storage::tail::{Head, Start};
use crate::{
    auth::{Caller, Role},
    calls::{Problem, view::LockView},
    locking::{Event, EventName, names::RoomId},
    storage::tail::{Sequenced, Told},
};

/// A page ends with the item that makes it this large.
const PAGE_BYTES: usize = 32 * 1024;
const PAGE_EVENTS: u64 = 200;
/// How many open asks a newcomer is told.
const OPEN_ASKS: u64 = 20;
/// A client that does not take a page for this long is too slow.
const PATIENCE: Duration = Duration::from_secs(5);

/// One who wants to hear rooms, by which outbox and in which wire format.
#[derive(Debug, Clone)]
pub struct Listener {
    pub live: Arc<Live>,
    pub caller: Arc<Caller>,
    pub outbox: Arc<Outbox>,
    pub wire: &'static Wire,
    /// Its owner's turns to read the database.
    pub turns: Arc<Semaphore>,
}

/// What a listener asks for.
#[derive(Debug)]
pub struct Subscription {
    pub room: RoomId,
    /// Where its last visit ended.
    pub after: Option<Head>,
    /// Whether it wants to hear of extended locks.
    pub extensions: bool,
    /// Told again with the first page.
    pub id: Option<MessageId>,
}

/// What a listener knows of a room, and its place in it. Dropping it leaves the room.
#[derive(Debug)]
pub struct Membership {
    /// Up to where it knew the room when it got its seat.
    known: i64,
    /// None if its outbox was full: it is told nothing after what it knows.
    seat: Option<Seat>,
    extensions: bool,
    _presence: PresenceGuard,
}

/// The rooms of one outbox.
pub type Memberships = HashMap<RoomId, Membership>;

impl Membership {
    /// Gives up its seat. The outbox has taken nothing from this sequence on.
    pub fn leave(&mut self, from: i64) {
        if self.seat.take().is_some() {
            self.known = self.known.max(from - 1);
        }
    }
}

impl Listener {
    /// Reads what the newcomer will be told first. Until it joins, nothing has happened that it could hear of.
    pub async fn start(&self, subscription: &Subscription) -> Result<Start, Problem> {
        let _turn = self.turns.acquire().await;
        Ok(self.live.queries.start(&self.caller.tenant, &subscription.room, subscription.after).await?)
    }

    /// Tells the newcomer what was read, and gives it its place in the room.
    pub async fn join(&self, subscription: Subscription, start: Start) -> Result<Memberships, End> {
        let Subscription { room, extensions, .. } = &subscription;
        let (presence, listed) = self.live.hub.arrive(&self.caller, room).await.ok_or(End::Gone)?;
        self.tell(&subscription, start.head, &start.told, &listed).await?;
        let (known, extensions) = (start.head.sequence, *extensions);
        let membership = Membership { known, seat: None, extensions, _presence: presence };
        let mut memberships = Memberships::from([(subscription.room, membership)]);
        self.go_on(&mut memberships, Some(listed)).await?;
        self.repeat_asks(&memberships).await?;
        Ok(memberships)
    }

    /// Tells a holder the asks that are open: it may have been away when they came. One that comes meanwhile is told twice.
    async fn repeat_asks(&self, memberships: &Memberships) -> Result<(), End> {
        if self.caller.role < Role::Editor {
            return Ok(());
        }
        let (tenant, holder) = (&self.caller.tenant, &self.caller.owner);
        for room in memberships.keys() {
            let asks = self.live.queries.open_asks(tenant, room, Some(holder), OPEN_ASKS).await;
            for ask in asks.map_err(|error| End::cut_off(&error.into()))? {
                self.outbox.push_page((self.wire.ask)(&ask, self.live.clock.now()))?;
            }
        }
        Ok(())
    }

    /// Goes on from what is known of each room, with neither snapshot nor gap: by the log, over all rooms in its order,
    /// until the hub can take all of them at once. `listed`: who it was told to be in its only room.
    pub async fn go_on(&self, memberships: &mut Memberships, listed: Option<Participants>) -> Result<(), End> {
        loop {
            let subscribers = memberships.iter().map(|(room, membership)| self.subscriber(room, membership)).collect();
            match self.live.hub.join(&self.caller.tenant, subscribers, listed.clone()).await {
                Ok(seats) => {
                    for (membership, seat) in memberships.values_mut().zip(seats) {
                        membership.seat = Some(seat);
                    }
                    return Ok(());
                }
                // It has to be emptied first.
                Err(NotJoined::TooOld) if self.outbox.full_from().is_some() => return Ok(()),
                Err(NotJoined::TooOld) => self.read_on(memberships).await?,
                Err(NotJoined::Stopped) => return Err(End::Gone),
            }
        }
    }

    fn subscriber(&self, room: &RoomId, membership: &Membership) -> Subscriber {
        let Membership { known, extensions, .. } = *membership;
        let scope = Scope::Room(room.clone());
        Subscriber::new(scope, Arc::clone(&self.outbox), &self.caller, self.wire, known, extensions)
    }

    /// Tells what happened since, by the log.
    async fn read_on(&self, memberships: &mut Memberships) -> Result<(), End> {
        let after = memberships.values().map(|membership| membership.known).min().unwrap_or_default();
        let rooms: Vec<_> = memberships.keys().collect();
        let turn = self.turns.acquire().await;
        let read = self.live.queries.rooms_after(&self.caller.tenant, &rooms, after, PAGE_EVENTS).await;
        drop(turn);
        let (events, head) = read.map_err(|error| End::cut_off(&error.into()))?;
        let is_new = |(sequence, event): &&Sequenced| {
            event.is_for(&self.caller.owner)
                && memberships.get(&event.lock.key.room).is_some_and(|membership| *sequence > membership.known)
        };
        for (sequence, event) in events.iter().filter(is_new) {
            let at = Head { epoch: head.epoch, sequence: *sequence };
            self.outbox.push_page((self.wire.event)(event, at, self.sees_all(event)))?;
        }
        self.taken().await?;
        let reached = match events.last() {
            Some((last, _)) if events.len() as u64 == PAGE_EVENTS => *last,
            Some(_) | None => head.sequence,
        };
        for membership in memberships.values_mut() {
            membership.known = membership.known.max(reached);
        }
        Ok(())
    }

    async fn tell(
        &self,
        subscription: &Subscription,
        head: Head,
        told: &Told,
        listed: &Participants,
    ) -> Result<(), End> {
        let now = self.live.clock.now();
        let (items, recovered): (Vec<_>, _) = match told {
            Told::Locks(locks) => {
                (locks.iter().map(|lock| raw(&LockView::new(lock, &self.caller, now))).collect(), false)
            }
            Told::Missed(events) => {
                let message = |(at, event): &Sequenced| raw(&EventMessage::new(event, *at, self.sees_all(event)));
                let is_told = |(_, event): &&Sequenced| {
                    // Open asks are told again anyway; of the others nothing can come any more.
                    event.is_for(&self.caller.owner) && event.kind.name() != EventName::HandoverAsked
                };
                (events.iter().filter(is_told).map(message).collect(), true)
            }
        };
        let start = PageStart { epoch: head.epoch, sequence: head.sequence, recovered, server_time: now };
        let participants = self.with_itself(listed);
        let (first, mut rest) = items.split_at(page_length(&items));
        self.page(subscription, start, Some(&participants), first, !rest.is_empty())?;
        while !rest.is_empty() {
            self.taken().await?;
            let (page, others) = rest.split_at(page_length(rest));
            rest = others;
            self.page(subscription, start, None, page, !rest.is_empty())?;
        }
        Ok(())
    }

    /// Sends one page. The first is the one that lists participants.
    fn page(
        &self,
        subscription: &Subscription,
        start: PageStart,
        participants: Option<&[Participant]>,
        items: &[Box<RawValue>],
        more: bool,
    ) -> Result<(), End> {
        let is_first = participants.is_some();
        let page = Page {
            r#type: if is_first { "subscribed" } else { "snapshot" },
            id: subscription.id.as_ref().filter(|_| is_first),
            room: subscription.room.as_str(),
            start: is_first.then_some(start),
            locks: (!start.recovered).then_some(items),
            events: start.recovered.then_some(items),
            more,
            participants,
        };
        // Whoever has not got all of it has to get it again.
        let complete_to = (!more).then_some(Head { epoch: start.epoch, sequence: start.sequence });
        Ok(self.outbox.push_page((self.wire.page)(&page, complete_to))?)
    }

    /// The list as the newcomer is told it. A full room may not list the newcomer, who is there all the same.
    fn with_itself(&self, listed: &Participants) -> Vec<Participant> {
        let Caller { owner, name, .. } = &*self.caller;
        let mut participants = listed.to_vec();
        if participants.binary_search_by(|other| other.owner_id.cmp(owner)).is_err() {
            let place = participants.partition_point(|other| other.owner_id < *owner);
            participants.insert(place, Participant { owner_id: owner.clone(), name: name.clone() });
        }
        participants
    }

    /// Waits until everything queued has been taken; closes the outbox if that takes too long.
    pub async fn taken(&self) -> Result<(), End> {
        if tokio::time::timeout(PATIENCE, self.outbox.drained()).await.is_err() {
            self.outbox.close_as_too_slow();
            return Err(End::Gone);
        }
        Ok(())
    }

    fn sees_all(&self, event: &Event) -> bool {
        self.caller.role == Role::Admin || self.caller.owner == event.lock.holder.owner
    }
}

/// Our own types can always be written.
fn raw(message: &impl Serialize) -> Box<RawValue> {
    to_raw_value(message).unwrap_or_default()
}

fn page_length(items: &[Box<RawValue>]) -> usize {
    let mut bytes = 0;
    let mut is_full = |item: &RawValue| {
        bytes += item.get().len();
        bytes >= PAGE_BYTES
    };
    items.iter().position(|item| is_full(item)).map_or(items.len(), |last| last + 1)
}
