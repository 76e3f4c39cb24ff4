//! The lists of those who hear, and the latest notices for those who join.

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
    Encode, Notice, Outbox, RoomKey, Scope, Subscriber, Wire,
    hub::{Joined, Place, SubscriberId},
    outbox::Due,
};
use crate::{
    auth::RoomGlobs,
    locking::{
        Event,
        names::{RoomId, TenantId},
    },
    storage::tail::Head,
};

/// So many notices are kept for newcomers, who are rarely more than a few behind.
const RECENT: usize = 1024;
/// Who has missed more reads them from the log at its own pace: they would fill its outbox.
const AT_ONCE: usize = 100;

#[derive(Debug)]
pub struct Rooms {
    epoch: Uuid,
    encode: Encode,
    /// The last sequence that was published.
    watermark: i64,
    /// The latest notices, without gap up to the watermark.
    recent: VecDeque<Arc<Notice>>,
    by_room: HashMap<RoomKey, Vec<Listed>>,
    by_tenant: HashMap<TenantId, Vec<(Listed, RoomGlobs)>>,
    due: Due,
    counts: Counts,
}

/// Of those in the lists.
#[derive(Debug, Clone)]
struct Counts {
    all: IntGauge,
    /// How many want to hear of extended locks.
    listeners: Arc<AtomicU64>,
}

/// One in a list, counted as long as it is there.
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
    pub fn new(head: Head, encode: Encode, listeners: Arc<AtomicU64>, all: IntGauge) -> Self {
        Self {
            epoch: head.epoch,
            encode,
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

    /// What has been put into outboxes is written from here on. Not before: what goes to one socket goes together.
    pub fn send(&mut self) {
        self.due.send();
    }

    /// The event after the watermark, and no other.
    pub fn publish(&mut self, event: Event) {
        self.watermark += 1;
        let notice = Arc::new(Notice::new(self.watermark, event, self.epoch, self.encode));
        let key = &notice.event.lock.key;
        let room = (key.tenant.clone(), key.room.clone());
        if let Some(subscribers) = self.by_room.get_mut(&room) {
            subscribers.retain(|listed| tell(&listed.subscriber, &notice, &mut self.due));
            if subscribers.is_empty() {
                self.by_room.remove(&room);
            }
        }
        if let Some(subscribers) = self.by_tenant.get_mut(&key.tenant) {
            subscribers
                .retain(|(listed, globs)| !globs.allow(&key.room) || tell(&listed.subscriber, &notice, &mut self.due));
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(notice);
    }

    /// Unsequenced: to those who want it and have room for it.
    pub fn extended(&mut self, tenant: &TenantId, room: &RoomId, encode: impl FnOnce() -> Bytes) {
        let Some(subscribers) = self.by_room.get(&(tenant.clone(), room.clone())) else { return };
        let mut wanting =
            subscribers.iter().map(|listed| &listed.subscriber).filter(|subscriber| subscriber.extensions).peekable();
        if wanting.peek().is_none() {
            return;
        }
        let bytes = encode();
        wanting.for_each(|subscriber| subscriber.outbox.offer(bytes.clone(), &mut self.due));
    }

    /// Unsequenced as well, to everyone who hears the room and has room for it.
    pub fn offer(&mut self, key: &RoomKey, encode: impl Fn(Wire) -> Bytes) {
        let (tenant, room) = key;
        let in_room = self.by_room.get(key).into_iter().flatten();
        let everywhere = self.by_tenant.get(tenant).into_iter().flatten();
        let everywhere = everywhere.filter(|(_, globs)| globs.allow(room)).map(|(listed, _)| listed);
        let (mut socket, mut stream) = (None, None);
        for Listed { subscriber, .. } in in_room.chain(everywhere) {
            let encoded = match subscriber.wire {
                Wire::WebSocket => &mut socket,
                Wire::EventStream => &mut stream,
            };
            let bytes = encoded.get_or_insert_with(|| encode(subscriber.wire)).clone();
            subscriber.outbox.offer(bytes, &mut self.due);
        }
    }

    /// To one alone.
    pub fn offer_to(&mut self, outbox: &Arc<Outbox>, bytes: Bytes) {
        outbox.offer(bytes, &mut self.due);
    }

    /// What they missed, in the order of the log, then their places in the lists. All of it or nothing.
    pub fn join(&mut self, tenant: &TenantId, places: Vec<Place>) -> Joined {
        let Some(missed) = self.missed(tenant, &places) else { return Joined::TooOld };
        let bytes = missed.iter().map(|(subscriber, notice)| notice.bytes_for(subscriber).len()).sum();
        if !places.iter().all(|(_, subscriber)| subscriber.outbox.has_room(missed.len(), bytes)) {
            return Joined::TooOld;
        }
        for (subscriber, notice) in missed {
            tell(subscriber, &notice, &mut self.due);
        }
        for (scope, subscriber) in places {
            let listed = Listed::new(subscriber, &self.counts);
            match scope {
                Scope::Room(room) => self.by_room.entry((tenant.clone(), room)).or_default().push(listed),
                Scope::Rooms(globs) => self.by_tenant.entry(tenant.clone()).or_default().push((listed, globs)),
            }
        }
        Joined::Live
    }

    /// Nothing, if that is not known any more, or too much to be told at once.
    fn missed<'a>(&self, tenant: &TenantId, places: &'a [Place]) -> Option<Vec<(&'a Subscriber, Arc<Notice>)>> {
        let after = places.iter().map(|(_, subscriber)| subscriber.after).min().unwrap_or(self.watermark);
        let oldest = self.recent.front().map_or(self.watermark + 1, |notice| notice.sequence);
        let known = usize::try_from(after + 1 - oldest).ok()?;
        let mut missed = Vec::new();
        for notice in self.recent.iter().skip(known).filter(|notice| notice.event.lock.key.tenant == *tenant) {
            let room = &notice.event.lock.key.room;
            let is_meant = |(scope, subscriber): &&Place| {
                notice.sequence > subscriber.after
                    && match scope {
                        Scope::Room(own) => own == room,
                        Scope::Rooms(globs) => globs.allow(room),
                    }
            };
            missed.extend(places.iter().filter(is_meant).map(|(_, subscriber)| (subscriber, Arc::clone(notice))));
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
                    subscribers.retain(|(listed, _)| listed.subscriber.id != id);
                }
            }
        }
    }

    /// Events are gone that nobody was told: everyone has to come back for a snapshot.
    pub fn skip_to(&mut self, watermark: i64) {
        for listed in self.by_room.drain().flat_map(|(_, subscribers)| subscribers) {
            listed.subscriber.outbox.close_as_too_slow();
        }
        for (listed, _) in self.by_tenant.drain().flat_map(|(_, subscribers)| subscribers) {
            listed.subscriber.outbox.close_as_too_slow();
        }
        self.recent.clear();
        self.watermark = watermark;
    }
}

