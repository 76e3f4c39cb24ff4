//! What waits to be committed.
//!
//! A worker takes all there is as soon as it can, and never waits for more, except while other batches are under way:
//! then a few commands are better off in a larger batch than in one of their own, since each costs a commit.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::SubmitError;
use crate::{
    locking::{Command, Outcome},
    metrics::Metrics,
    storage::StorageError,
};

const CAPACITY: usize = 4096;
const BATCH: usize = 512;
/// So many are worth a batch of their own while others are under way.
const ENOUGH: usize = 16;

#[derive(Debug)]
pub(super) enum Work {
    Command(Command, Reply),
    Prune(Prune),
}

pub(super) type Reply = oneshot::Sender<Result<Outcome, StorageError>>;
pub(super) type Prune = oneshot::Sender<Result<usize, StorageError>>;

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Work>,
    under_way: usize,
    is_closed: bool,
}

impl State {
    fn is_ready(&self) -> bool {
        match self.waiting.len() {
            0 => false,
            waiting => self.under_way == 0 || waiting >= ENOUGH || self.is_closed,
        }
    }
}

/// A batch on its way, until this is dropped.
pub(super) struct Taken {
    pub commands: Vec<Command>,
    pub replies: Vec<Reply>,
    pub prunes: Vec<Prune>,
    pub under_way: UnderWay,
}

#[derive(Debug)]
pub(super) struct UnderWay(Arc<Queue>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.state().under_way -= 1;
        self.0.changed.notify_one();
    }
}

impl Queue {
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), metrics })
    }

    /// At once or not at all.
    pub fn put(&self, work: Work) -> Result<(), SubmitError> {
        let mut state = self.state();
        if state.is_closed {
            return Err(SubmitError::Stopped);
        }
        if state.waiting.len() >= CAPACITY {
            return Err(SubmitError::Overloaded);
        }
        state.waiting.push_back(work);
        self.metrics.queue_depth.set(state.waiting.len().try_into().unwrap_or(i64::MAX));
        let is_ready = state.is_ready();
        drop(state);
        if is_ready {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Nothing once it is closed and empty.
    pub fn take(self: &Arc<Self>) -> Option<Taken> {
        let mut state = self.state();
        while !state.is_ready() {
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.under_way += 1;
        let under_way = UnderWay(Arc::clone(self));
        let size = state.waiting.len().min(BATCH);
        let (mut commands, mut replies) = (Vec::with_capacity(size), Vec::with_capacity(size));
        let mut prunes = Vec::new();
        for work in state.waiting.drain(..size) {
            match work {
                Work::Command(command, reply) => {
                    commands.push(command);
                    replies.push(reply);
                }
                Work::Prune(reply) => prunes.push(reply),
            }
        }
        self.metrics.queue_depth.set(state.waiting.len().try_into().unwrap_or(i64::MAX));
        Some(Taken { commands, replies, prunes, under_way })
    }

    /// Nothing more is put in; what is there can still be taken.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Nobody will take what is there: those who wait for it are told so.
    pub fn abandon(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let abandoned = std::mem::take(&mut state.waiting);
        drop(state);
        drop(abandoned);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(waiting: usize) -> Arc<Queue> {
        let queue = Queue::new(Arc::new(Metrics::new().unwrap()));
        put(&queue, waiting);
        queue
    }

    fn put(queue: &Queue, count: usize) {
        for _ in 0..count {
            queue.put(Work::Prune(oneshot::channel().0)).unwrap();
        }
    }

    #[test]
    fn all_that_waits_is_taken_together() {
        assert_eq!(queue(3).take().unwrap().prunes.len(), 3);
        assert_eq!(queue(BATCH + 1).take().unwrap().prunes.len(), BATCH);
    }

    #[test]
    fn a_few_wait_while_a_batch_is_under_way_and_no_longer() {
        let queue = queue(1);
        let first = queue.take().unwrap();
        put(&queue, ENOUGH - 1);
        assert!(!queue.state().is_ready());
        put(&queue, 1);
        assert!(queue.state().is_ready());
        assert_eq!(queue.take().unwrap().prunes.len(), ENOUGH);
        put(&queue, 1);
        assert!(!queue.state().is_ready());
        drop(first);
        assert!(queue.state().is_ready());
        assert_eq!(queue.take().unwrap().prunes.len(), 1);
    }

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_is_emptied() {
        let queue = queue(CAPACITY);
        assert_eq!(queue.put(Work::Prune(oneshot::channel().0)), Err(SubmitError::Overloaded));
        let first = queue.take().unwrap();
        queue.close();
        assert_eq!(queue.put(Work::Prune(oneshot::channel().0)), Err(SubmitError::Stopped));
        let mut left = CAPACITY - first.prunes.len();
        while let Some(taken) = queue.take() {
            left -= taken.prunes.len();
        }
        assert_eq!(left, 0);
    }
}
