//! The thread that commits.

use std::sync::Arc;

use super::queue::{Queue, Reply, Taken};
use crate::{
    clock::Stopwatch,
    committer::{Announcer, Extension},
    contention::Contention,
    locking::{Command, Done, Outcome},
    metrics::Metrics,
    storage::{StorageError, Writer, batch::Committed},
};

const PRUNE_ROWS: u32 = 1000;

pub(super) struct Worker {
    pub writer: Writer,
    pub metrics: Arc<Metrics>,
    pub contention: Arc<Contention>,
    pub announcer: Announcer,
}

/// Why no other batch may follow.
type Fatal = String;

impl Worker {
    /// Until it is told to stop, or must: then it answers why.
    pub fn run(mut self, queue: &Arc<Queue>) -> Option<Fatal> {
        while let Some(Taken { commands, replies, prunes, under_way: _under_way }) = queue.take() {
            if let Err(reason) = self.commit(&commands, replies) {
                return Some(reason);
            }
            for reply in prunes {
                let _ = reply.send(self.writer.prune(PRUNE_ROWS));
            }
        }
        None
    }

    fn commit(&mut self, commands: &[Command], replies: Vec<Reply>) -> Result<(), Fatal> {
        if commands.is_empty() {
            return Ok(());
        }
        match self.timed(commands) {
            Ok(mut committed) => {
                self.announce(commands, &mut committed);
                self.answer(committed, replies);
                Ok(())
            }
            Err(StorageError::Conflict(reason)) if commands.len() > 1 => {
                tracing::warn!(%reason, commands = commands.len(), "batch failed, running its commands one by one");
                let mut singly = commands.iter().zip(replies);
                singly.try_for_each(|(command, reply)| self.commit(std::slice::from_ref(command), vec![reply]))
            }
            Err(error) => {
                // Of any error: a batch may have been two transactions.
                self.announcer.unknown();
                tracing::error!(%error, commands = commands.len(), "batch not committed");
                for reply in replies {
                    let _ = reply.send(Err(error.clone()));
                }
                if matches!(error, StorageError::Rewound { .. }) { Err(error.to_string()) } else { Ok(()) }
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

    fn answer(&self, mut committed: Committed, replies: Vec<Reply>) {
        for (position, (reply, outcome)) in replies.into_iter().zip(committed.outcomes).enumerate() {
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
    let all = commands.iter().zip(outcomes).flat_map(|(command, outcome)| {
        let is_heartbeat = matches!(command, Command::Extend(_));
        outcome.done.iter().filter_map(move |done| match done {
            Done::Live { lock, resumed } if is_heartbeat || *resumed => Some(Extension(lock.clone())),
            Done::Live { .. } | Done::Ended { .. } => None,
        })
    });
    all.collect()
}
