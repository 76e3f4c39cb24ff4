//! How the committer tells the publisher of each commit, after it has happened.
//!
//! The committer never waits for the publisher. What does not fit into the queue is dropped, and the publisher reads it
//! from the log.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::{Notify, mpsc};

use crate::{
    locking::Lock,
    storage::{batch::Appended, soft_state::ActivitySaid},
};

const QUEUE: usize = 4096;

/// A lock whose end has moved past what its room was told.
#[derive(Debug)]
pub struct Extension(pub Lock);

#[derive(Debug)]
pub enum Announcement {
    Appended(Appended),
    Extended(Vec<Extension>),
    Activity(Vec<ActivitySaid>),
    /// It is not known whether anything was committed.
    Unknown,
}

/// The committer's end.
#[derive(Debug, Clone)]
pub struct Announcer {
    announcements: mpsc::Sender<Announcement>,
    /// Notified when something could not be announced.
    lost: Arc<Notify>,
    listeners: Arc<AtomicU64>,
}

/// The publisher's end.
#[derive(Debug)]
pub struct Announcements {
    pub queue: mpsc::Receiver<Announcement>,
    /// Notified when something could not be announced.
    pub lost: Arc<Notify>,
    /// How many subscribers want to hear of extended locks. Counted by the publisher, so that the committer does not
    /// announce what nobody hears.
    pub listeners: Arc<AtomicU64>,
}

impl Announcer {
    pub fn new() -> (Self, Announcements) {
        let (announcements, queue) = mpsc::channel(QUEUE);
        let (lost, listeners) = (Arc::<Notify>::default(), Arc::<AtomicU64>::default());
        let announcer = Self { announcements, lost: Arc::clone(&lost), listeners: Arc::clone(&listeners) };
        (announcer, Announcements { queue, lost, listeners })
    }

    /// Must be called after the commit, never before.
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
            // Notices of extended locks may be lost.
            let _ = self.announcements.try_send(Announcement::Extended(locks));
        }
    }

    pub fn activity(&self, said: Vec<ActivitySaid>) {
        if !said.is_empty() {
            // It may be lost.
            let _ = self.announcements.try_send(Announcement::Activity(said));
        }
    }

    pub fn unknown(&self) {
        self.send(Announcement::Unknown);
    }

    fn send(&self, announcement: Announcement) {
        if self.announcements.try_send(announcement).is_err() {
            self.lost.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn what_does_not_fit_into_the_queue_is_reported_as_lost() {
        let (announcer, announcements) = Announcer::new();
        for _ in 0..QUEUE {
            announcer.unknown();
        }
        assert!(announcements.lost.notified().now_or_never().is_none());
        announcer.unknown();
        assert!(announcements.lost.notified().now_or_never().is_some());
    }
}
