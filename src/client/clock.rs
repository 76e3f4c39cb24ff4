//! The time that deadlines are counted in.

use std::{sync::Arc, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

// Linux stops its monotonic clock while the machine is suspended, and a lock's ttl does not wait for that.
#[cfg(any(target_os = "linux", target_os = "android"))]
const COUNTS_SLEEP: ClockId = ClockId::Boottime;
// On Apple's systems the monotonic clock goes on in suspend.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const COUNTS_SLEEP: ClockId = ClockId::Monotonic;

/// Timers stand still while the machine is suspended. Looking at the clock this often bounds how late that is noticed.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Time since an arbitrary start. It counts the time that the machine sleeps.
#[derive(Debug, Clone)]
pub struct BootClock(Source);

#[derive(Debug, Clone)]
enum Source {
    Machine,
    Test(TestClock),
}

impl BootClock {
    /// The machine's.
    pub fn machine() -> Self {
        Self(Source::Machine)
    }

    pub(super) fn now(&self) -> Duration {
        match &self.0 {
            Source::Machine => Duration::try_from(clock_gettime(COUNTS_SLEEP)).unwrap_or_default(),
            Source::Test(clock) => *clock.0.borrow(),
        }
    }

    /// Returns once [`now`](Self::now) has reached `moment`.
    pub(super) async fn sleep_until(&self, moment: Duration) {
        match &self.0 {
            Source::Machine => {
                while let Some(left) = moment.checked_sub(self.now()).filter(|left| !left.is_zero()) {
                    tokio::time::sleep(left.min(LONGEST_NAP)).await;
                }
            }
            Source::Test(clock) => {
                // The sender lives in `clock`: it cannot be gone.
                let _ = clock.0.subscribe().wait_for(|now| *now >= moment).await;
            }
        }
    }

    /// The result of `work`, or `None` once the clock has reached `limit`. Then `work` has been dropped.
    pub(super) async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep_until(limit) => None,
        }
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<watch::Sender<Duration>>);

impl TestClock {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Duration::from_secs(1000))))
    }

    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now += by);
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&TestClock> for BootClock {
    fn from(clock: &TestClock) -> Self {
        Self(Source::Test(clock.clone()))
    }
}
