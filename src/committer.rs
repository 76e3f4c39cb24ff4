//! Group commit: concurrent requests share one transaction.
//!
//! 1. [`Committer::submit`] puts a command into a bounded queue; a full queue refuses at once.
//! 2. The worker, a thread of its own, takes what is queued (it never waits for more), hands it to storage as one
//!    batch, and after the commit, and only then, hands the events to the hub and answers each caller. The next batch fills meanwhile.
//! 3. A batch that fails for a reason of its own is run again one command at a time, so that one command cannot fail
//!    its neighbours.
//! 4. A database that has lost what this process has seen in it ends the worker, and with it the server.
//! 5. [`Committer::stop`] closes the queue; the worker finishes what is in it and ends.

use std::{io, sync::Arc, thread};

use tokio::sync::{mpsc, oneshot};

use crate::{
    clock::Stopwatch,
    contention::Contention,
    hub::{Announcer, Extension},
    locking::{Command, Done, Outcome},
    metrics::Metrics,
    storage::{StorageError, Writer, batch::Committed},
};

const QUEUE: usize = 4096;
const BATCH: usize = 512;
const PRUNE_ROWS: u32 = 1000;

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
    queue: mpsc::Sender<Work>,
    metrics: Arc<Metrics>,
}

type Reply = oneshot::Sender<Result<Outcome, StorageError>>;

#[derive(Debug)]
enum Work {
    Command(Command, Reply),
    Prune(oneshot::Sender<Result<usize, StorageError>>),
    Stop,
}

impl Committer {
    /// The handle, and what resolves when the worker has ended: with a reason if there is one.
    pub fn start(
        writer: Writer,
        metrics: Arc<Metrics>,
        contention: Arc<Contention>,
        announcer: Announcer,
    ) -> io::Result<(Self, oneshot::Receiver<String>)> {
        let (sender, queue) = mpsc::channel(QUEUE);
        let (ended, has_ended) = oneshot::channel();
        let worker = Worker { writer, metrics: Arc::clone(&metrics), contention, announcer };
        thread::Builder::new().name("committer".to_owned()).spawn(move || {
            // Dropped at the end, by a panic too: a server without its committer must not go on half alive.
            let ended: oneshot::Sender<String> = ended;
            if let Some(reason) = worker.run(queue) {
                let _ = ended.send(reason);
            }
        })?;
        Ok((Self { queue: sender, metrics }, has_ended))
    }

    pub async fn submit(&self, command: Command) -> Result<Outcome, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.send(Work::Command(command, reply))?;
        Ok(answer.await.map_err(|_| SubmitError::Stopped)??)
    }

    /// Deletes some rows that are past their retention; answers how many.
    pub async fn prune(&self) -> Result<usize, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.send(Work::Prune(reply))?;
        Ok(answer.await.map_err(|_| SubmitError::Stopped)??)
    }

    /// Nothing more is taken; what was taken is finished and answered.
    pub async fn stop(&self) {
        // If it cannot be sent, the worker has ended already.
        let _ = self.queue.send(Work::Stop).await;
    }

    fn send(&self, work: Work) -> Result<(), SubmitError> {
        self.queue.try_send(work).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SubmitError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => SubmitError::Stopped,
        })?;
        self.metrics.queue_depth.set(depth(self.queue.max_capacity() - self.queue.capacity()));
        Ok(())
    }
}

struct Worker {
    writer: Writer,
    metrics: Arc<Metrics>,
    contention: Arc<Contention>,
    announcer: Announcer,
}

impl Worker {
    /// Until it is told to stop, or must: then it answers why.
    fn run(mut self, mut queue: mpsc::Receiver<Work>) -> Option<String> {
        let mut commands = Vec::with_capacity(BATCH);
        let mut replies = Vec::with_capacity(BATCH);
        while let Some(first) = queue.blocking_recv() {
            let mut next = Some(first);
            let mut prunes = Vec::new();
            while let Some(work) = next.take() {
                match work {
                    Work::Command(command, reply) => {
                        commands.push(command);
                        replies.push(reply);
                    }
                    Work::Prune(reply) => prunes.push(reply),
                    Work::Stop => queue.close(),
                }
                if commands.len() < BATCH {
                    next = queue.try_recv().ok();
                }
            }
            self.metrics.queue_depth.set(depth(queue.len()));
            if let Some(reason) = self.commit(&commands, &mut replies) {
                return Some(reason);
            }
            commands.clear();
            for reply in prunes {
                let _ = reply.send(self.writer.prune(PRUNE_ROWS));
            }
        }
        None
    }

    /// Answers why no other batch may follow, if so.
    fn commit(&mut self, commands: &[Command], replies: &mut Vec<Reply>) -> Option<String> {
        if commands.is_empty() {
            return None;
        }
        match self.timed(commands) {
            Ok(mut committed) => {
                self.announce(commands, &mut committed);
                self.answer(committed, replies.drain(..));
                None
            }
            Err(StorageError::Conflict(reason)) if commands.len() > 1 => {
                tracing::warn!(%reason, commands = commands.len(), "batch failed, running its commands one by one");
                let mut singly = commands.iter().zip(std::mem::take(replies));
                singly.find_map(|(command, reply)| self.commit(std::slice::from_ref(command), &mut vec![reply]))
            }
            Err(error) => {
                // Of any error: a batch may have been two transactions.
                self.announcer.unknown();
                tracing::error!(%error, commands = commands.len(), "batch not committed");
                for reply in replies.drain(..) {
                    let _ = reply.send(Err(error.clone()));
                }
                matches!(error, StorageError::Rewound { .. }).then(|| error.to_string())
            }
        }
    }

    /// Before anyone is answered: who acts on an answer finds the room told.
    fn announce(&self, commands: &[Command], committed: &mut Committed) {
        self.announcer.appended(std::mem::take(&mut committed.appended));
        if self.announcer.wants_extensions() {
            self.announcer.extended(extensions(commands, &committed.outcomes));
        }
        if !committed.failed.is_empty() {
            self.announcer.unknown();
        }
    }

    fn answer(&self, mut committed: Committed, replies: impl Iterator<Item = Reply>) {
        for (position, (reply, outcome)) in replies.zip(committed.outcomes).enumerate() {
            let answer = committed.failed.remove(&position).map_or(Ok(outcome), Err);
            match &answer {
                Ok(outcome) => self.contention.note(outcome),
                Err(error) => tracing::error!(%error, "heartbeat not committed"),
            }
            // A caller that has gone away does not undo what was committed.
            let _ = reply.send(answer);
        }
    }

    fn timed(&mut self, commands: &[Command]) -> Result<Committed, StorageError> {
        let stopwatch = Stopwatch::start();
        let committed = self.writer.commit(commands)?;
        self.metrics.commit_seconds.observe(stopwatch.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a batch has at most a few hundred commands")]
        self.metrics.commit_batch_size.observe(commands.len() as f64);
        let events: usize = committed.appended.iter().map(|appended| appended.events.len()).sum();
        self.metrics.events.inc_by(events as u64);
        Ok(committed)
    }
}

/// Locks that live on, past what the room was told.
fn extensions(commands: &[Command], outcomes: &[Outcome]) -> Vec<Extension> {
    let live = |done: &Done| match done {
        Done::Live { lock, .. } => Some(Extension(lock.clone())),
        Done::Ended { .. } => None,
    };
    let extends = commands.iter().zip(outcomes).filter(|(command, _)| matches!(command, Command::Extend(_)));
    extends.flat_map(|(_, outcome)| outcome.done.iter().filter_map(live)).collect()
}

fn depth(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
