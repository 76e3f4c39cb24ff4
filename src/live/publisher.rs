//! From commits to rooms, in the order of the log.
//!
//! 1. A commit of this server goes out at once if it starts right after the watermark.
//! 2. Otherwise, and after every commit whose outcome is not known, the log is read from the watermark on.
//! 3. On a database that other servers write too, the log is also read when one of them says so, and every now and
//!    then in case it did not.
//!
//! The log is gap-free and in commit order, so whatever is read after the watermark is what comes next.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use prometheus::IntGauge;
use tokio::{
    sync::{Notify, mpsc},
    time::{Interval, MissedTickBehavior},
};

use super::{
    Change, Encode, Hub, Participant, Participants, Presence, Scope, Which, Wire,
    hub::{Joined, Place, Request, Shared},
    presence::News,
    rooms::Rooms,
};
use crate::{
    clock::Clock,
    cluster::Tail,
    locking::{
        DocumentKey, Lock, Timestamp,
        names::{RoomId, TenantId},
    },
    storage::{
        Queries, StorageError,
        batch::Appended,
        tail::{Head, Sequenced},
    },
};

const QUEUE: usize = 4096;
const PAGE: u64 = 500;
/// Notices of other servers, and those that could not be read at first, are at most so late.
const LOOK: Duration = Duration::from_millis(200);

/// A lock that lives longer than it was told.
#[derive(Debug)]
pub struct Extension(pub Lock);

/// How notices are written: of events, and those that are in no log.
#[derive(Debug, Clone, Copy)]
pub struct Encoders {
    pub event: Encode,
    pub extension: fn(&DocumentKey, &Lock) -> Bytes,
    pub presence: fn(&RoomId, Change, &Participant, Wire) -> Bytes,
}

#[derive(Debug)]
enum Announcement {
    Appended(Appended),
    Extended(Vec<Extension>),
    Unknown,
}

/// The committer's end.
#[derive(Debug, Clone)]
pub struct Announcer {
    announcements: mpsc::Sender<Announcement>,
    /// Told when something could not be announced.
    lost: Arc<Notify>,
    /// How many want to hear of extended locks.
    listeners: Arc<AtomicU64>,
}

impl Announcer {
    /// After the commit, never before.
    pub fn appended(&self, appended: Vec<Appended>) {
        for appended in appended {
            self.send(Announcement::Appended(appended));
        }
    }

    pub fn wants_extensions(&self) -> bool {
        self.listeners.load(Ordering::Relaxed) > 0
    }

    pub fn extended(&self, locks: Vec<Extension>) {
        if !locks.is_empty() {
            // They may be lost.
            let _ = self.announcements.try_send(Announcement::Extended(locks));
        }
    }

    /// Whether anything was committed is not known.
    pub fn unknown(&self) {
        self.send(Announcement::Unknown);
    }

    fn send(&self, announcement: Announcement) {
        // The committer never waits for the publisher, which finds what is lost here in the log.
        if self.announcements.try_send(announcement).is_err() {
            self.lost.notify_one();
        }
    }
}

#[derive(Debug)]
pub struct Publisher {
    rooms: Rooms,
    presence: Presence,
    clock: Clock,
    queries: Queries,
    announcements: mpsc::Receiver<Announcement>,
    requests: mpsc::UnboundedReceiver<Request>,
    lost: Arc<Notify>,
    encode: Encoders,
    hub: Hub,
    tail: Option<Tail>,
    /// The log has, or may have, more than was published.
    is_behind: bool,
    look: Interval,
}

/// What is there before the log's head is known.
#[derive(Debug)]
pub struct Unstarted {
    announcements: mpsc::Receiver<Announcement>,
    lost: Arc<Notify>,
    listeners: Arc<AtomicU64>,
}

impl Publisher {
    /// The committer needs its end before anything can be read.
    pub fn announcer() -> (Announcer, Unstarted) {
        let (sender, announcements) = mpsc::channel(QUEUE);
        let (lost, listeners) = (Arc::<Notify>::default(), Arc::<AtomicU64>::default());
        let announcer = Announcer { announcements: sender, lost: Arc::clone(&lost), listeners: Arc::clone(&listeners) };
        (announcer, Unstarted { announcements, lost, listeners })
    }

    /// What comes after `head` will be published.
    pub fn new(
        unstarted: Unstarted,
        head: Head,
        queries: Queries,
        tail: Option<Tail>,
        clock: Clock,
        encode: Encoders,
        subscriptions: IntGauge,
    ) -> (Self, Hub) {
        let Unstarted { announcements, lost, listeners } = unstarted;
        let (sender, requests) = mpsc::unbounded_channel();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let hub = Hub(Arc::new(Shared {
            epoch: head.epoch,
            requests: sender,
            next_id: AtomicU64::new(1),
            watermark: AtomicI64::new(head.sequence),
        }));
        let publisher = Self {
            rooms: Rooms::new(head, encode.event, listeners, subscriptions),
            presence: Presence::new(clock.clone(), tail.is_some()),
            clock,
            queries,
            announcements,
            requests,
            lost,
            encode,
            hub: hub.clone(),
            tail,
            is_behind: false,
            look,
        };
        (publisher, hub)
    }

