//! The one place that reads the time (clippy's `disallowed-methods` sees to it).
//!
//! doclock's time never runs backwards. On SQLite it is the wall time at the start, floored at the last sign of life
//! in the database, plus what the monotonic clock has counted since: a step of the wall clock while it runs changes
//! nothing. On PostgreSQL it is the database's, read anew by every batch ([`Clock::told`]); between two readings the
//! monotonic clock goes on from the last one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::watch;

use crate::locking::Timestamp;

#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System { start: Timestamp, since: Instant },
    Database(Arc<DatabaseClock>),
    Manual(ManualClock),
}

impl Clock {
    /// Starts now, but not before `floor`.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn system(floor: Timestamp) -> Self {
        Self(Source::System { start: wall_time().max(floor), since: Instant::now() })
    }

    /// Starts at a reading of the database, and goes on from there until [`Clock::told`] brings the next one.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn database(now: Timestamp) -> Self {
        let (base, latest) = (AtomicI64::new(now.millis()), AtomicI64::new(now.millis()));
        Self(Source::Database(Arc::new(DatabaseClock { since: Instant::now(), base, latest })))
    }

    pub fn manual(clock: ManualClock) -> Self {
        Self(Source::Manual(clock))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { start, since } => {
                start.plus_millis(i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX))
            }
            Source::Database(clock) => clock.now(),
            Source::Manual(clock) => clock.now(),
        }
    }

    /// Takes a reading of the database, and returns the time to decide by. Only a clock of the database uses the
    /// reading; the others return their own time.
    pub fn told(&self, now: Timestamp) -> Timestamp {
        match &self.0 {
            Source::Database(clock) => clock.told(now),
            Source::System { .. } | Source::Manual(_) => self.now(),
        }
    }

    /// Returns the time of a test's clock, which is used instead of the database's; `None` if it is not a test's clock.
    pub fn manual_now(&self) -> Option<Timestamp> {
        match &self.0 {
            Source::Manual(clock) => Some(clock.now()),
            Source::System { .. } | Source::Database(_) => None,
        }
    }

    /// Returns the wall-clock time, for what others have dated: tokens.
    pub fn wall(&self) -> Timestamp {
        match &self.0 {
            Source::System { .. } | Source::Database(_) => wall_time(),
            Source::Manual(clock) => clock.now(),
        }
    }

    pub async fn sleep(&self, duration: Duration) {
        match &self.0 {
            Source::System { .. } | Source::Database(_) => tokio::time::sleep(duration).await,
            Source::Manual(clock) => clock.sleep_until(clock.now().plus_millis(millis(duration))).await,
        }
    }

    pub async fn sleep_until(&self, moment: Timestamp) {
        match &self.0 {
            Source::System { .. } | Source::Database(_) => {
                let left = u64::try_from(moment.millis_since(self.now())).unwrap_or_default();
                tokio::time::sleep(Duration::from_millis(left)).await;
            }
            Source::Manual(clock) => clock.sleep_until(moment).await,
        }
    }
}

#[derive(Debug)]
struct DatabaseClock {
    since: Instant,
    /// The database's time at `since`, by the last reading.
    base: AtomicI64,
    /// The latest time that was returned; no earlier one is returned after it.
    latest: AtomicI64,
}

impl DatabaseClock {
    fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn now(&self) -> Timestamp {
        self.not_before(self.base.load(Ordering::Acquire).saturating_add(self.elapsed_ms()))
    }

    fn told(&self, now: Timestamp) -> Timestamp {
        self.base.store(now.millis() - self.elapsed_ms(), Ordering::Release);
        self.latest.fetch_max(now.millis(), Ordering::AcqRel);
        now
    }

    fn not_before(&self, millis: i64) -> Timestamp {
        Timestamp::from_millis(self.latest.fetch_max(millis, Ordering::AcqRel).max(millis))
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn wall_time() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// Time that passes when a test says so.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<watch::Sender<Timestamp>>);

impl ManualClock {
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Arc::new(watch::Sender::new(start)))
    }

    pub fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    pub fn advance(&self, duration: Duration) {
        self.0.send_modify(|now| *now = now.plus_millis(millis(duration)));
    }

    async fn sleep_until(&self, moment: Timestamp) {
        // The sender lives in `self`: it cannot be gone.
        let _ = self.0.subscribe().wait_for(|now| *now >= moment).await;
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Measures how long something took, for metrics and logs.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
