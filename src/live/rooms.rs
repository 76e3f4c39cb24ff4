//! The lists of those who hear, and the latest notices for those who join. Owned by the publisher.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use prometheus::IntGauge;
use uuid::Uuid;

use super::{
    NotJoined, Outbox, Scope, Subscriber, Wire,
    hub::SubscriberId,
    outbox::Due,
    presence::RoomKey,
    wire::{Encoded, Notice},
};
use crate::{
    locking::{Event, Lock, names::TenantId},
    storage::tail::Head,
};

/// How many notices are kept for newcomers, who are rarely more than a few behind.
const RECENT: usize = 1024;
/// A newcomer that has missed more than this reads it from the log at its own pace: it would fill its outbox.
const AT_ONCE: usize = 100;

#[derive(Debug)]
pub(super) struct Rooms {
    epoch: Uuid,
    /// The last sequence that was published.
    watermark: i64,
    /// The latest notices, without gap up to the watermark.
    recent: VecDeque<Arc<Notice>>,
    by_room: HashMap<RoomKey, Vec<Listed>>,
    /// Those who hear all rooms they may see.
    by_tenant: HashMap<TenantId, Vec<Listed>>,
    due: Due,
    counts: Counts,
}

/// How many are in the lists.
#[derive(Debug, Clone)]
struct Counts {
    all: IntGauge,
    /// How many of them want to hear of extended locks.
    listeners: Arc<AtomicU64>,
}

/// A subscriber in a list, counted as long as it is there.
#[derive(Debug)]
struct Listed {
    subscriber: Subscriber,
    counts: Counts,
}

