//! Signs of life, outages and grace.
//!
//! 1. Every second some batch writes `last_alive`; an idle server sends an empty one for it.
//! 2. A batch that finds `last_alive` more than 3 s ago has found an outage, whatever its cause. Before anything is
//!    decided it gives every lock that was alive then a whole ttl from now (the home of storage does that, inside
//!    the transaction).
//! 3. Reads between the outage and that batch judge locks by [`Life::judged_at`], which is what grace will make true.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use crate::{
    clock::Clock,
    committer::Committer,
    locking::{Command, Expire, Timestamp},
};

#[derive(Debug)]
pub struct Life {
    last_alive: AtomicI64,
}

impl Life {
    pub const BEAT_MS: i64 = 1000;
    const OUTAGE_MS: i64 = 3000;
    /// Twice per beat, so that the rounding of timers cannot stretch a beat to two.
    const TICK: Duration = Duration::from_millis(500);

    pub fn new(last_alive: Timestamp) -> Self {
        Self { last_alive: AtomicI64::new(last_alive.millis()) }
    }

    pub fn is_outage(last_alive: Timestamp, now: Timestamp) -> bool {
        now.millis_since(last_alive) > Self::OUTAGE_MS
    }

    pub fn seen(&self, last_alive: Timestamp) {
        self.last_alive.store(last_alive.millis(), Ordering::Release);
    }

    /// Whether the database has been reached lately.
    pub fn is_alive(&self, now: Timestamp) -> bool {
        !Self::is_outage(self.last_alive(), now)
    }

    /// The moment at which a read sees whether locks live.
    pub fn judged_at(&self, now: Timestamp) -> Timestamp {
        if self.is_alive(now) { now } else { self.last_alive() }
    }

    fn last_alive(&self) -> Timestamp {
        Timestamp::from_millis(self.last_alive.load(Ordering::Acquire))
    }
}

/// One sign of life. A failure is logged by the committer and seen in `/readyz`.
pub async fn beat(committer: &Committer) {
    let _ = committer.submit(Command::Expire(Expire::default())).await;
}

pub async fn run(committer: Committer, clock: Clock) {
    loop {
        beat(&committer).await;
        clock.sleep(Life::TICK).await;
    }
}
