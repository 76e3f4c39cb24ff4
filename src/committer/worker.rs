//! The thread that commits.

use std::sync::Arc;

use super::queue::{Chore, Lanes, Queue, Reply, Taken};
use crate::{
    committer::{Announcer, Extension},
    contention::Contention,
    locking::{AskOutcome, Command, DocumentKey, Done, Event, EventKind, Expire, Outcome},
    metrics::Metrics,
    storage::{
        StorageError, Writer,
        batch::{Appended, Committed},
        soft_state::ActivitySaid,
    },
    time::clock::Stopwatch,
};

const PRUNE_ROWS: u32 = 1000;
/// Enough to share the cost of a commit; few enough that requests get in between.
const EXPIRE_LOCKS: u32 = 2000;

pub(super) struct Worker {
    pub writer: Writer,
    pub lanes: Lanes,
    pub metrics: Arc<Metrics>,
    pub contention: Arc<Contention>,
    pub announcer: Announcer,
    /// Whether the last sign of life could not be written.
    pub is_away: bool,
}

/// Why no further batch may be committed.
type Fatal = String;

impl Worker {
    /// Commits until the queue is closed and empty, and then returns `None`. Ends earlier, with the reason, if it must.
    pub fn run(mut self, queue: &Arc<Queue>) -> Option<Fatal> {
        while let Some(Taken { commands, replies, chores, under_way }) = queue.take(self.lanes) {
            let committed = self.commit(&commands, replies);
            drop(under_way);
            let done = committed.and_then(|()| chores.into_iter().try_for_each(|chore| self.chore(chore)));
            if let Err(reason) = done {
                return Some(reason);
            }
        }
        None
    }

    fn commit(&mut self, commands: &[Command], replies: Vec<Reply<Outcome>>) -> Result<(), Fatal> {
        if commands.is_empty() {
            return Ok(());
        }
        match self.timed(commands) {
            Ok(committed) => {
                self.announce(commands, &committed.outcomes, committed.appended);
                self.answer(committed.outcomes, replies)
            }
            Err(StorageError::Conflict(reason)) if commands.len() > 1 => {
                tracing::warn!(%reason, commands = commands.len(), "batch failed, running its commands one by one");
                let mut singly = commands.iter().zip(replies);
                singly.try_for_each(|(command, reply)| self.commit(std::slice::from_ref(command), vec![reply]))
            }
            Err(error) => {
                // After any error: a batch may have been two transactions, and the first committed.
                self.announcer.unknown();
                tracing::error!(%error, commands = commands.len(), "batch not committed");
                for reply in replies {
                    let _ = reply.send(Err(error.clone()));
                }
                go_on_after(&error)
            }
        }
    }

    /// Called before anyone is answered, so that whoever acts on an answer finds the room told.
    fn announce(&self, commands: &[Command], outcomes: &[Result<Outcome, StorageError>], appended: Vec<Appended>) {
        self.announcer.appended(appended);
        if self.announcer.wants_extensions() {
            self.announcer.extended(extensions(commands, outcomes));
        }
        self.announcer.activity(activities(outcomes));
        if outcomes.iter().any(Result::is_err) {
            self.announcer.unknown();
        }
    }

