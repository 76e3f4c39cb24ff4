//! The lists of those who hear, and the latest notices for those who join.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use uuid::Uuid;

use super::{Encode, Joined, Notice, Scope, Subscriber, SubscriberId};
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
    by_room: HashMap<(TenantId, RoomId), Vec<Subscriber>>,
    by_tenant: HashMap<TenantId, Vec<(Subscriber, RoomGlobs)>>,
}

impl Rooms {
    pub fn new(head: Head, encode: Encode) -> Self {
        let (by_room, by_tenant) = (HashMap::new(), HashMap::new());
        Self { epoch: head.epoch, encode, watermark: head.sequence, recent: VecDeque::new(), by_room, by_tenant }
    }

    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// The event after the watermark, and no other.
    pub fn publish(&mut self, event: Event) {
        self.watermark += 1;
        let notice = Arc::new(Notice::new(self.watermark, event, self.epoch, self.encode));
        let key = &notice.event.lock.key;
        let room = (key.tenant.clone(), key.room.clone());
        if let Some(subscribers) = self.by_room.get_mut(&room) {
            subscribers.retain(|subscriber| tell(subscriber, &notice));
            if subscribers.is_empty() {
                self.by_room.remove(&room);
            }
        }
        if let Some(subscribers) = self.by_tenant.get_mut(&key.tenant) {
            subscribers.retain(|(subscriber, globs)| !globs.allow(&key.room) || tell(subscriber, &notice));
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(notice);
    }

    /// Unsequenced: to those who want it and have room for it.
    pub fn extended(&self, tenant: &TenantId, room: &RoomId, encode: impl FnOnce() -> Bytes) {
        let Some(subscribers) = self.by_room.get(&(tenant.clone(), room.clone())) else { return };
        let mut wanting = subscribers.iter().filter(|subscriber| subscriber.extensions).peekable();
        if wanting.peek().is_none() {
            return;
        }
        let bytes = encode();
        wanting.for_each(|subscriber| subscriber.outbox.offer(bytes.clone()));
    }

    /// What it missed, then its place in the list.
    pub fn join(&mut self, tenant: TenantId, scope: Scope, subscriber: Subscriber) -> Joined {
        let oldest = self.recent.front().map_or(self.watermark + 1, |notice| notice.sequence);
        if subscriber.after + 1 < oldest {
            return Joined::TooOld;
        }
        let is_meant = |notice: &&Arc<Notice>| {
            let key = &notice.event.lock.key;
            let in_scope = match &scope {
                Scope::Room(room) => key.room == *room,
                Scope::Rooms(globs) => globs.allow(&key.room),
            };
            key.tenant == tenant && in_scope
        };
        let known = usize::try_from(subscriber.after + 1 - oldest).unwrap_or_default();
        let missed: Vec<_> = self.recent.iter().skip(known).filter(is_meant).collect();
        if missed.len() > AT_ONCE {
            return Joined::TooOld;
        }
        if !missed.into_iter().all(|notice| tell(&subscriber, notice)) {
            return Joined::TooOld;
        }
        match scope {
            Scope::Room(room) => self.by_room.entry((tenant, room)).or_default().push(subscriber),
            Scope::Rooms(globs) => self.by_tenant.entry(tenant).or_default().push((subscriber, globs)),
        }
        Joined::Live
    }

    pub fn leave(&mut self, tenant: TenantId, scope: Scope, id: SubscriberId) {
        match scope {
            Scope::Room(room) => {
                let key = (tenant, room);
                let Some(subscribers) = self.by_room.get_mut(&key) else { return };
                if let Some(place) = subscribers.iter().position(|subscriber| subscriber.id == id) {
                    subscribers.swap_remove(place);
                }
                if subscribers.is_empty() {
                    self.by_room.remove(&key);
                }
            }
            Scope::Rooms(_) => {
                if let Some(subscribers) = self.by_tenant.get_mut(&tenant) {
                    subscribers.retain(|(subscriber, _)| subscriber.id != id);
                }
            }
        }
    }

    /// Events are gone that nobody was told: everyone has to come back for a snapshot.
    pub fn skip_to(&mut self, watermark: i64) {
        for subscriber in self.by_room.drain().flat_map(|(_, subscribers)| subscribers) {
            subscriber.outbox.close_as_too_slow();
        }
        for (subscriber, _) in self.by_tenant.drain().flat_map(|(_, subscribers)| subscribers) {
            subscriber.outbox.close_as_too_slow();
        }
        self.recent.clear();
        self.watermark = watermark;
    }
}

/// Whether the subscriber is still there.
fn tell(subscriber: &Subscriber, notice: &Notice) -> bool {
    notice.sequence <= subscriber.after
        || subscriber.outbox.notify(notice.sequence, notice.bytes_for(subscriber)).is_ok()
}
