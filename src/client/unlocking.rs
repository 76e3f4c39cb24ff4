//! Telling the server that a lock is given up.

use std::time::Duration;

use uuid::Uuid;

use super::{
    BootClock, LockError, LockName,
    backend::{Backend, LockOf},
    delays::Delays,
};

const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Unlocks, repeating until the server has answered. Fails with what went wrong last if that takes longer than `limit`.
///
/// By the machine's clock also where the backend has another: the end of a lock must not wait for a test to move it.
pub(super) async fn unlock_for(
    limit: Duration,
    backend: &Backend,
    name: &LockName,
    which: &LockOf,
) -> Result<(), LockError> {
    let clock = BootClock::machine();
    let until = clock.now().saturating_add(limit);
    let request_id = Uuid::new_v4().to_string();
    let mut pauses = Delays::of_repeats(LONGEST_PAUSE);
    let mut last = LockError::Unreachable { detail: format!("no answer came that {name} is unlocked"), was_sent: true };
    loop {
        match clock.within(until, backend.unlock(name, &request_id, which)).await {
            None => return Err(last),
            Some(Err(error)) if error.is_retryable() && clock.now() < until => last = error,
            Some(done) => return done,
        }
        clock.sleep_until((clock.now() + pauses.pause()).min(until)).await;
    }
}