impl Listed {
    fn new(subscriber: Subscriber, counts: &Counts) -> Self {
        counts.all.inc();
        if subscriber.extensions {
            counts.listeners.fetch_add(1, Ordering::Relaxed);
        }
        Self { subscriber, counts: counts.clone() }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.counts.all.dec();
        if self.subscriber.extensions {
            self.counts.listeners.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Rooms {
    pub fn new(head: Head, listeners: Arc<AtomicU64>, all: IntGauge) -> Self {
        Self {
            epoch: head.epoch,
            watermark: head.sequence,
            recent: VecDeque::new(),
            by_room: HashMap::new(),
            by_tenant: HashMap::new(),
            due: Due::default(),
            counts: Counts { all, listeners },
        }
    }

    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// Has everything written that was put into outboxes. Not before: what goes to one socket goes together.
    pub fn send(&mut self) {
        self.due.send();
    }

    /// Publishes the event after the watermark; the caller sees to it that it is that one.
    pub fn publish(&mut self, event: Event) {
        self.watermark += 1;
        let notice = Arc::new(Notice::new(Head { epoch: self.epoch, sequence: self.watermark }, event));
        let key = &notice.event.lock.key;
        let room = (key.tenant.clone(), key.room.clone());
        if let Some(subscribers) = self.by_room.get_mut(&room) {
            subscribers.retain(|listed| tell(&listed.subscriber, &notice, &mut self.due));
            if subscribers.is_empty() {
                self.by_room.remove(&room);
            }
        }
        if let Some(subscribers) = self.by_tenant.get_mut(&key.tenant) {
            subscribers.retain(|Listed { subscriber, .. }| {
                !subscriber.scope.includes(&key.room) || tell(subscriber, &notice, &mut self.due)
            });
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(notice);
    }

    /// Offers an extended lock, which is in no log, to those who want it and have room for it.
    pub fn extended(&mut self, lock: &Lock) {
        let Some(listed) = self.by_room.get(&(lock.key.tenant.clone(), lock.key.room.clone())) else { return };
        let encoded = Encoded::default();
        for Listed { subscriber, .. } in listed.iter().filter(|listed| listed.subscriber.extensions) {
            let wire = subscriber.wire;
            subscriber.outbox.offer(encoded.bytes(wire, || (wire.extension)(lock)), &mut self.due);
        }
    }

    /// Offers a message that is in no log to everyone who hears the room and has room for it.
    pub fn offer(&mut self, key: &RoomKey, encode: impl Fn(&Wire) -> Bytes) {
        let (tenant, room) = key;
        let in_room = self.by_room.get(key).into_iter().flatten();
        let everywhere = self.by_tenant.get(tenant).into_iter().flatten();
        let everywhere = everywhere.filter(|listed| listed.subscriber.scope.includes(room));
        let encoded = Encoded::default();
        for Listed { subscriber, .. } in in_room.chain(everywhere) {
            let bytes = encoded.bytes(subscriber.wire, || encode(subscriber.wire));
            subscriber.outbox.offer(bytes, &mut self.due);
        }
    }

    /// The same, to one alone.
    pub fn offer_to(&mut self, outbox: &Arc<Outbox>, bytes: Bytes) {
        outbox.offer(bytes, &mut self.due);
    }

    /// Tells the subscribers what they missed, in the order of the log, and lists them. All of it or nothing.
    pub fn join(&mut self, tenant: &TenantId, subscribers: Vec<Subscriber>) -> Result<(), NotJoined> {
        let missed = self.missed(tenant, &subscribers).ok_or(NotJoined::TooOld)?;
        let bytes = missed.iter().map(|(subscriber, notice)| notice.bytes_for(subscriber).len()).sum();
        if !subscribers.iter().all(|subscriber| subscriber.outbox.has_room(missed.len(), bytes)) {
            return Err(NotJoined::TooOld);
        }
        for (subscriber, notice) in missed {
            tell(subscriber, &notice, &mut self.due);
        }
        for subscriber in subscribers {
            let list = match &subscriber.scope {
                Scope::Room(room) => self.by_room.entry((tenant.clone(), room.clone())).or_default(),
                Scope::Rooms(_) => self.by_tenant.entry(tenant.clone()).or_default(),
            };
            list.push(Listed::new(subscriber, &self.counts));
        }
        Ok(())
    }

    /// What the subscribers have missed; none if that is not known any more, or too much to be told at once.
    fn missed<'s>(
        &self,
        tenant: &TenantId,
        subscribers: &'s [Subscriber],
    ) -> Option<Vec<(&'s Subscriber, Arc<Notice>)>> {
        let after = subscribers.iter().map(|subscriber| subscriber.after).min().unwrap_or(self.watermark);
        let oldest = self.recent.front().map_or(self.watermark + 1, |notice| notice.at.sequence);
        let known = usize::try_from(after + 1 - oldest).ok()?;
        let mut missed = Vec::new();
        for notice in self.recent.iter().skip(known).filter(|notice| notice.event.lock.key.tenant == *tenant) {
            let room = &notice.event.lock.key.room;
            let is_meant = |subscriber: &&Subscriber| {
                notice.at.sequence > subscriber.after
                    && subscriber.scope.includes(room)
                    && notice.event.is_for(&subscriber.owner)
            };
            missed.extend(subscribers.iter().filter(is_meant).map(|subscriber| (subscriber, Arc::clone(notice))));
            if missed.len() > AT_ONCE {
                return None;
            }
        }
        Some(missed)
    }

    pub fn leave(&mut self, tenant: TenantId, scope: Scope, id: SubscriberId) {
        match scope {
            Scope::Room(room) => {
                let key = (tenant, room);
                let Some(subscribers) = self.by_room.get_mut(&key) else { return };
                if let Some(place) = subscribers.iter().position(|listed| listed.subscriber.id == id) {
                    subscribers.swap_remove(place);
                }
                if subscribers.is_empty() {
                    self.by_room.remove(&key);
                }
            }
            Scope::Rooms(_) => {
                if let Some(subscribers) = self.by_tenant.get_mut(&tenant) {
                    subscribers.retain(|listed| listed.subscriber.id != id);
                }
            }
        }
    }

    /// Closes everyone, because events are gone that nobody was told: they come back for a snapshot.
    pub fn skip_to(&mut self, watermark: i64) {
        let in_rooms = self.by_room.drain().flat_map(|(_, listed)| listed);
        for listed in in_rooms.chain(self.by_tenant.drain().flat_map(|(_, listed)| listed)) {
            listed.subscriber.outbox.close_as_too_slow();
        }
        self.recent.clear();
        self.watermark = watermark;
    }
}

/// Puts the notice into the subscriber's outbox; returns whether the subscriber is still there.
fn tell(subscriber: &Subscriber, notice: &Notice, due: &mut Due) -> bool {
    notice.at.sequence <= subscriber.after
        || !notice.event.is_for(&subscriber.owner)
        || subscriber.outbox.notify(notice.at.sequence, notice.bytes_for(subscriber), due).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        live::wire::tests::ANY,
        locking::{
            Activity, DocumentKey, EventKind, Holder, HolderKind, Span, Timestamp,
            names::{DocumentId, OwnerId, RoomId},
        },
    };

    fn rooms(listeners: &Arc<AtomicU64>, all: &IntGauge) -> Rooms {
        let head = Head { epoch: Uuid::nil(), sequence: 0 };
        Rooms::new(head, Arc::clone(listeners), all.clone())
    }

    fn gauge() -> IntGauge {
        IntGauge::new("subscriptions", "in this test").unwrap()
    }

    fn room() -> RoomId {
        RoomId::parse("room").unwrap()
    }

    fn subscriber(id: SubscriberId, extensions: bool) -> Subscriber {
        Subscriber {
            id,
            scope: Scope::Room(room()),
            outbox: Outbox::streaming(Bytes::new(), false),
            owner: OwnerId::parse("alice").unwrap(),
            is_admin: false,
            wire: &ANY,
            after: 0,
            extensions,
        }
    }

    fn event() -> Event {
        let (tenant, document) = (TenantId::default_tenant(), DocumentId::parse("main").unwrap());
        let at = Timestamp::from_millis(0);
        let lock = Lock {
            key: DocumentKey { tenant, room: room(), document },
            slot: 0,
            lease_id: Uuid::nil(),
            hold: 1,
            fencing_token: 1,
            holder: Holder {
                owner: OwnerId::parse("bob").unwrap(),
                session: None,
                name: None,
                kind: HolderKind::Person,
            },
            acquired_at: at,
            expires_at: at,
            due_at: at,
            ttl_seconds: 30,
            metadata: None,
            document_version: None,
            span: Span::Ttl,
            activity: Activity::Active,
            active_at: at,
            is_wanted: false,
            extend_ids: Vec::new(),
        };
        Event { at, lock, kind: EventKind::Locked { waited_ms: None } }
    }

    #[test]
    fn a_subscriber_is_counted_until_it_leaves() {
        let (listeners, gauge) = (Arc::default(), gauge());
        let mut rooms = rooms(&listeners, &gauge);
        let tenant = TenantId::default_tenant();
        rooms.join(&tenant, vec![subscriber(1, true), subscriber(2, false), subscriber(3, true)]).unwrap();
        assert_eq!((listeners.load(Ordering::Relaxed), gauge.get()), (2, 3));
        rooms.leave(tenant.clone(), Scope::Room(room()), 1);
        assert_eq!((listeners.load(Ordering::Relaxed), gauge.get()), (1, 2));
        rooms.skip_to(10);
        assert_eq!((listeners.load(Ordering::Relaxed), gauge.get()), (0, 0));
    }

    #[test]
    fn a_subscriber_without_room_for_all_it_missed_is_told_none_of_it() {
        const ROOM: usize = 256;
        let mut rooms = rooms(&Arc::default(), &gauge());
        for _ in 0..AT_ONCE {
            rooms.publish(event());
        }
        for (waiting, joined, left) in
            [(ROOM - AT_ONCE, Ok(()), 0), (ROOM - AT_ONCE + 1, Err(NotJoined::TooOld), AT_ONCE - 1)]
        {
            let subscriber = subscriber(1, false);
            let outbox = Arc::clone(&subscriber.outbox);
            for _ in 0..waiting {
                outbox.notify(1, Bytes::from_static(b"earlier"), &mut Due::default()).unwrap();
            }
            assert_eq!(rooms.join(&TenantId::default_tenant(), vec![subscriber]), joined);
            assert!(outbox.has_room(left, 0) && !outbox.has_room(left + 1, 0), "{waiting} waited");
        }
    }
}