/// Whether the subscriber is still there.
fn tell(subscriber: &Subscriber, notice: &Notice, due: &mut Due) -> bool {
    notice.sequence <= subscriber.after
        || subscriber.outbox.notify(notice.sequence, notice.bytes_for(subscriber), due).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        live::{Outbox, Wire},
        locking::{DocumentKey, EventKind, Holder, Lock, Timestamp, names::DocumentId, names::OwnerId},
    };

    fn rooms(listeners: &Arc<AtomicU64>, all: &IntGauge) -> Rooms {
        let head = Head { epoch: Uuid::nil(), sequence: 0 };
        Rooms::new(head, |_, _, _, _| Bytes::from_static(b"notice"), Arc::clone(listeners), all.clone())
    }

    fn gauge() -> IntGauge {
        IntGauge::new("subscriptions", "in this test").unwrap()
    }

    fn room() -> RoomId {
        RoomId::parse("room").unwrap()
    }

    fn place(id: SubscriberId, extensions: bool) -> Place {
        let subscriber = Subscriber {
            id,
            outbox: Outbox::streaming(Bytes::new(), false),
            owner: OwnerId::parse("alice").unwrap(),
            is_admin: false,
            wire: Wire::WebSocket,
            after: 0,
            extensions,
        };
        (Scope::Room(room()), subscriber)
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
            holder: Holder { owner: OwnerId::parse("bob").unwrap(), session: None, name: None },
            acquired_at: at,
            expires_at: at,
            due_at: at,
            ttl_seconds: 30,
            metadata: None,
            document_version: None,
            last_extend: None,
        };
        Event { at, lock, kind: EventKind::Locked }
    }

    #[test]
    fn who_hears_is_counted_as_long_as_it_is_there() {
        let (listeners, gauge) = (Arc::default(), gauge());
        let mut rooms = rooms(&listeners, &gauge);
        let tenant = TenantId::default_tenant();
        rooms.join(&tenant, vec![place(1, true), place(2, false), place(3, true)]);
        assert_eq!((listeners.load(Ordering::Relaxed), gauge.get()), (2, 3));
        rooms.leave(tenant.clone(), Scope::Room(room()), 1);
        assert_eq!((listeners.load(Ordering::Relaxed), gauge.get()), (1, 2));
        rooms.skip_to(10);
        assert_eq!((listeners.load(Ordering::Relaxed), gauge.get()), (0, 0));
    }
    #[test]
    fn who_has_no_room_for_all_it_missed_is_told_none_of_it() {
        const ROOM: usize = 256;
        let mut rooms = rooms(&Arc::default(), &gauge());
        for _ in 0..AT_ONCE {
            rooms.publish(event());
        }
        for (waiting, joined, left) in
            [(ROOM - AT_ONCE, Joined::Live, 0), (ROOM - AT_ONCE + 1, Joined::TooOld, AT_ONCE - 1)]
        {
            let (scope, subscriber) = place(1, false);
            let outbox = Arc::clone(&subscriber.outbox);
            for _ in 0..waiting {
                outbox.notify(1, Bytes::from_static(b"earlier"), &mut Due::default()).unwrap();
            }
            assert_eq!(rooms.join(&TenantId::default_tenant(), vec![(scope, subscriber)]), joined);
            assert!(outbox.has_room(left, 0) && !outbox.has_room(left + 1, 0), "{waiting} waited");
        }
    }
}
