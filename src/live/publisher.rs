//! From commits to rooms, in the order of the log.
//!
//! 1. A commit of this server goes out at once if it starts right after the watermark.
//! 2. Otherwise, and after every commit whose outcome is not known, the log is read from the watermark on.
//! 3. On a database that other servers write too, the log is also read when one of them says so, and every now and
//!    then in case it did not.
//!
//! The log is gap-free and in commit order, so whatever is read after the watermark is what comes next. The publisher alone
//! owns the lists of subscribers (`rooms`) and of participants (`presence`): publishing takes no lock that anyone could
//! hold, except each outbox's own for a moment.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use prometheus::IntGauge;
use tokio::sync::mpsc;

use super::{
    Hub, NotJoined, Scope, Subscriber,
    hub::{HubState, Request},
    presence::{News, Participants, Presence, SightingsWanted},
    rooms::Rooms,
};
use crate::{
    committer::{Announcement, Announcements, Extension},
    keeper::Keeper,
    lines::Lines,
    locking::{Timestamp, names::TenantId},
    storage::{
        Queries, StorageError, Tail,
        batch::Appended,
        soft_state::ActivitySaid,
        tail::{Head, Sequenced},
    },
    time::clock::Clock,
};

const PAGE: u64 = 500;
/// How late notices of other servers, and those that could not be read at first, may be.
const LOOK_MS: i64 = 200;

#[derive(Debug)]
pub struct Publisher {
    rooms: Rooms,
    presence: Presence,
    clock: Clock,
    queries: Queries,
    announcements: Announcements,
    /// Those on this server who wait for what the log says.
    lines: Lines,
    keeper: Keeper,
    requests: mpsc::UnboundedReceiver<Request>,
    hub: Hub,
    tail: Option<Tail>,
    /// The log has, or may have, more than was published.
    is_behind: bool,
    /// When it looks at the log next, if it does.
    look_at: Timestamp,
}

impl Publisher {
    /// Publishes what comes after `head`. `tail` is there if other servers write to the database too.
    pub fn new(
        announcements: Announcements,
        head: Head,
        queries: Queries,
        tail: Option<Tail>,
        clock: Clock,
        (lines, keeper): (Lines, Keeper),
        subscriptions: IntGauge,
    ) -> (Self, Hub) {
        let (sender, requests) = mpsc::unbounded_channel();
        let hub = Hub(Arc::new(HubState {
            epoch: head.epoch,
            requests: sender,
            next_id: AtomicU64::new(1),
            watermark: AtomicI64::new(head.sequence),
        }));
        let look_at = clock.now();
        let publisher = Self {
            rooms: Rooms::new(head, Arc::clone(&announcements.listeners), subscriptions),
            presence: Presence::new(clock.clone(), tail.is_some()),
            clock,
            queries,
            announcements,
            lines,
            keeper,
            requests,
            hub: hub.clone(),
            tail,
            is_behind: false,
            look_at,
        };
        (publisher, hub)
    }

    pub async fn run(mut self) {
        loop {
            tokio::select! {
                Some(announcement) = self.announcements.queue.recv() => self.announced(announcement).await,
                Some(request) = self.requests.recv() => self.requested(request),
                () = self.announcements.lost.notified() => self.catch_up().await,
                () = woken(self.tail.as_ref()) => self.catch_up().await,
                () = self.clock.sleep_until(self.look_at), if self.looks() => self.catch_up().await,
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
                Announcement::Activity(said) => self.activity(said),
                Announcement::Unknown => self.is_behind = true,
            }
            next = self.announcements.queue.try_recv().ok();
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
            self.rooms.extended(lock);
        }
        self.rooms.send();
    }

    /// Tells the rooms what holders say of themselves, and keeps it for other servers.
    fn activity(&mut self, said: Vec<ActivitySaid>) {
        self.tell_activity(&said);
        self.presence.note_activity(said);
    }

    fn tell_activity(&mut self, said: &[ActivitySaid]) {
        for said in said {
            let room = (said.key.tenant.clone(), said.key.room.clone());
            self.rooms.offer(&room, |wire| (wire.activity)(said));
        }
        self.rooms.send();
    }

    fn requested(&mut self, request: Request) {
        match request {
            Request::Join { tenant, subscribers, told, reply } => {
                let joined = self.join(&tenant, subscribers, told);
                // Should it have gone away meanwhile, its next notice finds its outbox closed.
                let _ = reply.send(joined);
            }
            Request::Arrive { room, owner, name, reply } => {
                // Should it have gone away meanwhile, it departs next.
                let _ = reply.send(self.presence.arrive(&room, &owner, name.as_ref()));
                self.tell_news();
            }
            Request::Depart { room, owner } => self.presence.depart(&room, &owner),
            Request::Sightings { wanted, reply } => {
                let _ = reply.send(match wanted {
                    SightingsWanted::All => self.presence.take_everyone(),
                    SightingsWanted::Changed => self.presence.take_untold(),
                });
            }
            Request::Heard(said) => {
                self.presence.heard(said);
                self.tell_news();
            }
            Request::HeardActivity(said) => self.tell_activity(&said),
            Request::UntoldActivity(reply) => {
                let _ = reply.send(self.presence.take_untold_activity());
            }
            Request::Leave { tenant, scope, id } => self.rooms.leave(tenant, scope, id),
            Request::Settle(reply) => {
                let _ = reply.send(());
            }
        }
    }

    fn join(
        &mut self,
        tenant: &TenantId,
        subscribers: Vec<Subscriber>,
        told: Option<Participants>,
    ) -> Result<(), NotJoined> {
        let newcomer = told.and_then(|told| match subscribers.as_slice() {
            [Subscriber { scope: Scope::Room(room), outbox, wire, .. }] => {
                Some((told, (tenant.clone(), room.clone()), Arc::clone(outbox), *wire))
            }
            _ => None,
        });
        let joined = self.rooms.join(tenant, subscribers);
        if let Some((told, room, outbox, wire)) = newcomer.filter(|_| joined.is_ok()) {
            for (change, participant) in self.presence.changes_since(&told, &room) {
                self.rooms.offer_to(&outbox, (wire.presence)(&room.1, change, &participant));
            }
        }
        self.rooms.send();
        joined
    }

    fn tell_news(&mut self) {
        for News { room, change, participant } in self.presence.take_news() {
            self.rooms.offer(&room, |wire| (wire.presence)(&room.1, change, &participant));
        }
        self.rooms.send();
    }

    async fn catch_up(&mut self) {
        self.look_at = self.clock.now().plus_millis(LOOK_MS);
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
            self.lines.heard(&event);
            self.keeper.heard(&event);
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
