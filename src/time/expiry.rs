//! Overdue locks are announced within 250 ms.
//!
//! Correctness never waits for this: a command that meets an overdue lock ends it. This worker ends those that no
//! command meets.
//! 1. It looks whether any lock's `due_at` has come, by an index that heartbeats do not touch.
//! 2. If so, it has the committer take steps, in the lane of chores: each ends what is overdue and gives a new `due_at`
//!    to what was extended, some thousands at a time. On PostgreSQL several servers take different locks.

use std::sync::Arc;

use super::{clock::Clock, liveness::Life};
use crate::{
    committer::{Committer, SubmitError},
    locking::{Command, Expire},
    storage::Queries,
};

/// Leaves 200 of the 250 ms for the commit, which may end thousands of locks.
const EVERY_MS: i64 = 50;
/// Asks and dead tickets are looked at every so many times.
const ASKS_EVERY: u32 = 4;
/// Documents in one command.
const ASKS: u64 = 200;

#[derive(Debug, Clone)]
pub struct Expiry {
    pub committer: Committer,
    pub queries: Queries,
    pub life: Arc<Life>,
    pub clock: Clock,
}

impl Expiry {
    /// Ends what is overdue now.
    pub async fn expire_due(&self) -> Result<(), SubmitError> {
        if self.queries.is_any_due(self.life.judged_at(self.clock.now()).at).await? {
            while self.committer.expire().await? > 0 {}
        }
        Ok(())
    }

    /// Ends asks that nobody has answered in time, and deletes tickets that nobody has renewed.
    pub async fn expire_asks_and_tickets(&self) -> Result<(), SubmitError> {
        let now = self.clock.now();
        loop {
            let keys = self.queries.documents_with_due_asks(now, ASKS).await?;
            if keys.is_empty() {
                break;
            }
            self.committer.submit(Command::Expire(Expire { keys })).await?;
        }
        if self.queries.is_any_ticket_dead(now).await? {
            while self.committer.delete_dead_tickets().await? > 0 {}
        }
        Ok(())
    }

    pub async fn run(self) {
        let mut is_failing = false;
        let mut looks = 0;
        loop {
            // Counted from the start of one look to the start of the next, so that the time of a look does not add to
            // the delay.
            let next = self.clock.now().plus_millis(EVERY_MS);
            let mut expired = self.expire_due().await;
            looks = (looks + 1) % ASKS_EVERY;
            if looks == 0 && expired.is_ok() {
                expired = self.expire_asks_and_tickets().await;
            }
            // This runs twenty times a second, so only the first of several failures is logged.
            if let Err(error) = &expired
                && !is_failing
            {
                tracing::warn!(%error, "overdue locks cannot be expired, trying again and again");
            }
            is_failing = expired.is_err();
            self.clock.sleep_until(next).await;
        }
    }
}
