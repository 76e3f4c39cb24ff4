//! Housekeeping on a schedule (`jobs.sweep`): what is past its retention is deleted, what is overdue and was left
//! behind is expired. No answer depends on whether it has run.

use std::sync::Arc;

use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

use crate::{
    clock::Clock,
    committer::{Committer, SubmitError},
    expiry,
    life::Life,
    metrics::Metrics,
    storage::Queries,
};

/// What a sweep works with.
#[derive(Debug, Clone)]
pub struct Sweeper {
    pub committer: Committer,
    pub queries: Queries,
    pub life: Arc<Life>,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
}

impl Sweeper {
    pub async fn sweep(&self) -> Result<(), SubmitError> {
        expiry::expire_due(&self.committer, &self.queries, &self.life, &self.clock).await?;
        // In small steps, so that requests get in between.
        while self.committer.prune().await? > 0 {}
        self.metrics.sweeps.inc();
        Ok(())
    }
}

/// Runs until the scheduler is shut down.
pub async fn start(sweeper: Sweeper, cron: &str) -> Result<JobScheduler, JobSchedulerError> {
    let scheduler = JobScheduler::new().await?;
    let job = Job::new_async(cron, move |_, _| {
        let sweeper = sweeper.clone();
        Box::pin(async move {
            if let Err(error) = sweeper.sweep().await {
                tracing::warn!(%error, "sweep failed, the next one will try again");
            }
        })
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    Ok(scheduler)
}