    fn answer(&self, outcomes: Vec<Result<Outcome, StorageError>>, replies: Vec<Reply<Outcome>>) -> Result<(), Fatal> {
        let mut goes_on = Ok(());
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            match &outcome {
                Ok(outcome) => self.contention.note(outcome),
                Err(error) => {
                    tracing::error!(%error, "command not committed");
                    goes_on = goes_on.and(go_on_after(error));
                }
            }
            // A caller that has gone away does not undo what was committed.
            let _ = reply.send(outcome);
        }
        goes_on
    }

    fn chore(&mut self, chore: Chore) -> Result<(), Fatal> {
        match chore {
            Chore::Beat(reply) => {
                let beaten = self.writer.beat();
                // This runs twice a second, so only changes are logged.
                match &beaten {
                    Err(error) if !self.is_away => tracing::warn!(%error, "no sign of life can be written"),
                    Ok(()) if self.is_away => tracing::info!("signs of life are written again"),
                    Ok(()) | Err(_) => {}
                }
                self.is_away = beaten.is_err();
                answer_chore(reply, beaten)
            }
            Chore::Expire(reply) => answer_chore(reply, self.expire()),
            Chore::Prune(reply) => answer_chore(reply, self.writer.prune(PRUNE_ROWS)),
            Chore::RenewTickets(tickets, reply) => answer_chore(reply, self.writer.renew_tickets(&tickets)),
            Chore::DeleteDeadTickets(reply) => answer_chore(reply, self.writer.delete_dead_tickets(PRUNE_ROWS)),
        }
    }

    fn expire(&mut self) -> Result<usize, StorageError> {
        let expired = self.writer.expire(EXPIRE_LOCKS).inspect_err(|_| self.announcer.unknown())?;
        expired.appended.iter().for_each(|appended| self.count(&appended.events));
        self.announcer.appended(expired.appended.into_iter().collect());
        self.serve_lines(expired.wanted)?;
        Ok(expired.looked_at)
    }

    /// Ends overdue locks that somebody wants, and gives their documents to those who wait.
    fn serve_lines(&mut self, keys: Vec<DocumentKey>) -> Result<(), StorageError> {
        if keys.is_empty() {
            return Ok(());
        }
        let commands = [Command::Expire(Expire { keys })];
        let committed = self.timed(&commands).inspect_err(|_| self.announcer.unknown())?;
        self.announce(&commands, &committed.outcomes, committed.appended);
        Ok(())
    }

    fn timed(&mut self, commands: &[Command]) -> Result<Committed, StorageError> {
        let stopwatch = Stopwatch::start();
        let committed = self.writer.commit(commands)?;
        self.metrics.commit_seconds.observe(stopwatch.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a batch has at most a few hundred commands")]
        self.metrics.commit_batch_size.observe(commands.len() as f64);
        committed.appended.iter().for_each(|appended| self.count(&appended.events));
        Ok(committed)
    }

    fn count(&self, events: &[Event]) {
        self.metrics.events.inc_by(events.len() as u64);
        for event in events {
            match &event.kind {
                EventKind::Locked { waited_ms: Some(waited_ms) } => {
                    #[expect(clippy::cast_precision_loss, reason = "a figure for people to read")]
                    self.metrics.wait_seconds.observe(*waited_ms as f64 / 1000.0);
                }
                EventKind::Unlocked { reason, .. } => self.metrics.ends.with_label_values(&[reason.name()]).inc(),
                EventKind::HandoverAnswered(ask) => {
                    let outcome = ask.outcome.map_or("open", AskOutcome::name);
                    self.metrics.handovers.with_label_values(&[outcome]).inc();
                }
                EventKind::Locked { waited_ms: None } | EventKind::Saved | EventKind::HandoverAsked(_) => {}
            }
        }
    }
}

fn answer_chore<T>(reply: Reply<T>, done: Result<T, StorageError>) -> Result<(), Fatal> {
    let goes_on = done.as_ref().err().map_or(Ok(()), go_on_after);
    let _ = reply.send(done);
    goes_on
}

/// Fails if the database has lost what this process has seen in it: it must not be written again.
fn go_on_after(error: &StorageError) -> Result<(), Fatal> {
    match error {
        StorageError::Rewound { .. } => Err(error.to_string()),
        StorageError::Conflict(_) | StorageError::OutcomeUnknown(_) | StorageError::Unavailable(_) => Ok(()),
    }
}

/// What holders have said of themselves that they had not said before.
fn activities(outcomes: &[Result<Outcome, StorageError>]) -> Vec<ActivitySaid> {
    let done = outcomes.iter().flatten().flat_map(|outcome| &outcome.done);
    let said = done.filter_map(|done| match done {
        Done::Live { lock, activity_changed: true, .. } => {
            Some(ActivitySaid { key: lock.key.clone(), activity: lock.activity, active_at: lock.active_at })
        }
        Done::Live { .. } | Done::Ended { .. } | Done::Waiting { .. } | Done::LeftLine | Done::Asked(_) => None,
    });
    said.collect()
}

/// Returns the locks whose end has moved past what the room was told: those extended or resumed.
fn extensions(commands: &[Command], outcomes: &[Result<Outcome, StorageError>]) -> Vec<Extension> {
    let all = commands.iter().zip(outcomes).flat_map(|(command, outcome)| {
        let is_heartbeat = matches!(command, Command::Extend(_) | Command::Renew(_));
        let done = outcome.as_ref().map(|outcome| outcome.done.as_slice()).unwrap_or_default();
        done.iter().filter_map(move |done| match done {
            Done::Live { lock, resumed, .. } if is_heartbeat || *resumed => Some(Extension(lock.clone())),
            Done::Live { .. } | Done::Ended { .. } | Done::Waiting { .. } | Done::LeftLine | Done::Asked(_) => None,
        })
    });
    all.collect()
}
