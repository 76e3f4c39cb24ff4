//! The one place that reads the time (clippy's `disallowed-methods` sees to it).
//!
//! doclock's time never runs backwards: it is the wall time at the start, floored at the last sign of life in the
//! database, plus what the monotonic clock has counted since. A step of the wall clock while it runs changes nothing.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::watch;

use crate::locking::Timestamp;

#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System { start: Timestamp, since: Instant },
    Manual(ManualClock),
}

impl Clock {
    /// Starts now, but not before `floor`.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn system(floor: Timestamp) -> Self {
        Self(Source::System { start: wall_time().max(floor), since: Instant::now() })
    }

    pub fn manual(clock: ManualClock) -> Self {
        Self(Source::Manual(clock))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { start, since } => {
                start.plus_millis(i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX))
            }
            Source::Manual(clock) => clock.now(),
        }
    }

    /// The time of the world outside, for what others have dated: tokens.
    pub fn wall(&self) -> Timestamp {
        match &self.0 {
            Source::System { .. } => wall_time(),
            Source::Manual(clock) => clock.now(),
        }
    }

    pub async fn sleep(&self, duration: Duration) {
        match &self.0 {
            Source::System { .. } => tokio::time::sleep(duration).await,
            Source::Manual(clock) => clock.sleep_until(clock.now().plus_millis(millis(duration))).await,
        }
    }

    pub async fn sleep_until(&self, moment: Timestamp) {
        match &self.0 {
            Source::System { .. } => {
                let left = u64::try_from(moment.millis_since(self.now())).unwrap_or_default();
                tokio::time::sleep(Duration::from_millis(left)).await;
            }
            Source::Manual(clock) => clock.sleep_until(moment).await,
        }
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
