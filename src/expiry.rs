//! Overdue locks are announced within 250 ms.
//!
//! Correctness never waits for this: whoever meets an overdue lock expires it. This worker meets the ones nobody asks
//! for. It looks for locks whose `due_at` has come, by an index that heartbeats do not touch, and sends their
//! documents through the committer, which expires what is overdue and moves `due_at` of what has been extended.

use std::time::Duration;

use crate::{
    clock::Clock,
    committer::{Committer, SubmitError},
    life::Life,
    locking::{Command, Expire},
    storage::Queries,
};

/// Leaves 50 of the 250 ms for the commit.
const EVERY: Duration = Duration::from_millis(200);
const DOCUMENTS: u64 = 200;

/// Expires what is overdue now.
pub async fn expire_due(
    committer: &Committer,
    queries: &Queries,
    life: &Life,
    clock: &Clock,
) -> Result<(), SubmitError> {
    loop {
        let keys = queries.due_documents(life.judged_at(clock.now()), DOCUMENTS).await?;
        let is_last = (keys.len() as u64) < DOCUMENTS;
        if !keys.is_empty() {
            committer.submit(Command::Expire(Expire { keys })).await?;
        }
        if is_last {
            return Ok(());
        }
    }
}

pub async fn run(committer: Committer, queries: Queries, life: std::sync::Arc<Life>, clock: Clock) {
    loop {
        if let Err(error) = expire_due(&committer, &queries, &life, &clock).await {
            tracing::warn!(%error, "could not expire overdue locks, trying again");
        }
        clock.sleep(EVERY).await;
    }
}
