//! Getting a lock: in the server's line where it has one, by polling where it has not.
//!
//! 1. One request, with one `request_id`, is sent until it is answered with a lock, an end, or the time is up. Repeating
//!    it is safe: if an answer was lost on its way, the repeat is answered with the lock that was granted.
//! 2. `LOCK_HELD` after the whole wait: it keeps its place in line, so it asks again at once. `LOCK_HELD` sooner than
//!    that, or without a line: a pause as [`Delays`] says.
//! 3. Time up or cancelled while no answer had come: whatever may have been granted is unlocked by its session, which is
//!    of this one attempt, so that nothing of anyone else can be meant.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::{
    HeldLock, LockError, LockName, LockTimeout, Wait,
    backend::{Backend, Grant, LockAsk, LockOf},
    delays::Delays,
    lease::Lease,
    renewer,
    unlocking::unlock_for,
};

/// The longest wait the server allows in one request.
const LONGEST_WAIT_MS: u64 = 55_000;
/// We hang up this much before the server would answer: who hangs up gives up its place in line, who is answered keeps it.
const HANG_UP_FIRST_MS: u64 = 1000;
/// The last poll may take this long past the timeout.
const LAST_POLL: Duration = Duration::from_secs(1);
/// How long a caller whose attempt has failed waits for the clean-up, which goes on behind its back.
const CLEAN_UP_WAITS: Duration = Duration::from_secs(1);

/// What a manager asks for, every time.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub name: LockName,
    pub ttl_seconds: u32,
    pub capacity: u32,
    pub metadata: Option<Value>,
}

impl Wish {
    fn ask(&self, wait_ms: u64) -> LockAsk {
        LockAsk {
            name: self.name.clone(),
            request_id: Uuid::new_v4().to_string(),
            session_id: session_id(),
            ttl_seconds: self.ttl_seconds,
            capacity: self.capacity,
            wait_ms,
            metadata: self.metadata.clone(),
        }
    }
}

/// New for every lock: two locks of one process must not pass for one that was resumed. Says where it is from.
fn session_id() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(char::is_ascii_graphic).take(100).collect();
    format!("{host}:{}:{}", std::process::id(), Uuid::new_v4().simple())
}

/// Runs on the renewer. Dropping it before its end gives up what may have been granted.
pub(super) async fn acquire(
    backend: Backend,
    wish: Wish,
    wait: Wait,
    random: fastrand::Rng,
) -> Result<HeldLock, LockError> {
    let mut attempt = Attempt::new(backend, wish, wait, random);
    let lease = attempt.run().await;
    if lease.is_err() {
        attempt.clean_up().await;
    }
    lease.map(HeldLock::new)
}

struct Attempt {
    backend: Backend,
    wish: Wish,
    wait: Wait,
    until: Duration,
    polls: Delays,
    repeats: Delays,
    ask: LockAsk,
    /// Whether the server may have granted a lock that we have not heard of.
    in_doubt: bool,
}

impl Attempt {
    fn new(backend: Backend, wish: Wish, wait: Wait, random: fastrand::Rng) -> Self {
        let until = backend.clock().now().saturating_add(wait.timeout);
        let polls = Delays::new(wait.initial_delay, wait.max_delay, random);
        let repeats = Delays::of_repeats(wait.max_delay);
        let ask = fresh_ask(&backend, &wish, wait);
        Self { backend, wish, wait, until, polls, repeats, ask, in_doubt: false }
    }

    async fn run(&mut self) -> Result<Lease, LockError> {
        let mut last = None;
        loop {
            let sent_at = self.now();
            let pause = match self.try_once(sent_at).await {
                Some(Ok(lease)) => return Ok(lease),
                Some(Err(error)) => match self.pause_after(&error, sent_at) {
                    Some(pause) => {
                        last = Some(Box::new(error));
                        pause
                    }
                    None => return Err(error),
                },
                None => return Err(self.time_up(last)),
            };
            if self.now() >= self.until {
                return Err(self.time_up(last));
            }
            let next = self.now().saturating_add(pause).min(self.until);
            self.backend.clock().sleep_until(next).await;
        }
    }

