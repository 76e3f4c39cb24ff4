//! Signs of life while a statement runs.
//!
//! While a long statement of our own runs, no sign of life can be written. That is no outage, and no reason for grace:
//! the database is there. A process that was stopped, or a disk that hung, is an outage. SQLite calls back while it
//! works, which tells the two apart: a statement that works leaves no gap between two calls, a process that stands
//! still does.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::{locking::Timestamp, time::liveness::Life};

#[derive(Debug)]
pub(super) struct Pulse {
    last: AtomicI64,
    has_stopped: AtomicBool,
}

impl Pulse {
    /// How many operations SQLite's virtual machine does between two calls: a few milliseconds.
    pub const OPERATIONS: i32 = 100_000;

    pub fn new(now: Timestamp) -> Self {
        Self { last: AtomicI64::new(now.millis()), has_stopped: AtomicBool::new(false) }
    }

    /// Called when a transaction begins: whether there was an outage before has been decided by then.
    pub fn begin(&self, now: Timestamp) {
        self.last.store(now.millis(), Ordering::Relaxed);
        self.has_stopped.store(false, Ordering::Relaxed);
    }

    pub fn felt(&self, now: Timestamp) {
        let last = Timestamp::from_millis(self.last.swap(now.millis(), Ordering::Relaxed));
        if Life::is_outage(last, now) {
            self.has_stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Called at the end of the transaction. Returns the sign of life to write, if one is due and there was no gap.
    pub fn since(&self, last_alive: Timestamp, now: Timestamp) -> Option<Timestamp> {
        self.felt(now);
        let is_due = now.millis_since(last_alive) >= Life::BEAT_MS;
        (is_due && !self.has_stopped.load(Ordering::Relaxed)).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_long_statement_is_alive_and_a_stopped_one_is_not() {
        let pulse = Pulse::new(at(0));
        pulse.begin(at(0));
        (1..10).for_each(|second| pulse.felt(at(second * 1000)));
        assert_eq!(pulse.since(at(0), at(10_000)), Some(at(10_000)));
        pulse.begin(at(10_000));
        pulse.felt(at(13_001));
        assert_eq!(pulse.since(at(10_000), at(14_000)), None, "it stood still for more than three seconds");
        pulse.begin(at(14_000));
        assert_eq!(pulse.since(at(14_000), at(14_500)), None, "none is due");
    }

    #[test]
    fn sqlite_calls_while_it_works() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let calls = std::sync::Arc::new(AtomicI64::new(0));
        let count = std::sync::Arc::clone(&calls);
        let called = move || {
            count.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(Pulse::OPERATIONS, Some(called)).unwrap();
        let long =
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT max(i) FROM n";
        connection.query_row(long, [], |row| row.get::<_, i64>(0)).unwrap();
        assert!(calls.load(Ordering::Relaxed) > 10);
    }
}
