//! Housekeeping on a schedule (`jobs.sweep`): what is past its retention is deleted, what is overdue and was left
//! behind is expired. No answer depends on whether it has run.

use std::sync::Arc;

use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

use super::expiry::Expiry;
use crate::{committer::SubmitError, metrics::Metrics, storage::SoftState};

/// What a sweep works with.
#[derive(Debug, Clone)]
pub struct Sweeper {
    pub expiry: Expiry,
    pub metrics: Arc<Metrics>,
    pub soft_state: Option<SoftState>,
}

impl Sweeper {
    pub async fn sweep(&self) -> Result<(), SubmitError> {
        self.expiry.expire_due().await?;
        self.expiry.expire_asks_and_tickets().await?;
        // In small steps, so that requests get in between.
        while self.expiry.committer.prune().await? > 0 {}
        if let Some(soft_state) = &self.soft_state {
            soft_state.prune_tickets(self.expiry.clock.now()).await?;
        }
        self.metrics.sweeps.inc();
        Ok(())
    }
}

/// Starts the sweep, which runs until the scheduler is shut down. Fails on a bad `cron`, even if nothing is to run.
pub async fn start(sweeper: Sweeper, cron: &str, runs: bool) -> Result<JobScheduler, JobSchedulerError> {
    // The job comes first, because it may fail: a scheduler that is dropped again complains in the log.
    let job = Job::new_async(cron, move |_, _| {
        let sweeper = sweeper.clone();
        Box::pin(async move {
            if let Err(error) = sweeper.sweep().await {
                tracing::warn!(%error, "sweep failed, the next one will try again");
            }
        })
    })?;
    let scheduler = JobScheduler::new().await?;
    if runs {
        scheduler.add(job).await?;
        scheduler.start().await?;
    }
    Ok(scheduler)
}
