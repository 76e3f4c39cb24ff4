//! A lock as its holder sees it.

use std::{
    fmt,
    sync::{Arc, mpsc},
    time::Duration,
};

use tokio::task::AbortHandle;

use super::{LockError, LockLost, LockName, lease::Lease, renewer};

/// How long a drop waits for the server to be told.
const DROP_WAITS: Duration = Duration::from_secs(1);

/// A lock that is held. Its heartbeats go out by themselves.
///
/// Dropping it releases it, on an early return and on a panic, too. Because a program may end right after that, the drop
/// waits until the server has been told, for up to a second; where that is too long, end it by [`release`](Self::release).
pub struct HeldLock {
    lease: Arc<Lease>,
    heartbeats: AbortHandle,
    is_given_up: bool,
}

impl HeldLock {
    /// Called on the renewer.
    pub(super) fn new(lease: Lease) -> Self {
        let lease = Arc::new(lease);
        let heartbeats = tokio::spawn(Arc::clone(&lease).renew()).abort_handle();
        Self { lease, heartbeats, is_given_up: false }
    }

    pub fn name(&self) -> &LockName {
        self.lease.name()
    }

    /// Grows by one with every grant of this name. Storage that remembers the highest one can refuse late writes.
    pub fn fencing_token(&self) -> u64 {
        self.lease.fencing_token()
    }

    pub fn lease_id(&self) -> &str {
        self.lease.id()
    }

    /// Fails unless the lock is held now. Asks the clock and not the network: call it before every step that matters.
    pub fn ensure_held(&self) -> Result<(), LockLost> {
        self.lease.ensure_held()
    }

    /// How long it is held if no further heartbeat is answered.
    pub fn expires_in(&self) -> Duration {
        self.lease.left()
    }

    /// A future that is done when the lock is lost: the server said so, or no heartbeat was answered in time. It is never
    /// done if the lock is released before. It outlives the lock and may be moved to another task.
    pub fn lost(&self) -> impl Future<Output = LockLost> + Send + 'static {
        let lease = Arc::clone(&self.lease);
        async move {
            match renewer::run(async move { lease.lost().await }).await {
                Ok(lost) => lost,
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// A future that is done when less than `margin` is left before the deadline, or the lock is over: for work that
    /// takes some time to stop.
    pub fn nearly_lost(&self, margin: Duration) -> impl Future<Output = ()> + Send + 'static {
        let lease = Arc::clone(&self.lease);
        async move {
            let _ = renewer::run(async move { lease.nearly_lost(margin).await }).await;
        }
    }

    /// Unlocks. Fails with [`LockLost`] if the lock was lost before, with another error if the server could not be told: then
    /// it lives out its ttl. Goes on if the future is dropped.
    pub async fn release(mut self) -> Result<(), LockError> {
        match self.give_up() {
            Some(lease) => renewer::result(renewer::run_to_end(async move { lease.release().await })?).await?,
            None => Ok(()),
        }
    }

    /// Stops the heartbeats. Returns what is to be released, once.
    fn give_up(&mut self) -> Option<Arc<Lease>> {
        self.heartbeats.abort();
        (!std::mem::replace(&mut self.is_given_up, true)).then(|| Arc::clone(&self.lease))
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let Some(lease) = self.give_up() else { return };
        let (done, is_done) = mpsc::channel();
        let released = renewer::run_to_end(async move {
            if let Err(error) = lease.release().await {
                tracing::warn!(lock = %lease.name(), %error, "lock not released");
            }
            let _ = done.send(());
        });
        if released.is_ok() && !renewer::is_here() {
            let _ = is_done.recv_timeout(DROP_WAITS);
        }
    }
}

impl fmt::Debug for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.ensure_held().is_ok() { "held" } else { "over" };
        write!(f, "HeldLock({}, token {}, {state})", self.name(), self.fencing_token())
    }
}
