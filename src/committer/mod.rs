//! Group commit: concurrent requests share one transaction.
//!
//! 1. [`Committer::submit`] puts a command into a bounded queue; a full queue refuses at once. The server's own chores
//!    have a lane of their own, and on PostgreSQL a writer of their own.
//! 2. A `worker`, a thread of its own for each writer of the database, takes what is queued, hands it to storage as one
//!    batch, and after the commit, and only then, hands the events to the publisher and answers each caller. The next
//!    batch fills meanwhile.
//! 3. A batch that fails for a reason of its own is run again one command at a time, so that one command cannot fail
//!    its neighbours.
//! 4. A database that has lost what this process has seen in it ends the worker, and with it the server.
//! 5. [`Committer::stop`] closes the queue; the workers finish what is in it and end.

mod announcer;
mod queue;
mod worker;

use std::{io, sync::Arc, thread};

use tokio::sync::{mpsc, oneshot};

use crate::{
    contention::Contention,
    locking::{Command, LeaseId, Outcome},
    metrics::Metrics,
    storage::{StorageError, Writers},
};
pub use announcer::{Announcement, Announcements, Announcer, Extension};
use queue::{Chore, Lanes, Queue, Reply};
use worker::Worker;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    #[error("too many commands are waiting")]
    Overloaded,
    #[error("the server is stopping")]
    Stopped,
    #[error(transparent)]
    Storage(#[from] StorageError),
}

#[derive(Debug, Clone)]
pub struct Committer {
    queue: Arc<Queue>,
}

/// Reports the end of a worker when it is dropped, so after a panic too: a server must not go on without its committer.
struct Farewell {
    queue: Arc<Queue>,
    ended: mpsc::UnboundedSender<Option<String>>,
    reason: Option<String>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // Sent before the queue is abandoned: that ends the other workers, which have no reason of their own.
        let _ = self.ended.send(self.reason.take());
        self.queue.abandon();
    }
}

#[derive(Debug)]
pub struct Ended(mpsc::UnboundedReceiver<Option<String>>);

impl Ended {
    /// Resolves as soon as a worker has ended, with its reason if it has one.
    pub async fn first(&mut self) -> Option<String> {
        self.0.recv().await.flatten()
    }

    pub async fn all(&mut self) {
        while self.0.recv().await.is_some() {}
    }
}

impl Committer {
    /// Starts a worker for each writer. Returns the handle, and what tells when the workers end.
    pub fn start(
        writers: Writers,
        metrics: &Arc<Metrics>,
        contention: &Arc<Contention>,
        announcer: &Announcer,
    ) -> io::Result<(Self, Ended)> {
        let queue = Queue::new(Arc::clone(metrics));
        let (ended, has_ended) = mpsc::unbounded_channel();
        let lanes = Lanes { requests: true, chores: writers.chores.is_none() };
        let requests = writers.requests.into_iter().map(|writer| (writer, lanes));
        let chores = writers.chores.into_iter().map(|writer| (writer, Lanes { requests: false, chores: true }));
        for (writer, lanes) in requests.chain(chores) {
            let (metrics, contention) = (Arc::clone(metrics), Arc::clone(contention));
            let worker = Worker { writer, lanes, metrics, contention, announcer: announcer.clone(), is_away: false };
            let (queue, ended) = (Arc::clone(&queue), ended.clone());
            thread::Builder::new().name("committer".to_owned()).spawn(move || {
                let mut farewell = Farewell { queue, ended, reason: None };
                farewell.reason = worker.run(&farewell.queue);
            })?;
        }
        Ok((Self { queue }, Ended(has_ended)))
    }

    pub async fn submit(&self, command: Command) -> Result<Outcome, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.queue.put(command, reply)?;
        Ok(answer.await.map_err(|_| SubmitError::Stopped)??)
    }

    /// Writes a sign of life, if one is due; after an outage, grace is given first.
    pub async fn beat(&self) -> Result<(), SubmitError> {
        self.chore(Chore::Beat).await
    }

    /// Looks at some locks whose `due_at` has come, and ends those that are overdue. Returns how many it looked at: 0
    /// if there are no more.
    pub async fn expire(&self) -> Result<usize, SubmitError> {
        self.chore(Chore::Expire).await
    }

    /// Deletes some rows that are past their retention. Returns how many.
    pub async fn prune(&self) -> Result<usize, SubmitError> {
        self.chore(Chore::Prune).await
    }

    /// Gives tickets another life; answers those that are not there any more.
    pub async fn renew_tickets(&self, tickets: Vec<LeaseId>) -> Result<Vec<LeaseId>, SubmitError> {
        self.chore(|reply| Chore::RenewTickets(tickets, reply)).await
    }

    /// Deletes some tickets that nobody has renewed; answers how many.
    pub async fn delete_dead_tickets(&self) -> Result<usize, SubmitError> {
        self.chore(Chore::DeleteDeadTickets).await
    }

    async fn chore<T>(&self, chore: impl FnOnce(Reply<T>) -> Chore) -> Result<T, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.queue.put_chore(chore(reply))?;
        Ok(answer.await.map_err(|_| SubmitError::Stopped)??)
    }

    /// Refuses further commands; those taken before are finished and answered.
    pub fn stop(&self) {
        self.queue.close();
    }
}
