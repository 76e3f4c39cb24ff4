//! A lock while it is ours: until when, whether it is lost, its heartbeats, its end.
//!
//! Once it is lost it stays lost: code that saw so must not see it undone by a late answer.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    LockError, LockLost, LockName,
    backend::{Backend, Grant, LockOf},
    unlocking::unlock_for,
};

/// How long it tries to unlock what it has lost by its own clock and the server may think is held.
const GIVE_UP: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Lease {
    backend: Backend,
    name: LockName,
    id: String,
    fencing_token: u64,
    ttl: Duration,
    standing: watch::Sender<Standing>,
}

#[derive(Debug, Clone)]
struct Standing {
    /// When the last request that was answered with the lock had been sent.
    sent_at: Duration,
    deadline: Duration,
    over: Option<Over>,
}

/// Why it is not held any more.
#[derive(Debug, Clone)]
enum Over {
    Released,
    Lost(LockLost),
}

impl Lease {
    pub(super) fn new(backend: Backend, name: LockName, grant: Grant, sent_at: Duration) -> Self {
        let standing = Standing { sent_at, deadline: sent_at.saturating_add(grant.expires_in), over: None };
        let Grant { lease_id: id, fencing_token, ttl, .. } = grant;
        Self { backend, name, id, fencing_token, ttl, standing: watch::Sender::new(standing) }
    }

    pub(super) fn name(&self) -> &LockName {
        &self.name
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn fencing_token(&self) -> u64 {
        self.fencing_token
    }

    /// Judged by the clock and not by whether the heartbeats have had time to notice.
    pub(super) fn ensure_held(&self) -> Result<(), LockLost> {
        self.lose_if_overdue();
        match &self.standing.borrow().over {
            None => Ok(()),
            Some(Over::Lost(lost)) => Err(lost.clone()),
            Some(Over::Released) => Err(LockLost::new(&self.name, "LEASE_RELEASED", "it has been released")),
        }
    }

    /// How long it is held if no further heartbeat is answered.
    pub(super) fn left(&self) -> Duration {
        self.standing.borrow().deadline.saturating_sub(self.backend.clock().now())
    }

    /// Returns when it is lost; never, if it is released before.
    pub(super) async fn lost(&self) -> LockLost {
        let mut standing = self.standing.subscribe();
        loop {
            let deadline = match &*standing.borrow_and_update() {
                Standing { over: Some(Over::Lost(lost)), .. } => return lost.clone(),
                Standing { over: Some(Over::Released), .. } => Duration::MAX,
                Standing { deadline, .. } => *deadline,
            };
            // The sender is in `self`: it cannot be gone.
            if self.backend.clock().within(deadline, standing.changed()).await.is_none() {
                self.lose_if_overdue();
            }
        }
    }

    /// Returns once less than `margin` is left before the deadline, or it is over.
    pub(super) async fn nearly_lost(&self, margin: Duration) {
        let mut standing = self.standing.subscribe();
        loop {
            let deadline = match &*standing.borrow_and_update() {
                Standing { over: Some(_), .. } => return,
                Standing { deadline, .. } => deadline.saturating_sub(margin),
            };
            if self.backend.clock().within(deadline, standing.changed()).await.is_none() {
                return;
            }
        }
    }

    fn lose_if_overdue(&self) {
        let now = self.backend.clock().now();
        self.lose_if(
            |standing| now >= standing.deadline,
            || {
                let detail = format!("no heartbeat was answered within its {:?}", self.ttl);
                LockLost::new(&self.name, LockLost::DEADLINE_PASSED, detail)
            },
        );
    }

    fn lose_if(&self, is_lost: impl Fn(&Standing) -> bool, reason: impl FnOnce() -> LockLost) {
        let mut reason = Some(reason);
        self.standing.send_if_modified(|standing| {
            if standing.over.is_some() || !is_lost(standing) {
                return false;
            }
            standing.over = reason.take().map(|reason| Over::Lost(reason()));
            true
        });
    }

    /// Sends heartbeats at a third of the ttl until it is over. Whatever goes wrong with them, it tries again until the
    /// deadline.
    pub(super) async fn renew(self: Arc<Self>) {
        let clock = self.backend.clock();
        let interval = self.ttl / 3;
        let mut due = self.standing.borrow().sent_at + interval;
        loop {
            let deadline = self.standing.borrow().deadline;
            clock.sleep_until(due.min(deadline)).await;
            if let Err(lost) = self.ensure_held() {
                tracing::warn!(lock = %self.name, %lost, "lock lost");
                return;
            }
            match self.heartbeat().await {
                Ok(()) => due = self.standing.borrow().sent_at + interval,
                Err(LockError::Lost(lost)) => {
                    tracing::warn!(lock = %self.name, %lost, "lock lost");
                    self.lose_if(|_| true, || lost);
                    return;
                }
                Err(error) => {
                    tracing::info!(lock = %self.name, %error, "heartbeat failed, trying again");
                    // A server that asks for patience gets it, but not the whole time that is left.
                    let patience = error.retry_after().unwrap_or_default().min(self.left() / 2);
                    due = clock.now() + (interval / 4).min(Duration::from_secs(1)).max(patience);
                }
            }
        }
    }

    async fn heartbeat(&self) -> Result<(), LockError> {
        let clock = self.backend.clock();
        let sent_at = clock.now();
        // A heartbeat that takes longer is worth less than a new one, and after the deadline nothing.
        let limit = (sent_at + self.ttl / 3).min(self.standing.borrow().deadline);
        let Some(answer) = clock.within(limit, self.backend.extend(&self.name, &self.id)).await else {
            return Err(LockError::Unreachable { detail: "the heartbeat got no answer".to_owned(), was_sent: true });
        };
        let grant = answer?;
        self.lose_if_overdue();
        self.standing.send_if_modified(|standing| {
            let is_held = standing.over.is_none();
            if is_held {
                (standing.sent_at, standing.deadline) = (sent_at, sent_at.saturating_add(grant.expires_in));
            }
            is_held
        });
        Ok(())
    }

    /// Unlocks. Fails with [`LockLost`] if it was lost before, with another error if the server could not be told: then
    /// the lock lives out its ttl.
    pub(super) async fn release(&self) -> Result<(), LockError> {
        let which = LockOf::Lease(self.id.clone());
        if let Err(lost) = self.ensure_held() {
            if lost.code == LockLost::DEADLINE_PASSED {
                // A server that was away gives its locks more time. We have stopped, so others need not wait for that.
                let _ = unlock_for(GIVE_UP, &self.backend, &self.name, &which).await;
            }
            return Err(lost.into());
        }
        self.standing.send_modify(|standing| standing.over = Some(Over::Released));
        unlock_for(self.backend.release_timeout(), &self.backend, &self.name, &which).await
    }
}
