//! The backend within this process: for tests, and for programs that are alone on one machine.
//!
//! It behaves as the server does: fencing tokens, expiry, a fair line, semaphores, repeated requests. What a test needs
//! besides is here too: a clock to move, and things to go wrong.

mod table;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{
    BootClock, LockError, LockLost, LockName, ServerProblem,
    backend::{Grant, LockAsk, LockOf},
};
use table::{Attempted, MemoryLock, Table};

/// How long a waiter keeps its place in line between two calls.
const PLACE_KEPT: Duration = Duration::from_secs(15);

/// Locks between the tasks and threads of this process. Clones share them.
#[derive(Debug, Clone)]
pub struct MemoryLocks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: BootClock,
    has_line: bool,
    table: Mutex<Table>,
    is_cut_off: AtomicBool,
    answers_to_drop: AtomicU32,
    requests: AtomicUsize,
}

impl MemoryLocks {
    pub fn new() -> Self {
        Self::with(BootClock::machine(), true)
    }

    /// On a clock that a test moves: see [`TestClock`](super::TestClock).
    pub fn on(clock: impl Into<BootClock>) -> Self {
        Self::with(clock.into(), true)
    }

    /// As a server that has no waiting line: callers must poll.
    pub fn without_line(clock: impl Into<BootClock>) -> Self {
        Self::with(clock.into(), false)
    }

    fn with(clock: BootClock, has_line: bool) -> Self {
        Self(Arc::new(Shared {
            clock,
            has_line,
            table: Mutex::default(),
            is_cut_off: AtomicBool::new(false),
            answers_to_drop: AtomicU32::new(0),
            requests: AtomicUsize::new(0),
        }))
    }

    /// From now on requests do not arrive.
    pub fn cut_off(&self) {
        self.0.is_cut_off.store(true, Ordering::SeqCst);
    }

    pub fn reconnect(&self) {
        self.0.is_cut_off.store(false, Ordering::SeqCst);
    }

    /// The next `count` requests are done, and their answers are lost.
    pub fn drop_answers(&self, count: u32) {
        self.0.answers_to_drop.store(count, Ordering::SeqCst);
    }

    /// Ends all locks of that name, as an admin can.
    pub fn revoke(&self, name: &LockName) {
        self.0.table.lock().revoke(name, self.0.clock.now());
    }

    /// The fencing tokens of the locks that live.
    pub fn held(&self, name: &LockName) -> Vec<u64> {
        self.0.table.lock().held(name, self.0.clock.now())
    }

    /// How many are in line.
    pub fn waiting(&self, name: &LockName) -> usize {
        self.0.table.lock().waiting(name, self.0.clock.now())
    }

    /// How many requests there have been, those that did not arrive included.
    pub fn requests(&self) -> usize {
        self.0.requests.load(Ordering::SeqCst)
    }

    pub(super) fn clock(&self) -> &BootClock {
        &self.0.clock
    }

    pub(super) fn has_line(&self) -> bool {
        self.0.has_line
    }

    pub(super) async fn lock(&self, ask: &LockAsk) -> Result<Grant, LockError> {
        self.arrive()?;
        let attempted = self.0.table.lock().attempt(ask, self.clock().now())?;
        let lock = match attempted {
            Attempted::Granted(lock) => lock,
            Attempted::Waits(granted) => self.wait(ask, granted).await?,
        };
        self.answer(self.grant(&lock))
    }

    pub(super) fn extend(&self, name: &LockName, lease_id: &str) -> Result<Grant, LockError> {
        self.arrive()?;
        let lock = self.0.table.lock().extend(name, lease_id, self.clock().now())?;
        self.answer(self.grant(&lock))
    }

    pub(super) fn unlock(&self, name: &LockName, request_id: &str, which: &LockOf) -> Result<(), LockError> {
        self.arrive()?;
        self.0.table.lock().unlock(name, request_id, which, self.clock().now())?;
        self.answer(())
    }

    async fn wait(&self, ask: &LockAsk, mut granted: oneshot::Receiver<MemoryLock>) -> Result<MemoryLock, LockError> {
        let mut place = PlaceInLine { locks: self, ask, is_answered: false };
        let until = self.clock().now() + Duration::from_millis(ask.wait_ms);
        loop {
            // Nobody but those who wait looks at overdue locks, so each waits for the next to end, too.
            let next_end = self.0.table.lock().next_end(&ask.name).unwrap_or(until);
            if let Some(granted) = self.clock().within(next_end.min(until), &mut granted).await {
                place.is_answered = true;
                // Its sender is gone if the same request came a second time, which then waits in its place.
                return granted.map_err(|_| held());
            }
            let now = self.clock().now();
            let mut table = self.0.table.lock();
            table.expire(&ask.name, now);
            if let Ok(lock) = granted.try_recv() {
                place.is_answered = true;
                return Ok(lock);
            }
            if now >= until {
                place.is_answered = true;
                table.keep_place(ask, now + PLACE_KEPT);
                return Err(held());
            }
        }
    }

    fn grant(&self, lock: &MemoryLock) -> Grant {
        Grant {
            lease_id: lock.lease_id.clone(),
            fencing_token: lock.fencing_token,
            ttl: lock.ttl,
            expires_in: lock.expires_at.saturating_sub(self.clock().now()),
        }
    }

    fn arrive(&self) -> Result<(), LockError> {
        self.0.requests.fetch_add(1, Ordering::SeqCst);
        if !self.0.is_cut_off.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(LockError::Unreachable { detail: "the memory backend is cut off".to_owned(), was_sent: false })
    }

    fn answer<T>(&self, answer: T) -> Result<T, LockError> {
        let drop_one = |count: u32| count.checked_sub(1);
        match self.0.answers_to_drop.fetch_update(Ordering::SeqCst, Ordering::SeqCst, drop_one) {
            Ok(_) => Err(LockError::Unreachable { detail: "the answer was dropped".to_owned(), was_sent: true }),
            Err(_) => Ok(answer),
        }
    }
}

impl Default for MemoryLocks {
    fn default() -> Self {
        Self::new()
    }
}

/// A caller that hangs up gives up its place, and a grant that it cannot have heard of.
struct PlaceInLine<'a> {
    locks: &'a MemoryLocks,
    ask: &'a LockAsk,
    is_answered: bool,
}

impl Drop for PlaceInLine<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.locks.0.table.lock().hang_up(self.ask, self.locks.clock().now());
        }
    }
}

fn held() -> LockError {
    refused("LOCK_HELD", "someone else holds it", true)
}

fn refused(code: &str, detail: &str, retryable: bool) -> LockError {
    let (code, detail) = (code.to_owned(), detail.to_owned());
    LockError::Refused(Box::new(ServerProblem { status: 409, code, detail, retryable, body: Value::Null }))
}

fn lost(name: &LockName, code: &str) -> LockError {
    LockLost::new(name, code, "there is no such lock any more").into()
}