    pub async fn run(mut self) {
        loop {
            tokio::select! {
                Some(announcement) = self.announcements.recv() => self.announced(announcement).await,
                Some(request) = self.requests.recv() => self.requested(request),
                () = self.lost.notified() => self.catch_up().await,
                () = woken(self.tail.as_ref()) => self.catch_up().await,
                _ = self.look.tick(), if self.looks() => self.catch_up().await,
                () = due(&self.clock, self.presence.next_to_go()) => {
                    self.presence.let_go();
                    self.tell_news();
                }
            }
        }
    }

    fn looks(&self) -> bool {
        self.is_behind || self.tail.as_ref().is_some_and(|tail| tail.looks)
    }

    async fn announced(&mut self, announcement: Announcement) {
        let mut next = Some(announcement);
        let mut has_appended = false;
        while let Some(announcement) = next {
            match announcement {
                Announcement::Appended(appended) => {
                    has_appended = true;
                    self.appended(appended).await;
                }
                Announcement::Extended(locks) => self.extended(&locks),
                Announcement::Unknown => self.is_behind = true,
            }
            next = self.announcements.try_recv().ok();
        }
        if self.is_behind {
            self.catch_up().await;
        }
        if let Some(tail) = self.tail.as_ref().filter(|_| has_appended) {
            tail.tell_others();
        }
    }

    async fn appended(&mut self, Appended { first, events }: Appended) {
        let next = self.rooms.watermark() + 1;
        let last = first + i64::try_from(events.len()).unwrap_or_default() - 1;
        if last < next {
            return;
        }
        if first > next {
            self.catch_up().await;
            if self.is_behind {
                return;
            }
        }
        let sequenced = (first..).zip(events).filter(|(sequence, _)| *sequence > self.rooms.watermark()).collect();
        self.publish(sequenced);
    }

    fn extended(&mut self, locks: &[Extension]) {
        for Extension(lock) in locks {
            let DocumentKey { tenant, room, .. } = &lock.key;
            self.rooms.extended(tenant, room, || (self.encode.extension)(&lock.key, lock));
        }
        self.rooms.send();
    }

    fn requested(&mut self, request: Request) {
        match request {
            Request::Join { tenant, places, told, reply } => {
                let joined = self.join(&tenant, places, told);
                // Should it have gone away meanwhile, its next notice finds its outbox closed.
                let _ = reply.send(joined);
            }
            Request::Arrive { room, owner, name, reply } => {
                // Should it have gone away meanwhile, it departs next.
                let _ = reply.send(self.presence.arrive(&room, &owner, name.as_ref()));
                self.tell_news();
            }
            Request::Depart { room, owner } => self.presence.depart(&room, &owner),
            Request::Sightings { which, reply } => {
                let _ = reply.send(match which {
                    Which::Everyone => self.presence.take_everyone(),
                    Which::Changed => self.presence.take_untold(),
                });
            }
            Request::Heard(said) => {
                self.presence.heard(said);
                self.tell_news();
            }
            Request::Leave { tenant, scope, id } => self.rooms.leave(tenant, scope, id),
            Request::Settle(reply) => {
                let _ = reply.send(());
            }
        }
    }

    fn join(&mut self, tenant: &TenantId, places: Vec<Place>, told: Option<Participants>) -> Joined {
        let newcomer = match (told, places.as_slice()) {
            (Some(told), [(Scope::Room(room), subscriber)]) => {
                Some((told, (tenant.clone(), room.clone()), Arc::clone(&subscriber.outbox), subscriber.wire))
            }
            _ => None,
        };
        let joined = self.rooms.join(tenant, places);
        if let Some((told, room, outbox, wire)) = newcomer.filter(|_| joined == Joined::Live) {
            for (change, participant) in self.presence.changes_since(&told, &room) {
                self.rooms.offer_to(&outbox, (self.encode.presence)(&room.1, change, &participant, wire));
            }
        }
        self.rooms.send();
        joined
    }

    fn tell_news(&mut self) {
        for News { room, change, participant } in self.presence.take_news() {
            self.rooms.offer(&room, |wire| (self.encode.presence)(&room.1, change, &participant, wire));
        }
        self.rooms.send();
    }

    async fn catch_up(&mut self) {
        self.is_behind = match self.read_on().await {
            Ok(()) => false,
            Err(error) => {
                tracing::warn!(%error, "the event log cannot be read, notices are late");
                true
            }
        };
    }

    async fn read_on(&mut self) -> Result<(), StorageError> {
        loop {
            let events = self.queries.log_after(self.rooms.watermark(), PAGE).await?;
            let is_last = (events.len() as u64) < PAGE;
            self.publish(events);
            if is_last {
                return Ok(());
            }
        }
    }

    fn publish(&mut self, events: Vec<Sequenced>) {
        for (sequence, event) in events {
            if sequence != self.rooms.watermark() + 1 {
                tracing::warn!(sequence, watermark = self.rooms.watermark(), "events are missing from the log");
                self.rooms.skip_to(sequence - 1);
            }
            self.rooms.publish(event);
        }
        self.rooms.send();
        self.hub.0.watermark.store(self.rooms.watermark(), Ordering::Release);
    }
}

async fn due(clock: &Clock, moment: Option<Timestamp>) {
    match moment {
        Some(moment) => clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn woken(tail: Option<&Tail>) {
    match tail {
        Some(tail) => tail.woken().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn what_cannot_be_announced_is_told_to_be_lost() {
        let (announcer, unstarted) = Publisher::announcer();
        for _ in 0..QUEUE {
            announcer.unknown();
        }
        assert!(unstarted.lost.notified().now_or_never().is_none());
        announcer.unknown();
        assert!(unstarted.lost.notified().now_or_never().is_some());
    }
}
