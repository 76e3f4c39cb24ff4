//! Overdue locks are announced within 250 ms.
//!
//! Correctness never waits for this: whoever meets an overdue lock expires it. This worker meets the ones nobody asks
//! for. It looks for locks whose `due_at` has come, by an index that heartbeats do not touch, and sends their
//! documents through the committer, which expires what is overdue and moves `due_at` of what has been extended.

use std::sync::Arc;

use crate::{
    clock::Clock,
    committer::{Committer, SubmitError},
    life::Life,
    locking::{Command, Expire},
    storage::Queries,
};

/// Leaves 50 of the 250 ms for the commit.
const EVERY_MS: i64 = 200;
const DOCUMENTS: u64 = 200;

#[derive(Debug, Clone)]
pub struct Expiry {
    pub committer: Committer,
    pub queries: Queries,
    pub life: Arc<Life>,
    pub clock: Clock,
}

impl Expiry {
    /// Expires what is overdue now.
    pub async fn expire_due(&self) -> Result<(), SubmitError> {
        loop {
            let keys = self.queries.due_documents(self.life.judged_at(self.clock.now()), DOCUMENTS).await?;
            let is_last = (keys.len() as u64) < DOCUMENTS;
            if !keys.is_empty() {
                self.committer.submit(Command::Expire(Expire { keys })).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    pub async fn run(self) {
        loop {
            // From the beginning of one look to that of the next: what a look takes must not add to the delay.
            let next = self.clock.now().plus_millis(EVERY_MS);
            if let Err(error) = self.expire_due().await {
                tracing::warn!(%error, "could not expire overdue locks, trying again");
            }
            self.clock.sleep_until(next).await;
        }
    }
}