    /// `None` if the time was up before the answer.
    async fn try_once(&mut self, sent_at: Duration) -> Option<Result<Lease, LockError>> {
        let doubt_before = std::mem::replace(&mut self.in_doubt, true);
        let limit = self.limit(sent_at);
        let granted = match self.backend.clock().within(limit, self.backend.lock(&self.ask)).await? {
            Ok(grant) => self.freshen(grant, sent_at).await,
            Err(error) => {
                if error.did_nothing() {
                    self.in_doubt = doubt_before;
                }
                Err(error)
            }
        };
        Some(granted.map(|(grant, sent_at)| {
            self.in_doubt = false;
            Lease::new(self.backend.clone(), self.wish.name.clone(), grant, sent_at)
        }))
    }

    fn limit(&self, sent_at: Duration) -> Duration {
        if self.ask.wait_ms > 0 {
            return self.until;
        }
        let patience = if self.wait.timeout.is_zero() { self.backend.request_timeout() } else { LAST_POLL };
        self.until.max(sent_at + patience)
    }

    /// After a long wait little or nothing is left of a deadline counted from before it: a heartbeat moves it.
    async fn freshen(&self, mut grant: Grant, mut sent_at: Duration) -> Result<(Grant, Duration), LockError> {
        let clock = self.backend.clock();
        while clock.now().saturating_sub(sent_at) > (grant.ttl / 3).min(grant.expires_in) {
            sent_at = clock.now();
            let extend = self.backend.extend(&self.wish.name, &grant.lease_id);
            grant = clock.within(sent_at + grant.ttl / 3, extend).await.ok_or_else(|| LockError::Unreachable {
                detail: "the first heartbeat got no answer".to_owned(),
                was_sent: true,
            })??;
        }
        Ok((grant, sent_at))
    }

    /// The time until the next request, or `None` if there is no point in one.
    fn pause_after(&mut self, error: &LockError, sent_at: Duration) -> Option<Duration> {
        if self.ask.wait_ms > 0 && !self.backend.has_line() {
            // It has just learned that the server does not know `wait_ms`.
            self.ask_anew();
            return Some(Duration::ZERO);
        }
        if error.code() == "LOCK_HELD" {
            self.in_doubt = false;
            self.repeats = Delays::of_repeats(self.wait.max_delay);
            let most_of_the_wait = Duration::from_millis(self.ask.wait_ms / 10 * 9);
            let has_waited = self.ask.wait_ms > 0 && self.now().saturating_sub(sent_at) >= most_of_the_wait;
            return Some(if has_waited { Duration::ZERO } else { self.polls.pause() });
        }
        if let LockError::Lost(_) = error {
            // A grant whose answer was lost has ended since. Its request_id will not be granted again.
            self.ask_anew();
            return Some(self.repeats.pause());
        }
        error.is_retryable().then(|| self.repeats.pause().max(error.retry_after().unwrap_or_default()))
    }

    fn ask_anew(&mut self) {
        self.in_doubt = false;
        self.ask = fresh_ask(&self.backend, &self.wish, self.wait);
    }

    fn now(&self) -> Duration {
        self.backend.clock().now()
    }

    fn time_up(&self, last: Option<Box<LockError>>) -> LockError {
        LockTimeout { name: self.wish.name.clone(), timeout: self.wait.timeout, last }.into()
    }

    async fn clean_up(&mut self) {
        if let Some(task) = self.start_clean_up() {
            let _ = tokio::time::timeout(CLEAN_UP_WAITS, task).await;
        }
    }

    fn start_clean_up(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        if !std::mem::take(&mut self.in_doubt) {
            return None;
        }
        let (backend, ask) = (self.backend.clone(), self.ask.clone());
        let unlock = async move {
            let limit = Duration::from_secs(ask.ttl_seconds.into());
            // Usually answered LOCK_NOT_FOUND or NOT_OWNER: nothing had been granted.
            let _ = unlock_for(limit, &backend, &ask.name, &LockOf::Session(ask.session_id)).await;
        };
        renewer::run_to_end(unlock).ok()
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.start_clean_up();
    }
}

fn fresh_ask(backend: &Backend, wish: &Wish, wait: Wait) -> LockAsk {
    let timeout_ms = u64::try_from(wait.timeout.as_millis()).unwrap_or(u64::MAX);
    let waits = timeout_ms > 0 && backend.has_line();
    wish.ask(if waits { timeout_ms.saturating_add(HANG_UP_FIRST_MS).min(LONGEST_WAIT_MS) } else { 0 })
}
