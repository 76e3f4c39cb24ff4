//! What waits to be committed, in two lanes: requests, and the server's own chores, which requests cannot keep out.
//!
//! A worker takes all there is as soon as it can, and never waits for more, except while other batches are under way:
//! then a few commands are better off in a larger batch than in one of their own, since each costs a commit.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::SubmitError;
use crate::{
    locking::{Command, LeaseId, Outcome},
    metrics::Metrics,
    storage::StorageError,
};

const CAPACITY: usize = 4096;
const BATCH: usize = 512;
/// So many commands are worth a batch of their own while others are under way.
const ENOUGH: usize = 16;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StorageError>>;

/// What the server has to do by itself. Each worker of `time` waits for the chore it asks for, so there are never many.
#[derive(Debug)]
pub(super) enum Chore {
    Beat(Reply<()>),
    /// Answered with how many locks were looked at.
    Expire(Reply<usize>),
    /// Answered with how many rows were deleted.
    Prune(Reply<usize>),
    /// Answered with those that are not there any more.
    RenewTickets(Vec<LeaseId>, Reply<Vec<LeaseId>>),
    /// Answered with how many were deleted.
    DeleteDeadTickets(Reply<usize>),
}

/// Which lanes a worker takes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lanes {
    pub requests: bool,
    pub chores: bool,
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// For workers that take requests.
    requests: Condvar,
    /// For workers that take nothing but chores.
    chores: Condvar,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<(Command, Reply<Outcome>)>,
    chores: Vec<Chore>,
    under_way: usize,
    is_closed: bool,
}

impl State {
    fn is_ready(&self, lanes: Lanes) -> bool {
        let are_requests_ready = match self.requests.len() {
            0 => false,
            waiting => self.under_way == 0 || waiting >= ENOUGH || self.is_closed,
        };
        (lanes.requests && are_requests_ready) || (lanes.chores && !self.chores.is_empty())
    }
}

/// What a worker has taken. A batch of requests counts as under way until `under_way` is dropped.
pub(super) struct Taken {
    pub commands: Vec<Command>,
    pub replies: Vec<Reply<Outcome>>,
    pub chores: Vec<Chore>,
    pub under_way: UnderWay,
}

#[derive(Debug)]
pub(super) struct UnderWay {
    queue: Arc<Queue>,
    counts: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.counts {
            self.queue.state.lock().under_way -= 1;
            self.queue.requests.notify_one();
        }
    }
}

impl Queue {
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), requests: Condvar::new(), chores: Condvar::new(), metrics })
    }

    /// Queues a command without waiting. Fails if the queue is full or closed.
    pub fn put(&self, command: Command, reply: Reply<Outcome>) -> Result<(), SubmitError> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(SubmitError::Stopped);
        }
        if state.requests.len() >= CAPACITY {
            return Err(SubmitError::Overloaded);
        }
        state.requests.push_back((command, reply));
        self.metrics.queue_depth.set(state.requests.len().try_into().unwrap_or(i64::MAX));
        let is_ready = state.is_ready(Lanes { requests: true, chores: false });
        drop(state);
        if is_ready {
            self.requests.notify_one();
        }
        Ok(())
    }

    pub fn put_chore(&self, chore: Chore) -> Result<(), SubmitError> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(SubmitError::Stopped);
        }
        state.chores.push(chore);
        drop(state);
        self.wake_all();
        Ok(())
    }

    /// Waits for something in these lanes and takes it. Returns `None` once the queue is closed and the lanes are
    /// empty.
    pub fn take(self: &Arc<Self>, lanes: Lanes) -> Option<Taken> {
        let mut state = self.state.lock();
        while !state.is_ready(lanes) {
            if state.is_closed {
                return None;
            }
            if lanes.requests { &self.requests } else { &self.chores }.wait(&mut state);
        }
        let size = if lanes.requests { state.requests.len().min(BATCH) } else { 0 };
        let counts = size > 0;
        state.under_way += usize::from(counts);
        let under_way = UnderWay { queue: Arc::clone(self), counts };
        let (commands, replies) = state.requests.drain(..size).unzip();
        let chores = if lanes.chores { std::mem::take(&mut state.chores) } else { Vec::new() };
        self.metrics.queue_depth.set(state.requests.len().try_into().unwrap_or(i64::MAX));
        Some(Taken { commands, replies, chores, under_way })
    }

    /// Refuses whatever is put in from now on; what is there can still be taken.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake_all();
    }

    /// Closes the queue and drops what is there, which tells those who wait for it that the server is stopping.
    pub fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let abandoned = (std::mem::take(&mut state.requests), std::mem::take(&mut state.chores));
        drop(state);
        drop(abandoned);
        self.wake_all();
    }

    fn wake_all(&self) {
        self.requests.notify_all();
        self.chores.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locking::Expire;

    const BOTH: Lanes = Lanes { requests: true, chores: true };

    fn queue(waiting: usize) -> Arc<Queue> {
        let queue = Queue::new(Arc::new(Metrics::new().unwrap()));
        put(&queue, waiting);
        queue
    }

    fn command() -> (Command, Reply<Outcome>) {
        (Command::Expire(Expire::default()), oneshot::channel().0)
    }

    fn put(queue: &Queue, count: usize) {
        for _ in 0..count {
            let (command, reply) = command();
            queue.put(command, reply).unwrap();
        }
    }

    #[test]
    fn all_that_waits_is_taken_together() {
        assert_eq!(queue(3).take(BOTH).unwrap().commands.len(), 3);
        assert_eq!(queue(BATCH + 1).take(BOTH).unwrap().commands.len(), BATCH);
    }

    #[test]
    fn a_few_wait_while_a_batch_is_under_way_and_no_longer() {
        let queue = queue(1);
        let first = queue.take(BOTH).unwrap();
        put(&queue, ENOUGH - 1);
        assert!(!queue.state.lock().is_ready(BOTH));
        put(&queue, 1);
        assert!(queue.state.lock().is_ready(BOTH));
        assert_eq!(queue.take(BOTH).unwrap().commands.len(), ENOUGH);
        put(&queue, 1);
        assert!(!queue.state.lock().is_ready(BOTH));
        drop(first);
        assert!(queue.state.lock().is_ready(BOTH));
        assert_eq!(queue.take(BOTH).unwrap().commands.len(), 1);
    }

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_is_emptied() {
        let queue = queue(CAPACITY);
        let (refused, reply) = command();
        assert_eq!(queue.put(refused, reply), Err(SubmitError::Overloaded));
        let first = queue.take(BOTH).unwrap();
        queue.close();
        let (late, reply) = command();
        assert_eq!(queue.put(late, reply), Err(SubmitError::Stopped));
        let mut left = CAPACITY - first.commands.len();
        while let Some(taken) = queue.take(BOTH) {
            left -= taken.commands.len();
        }
        assert_eq!(left, 0);
    }

    #[test]
    fn a_full_queue_keeps_no_chore_waiting() {
        let queue = queue(CAPACITY);
        queue.put_chore(Chore::Beat(oneshot::channel().0)).unwrap();
        let taken = queue.take(BOTH).unwrap();
        assert_eq!((taken.commands.len(), taken.chores.len()), (BATCH, 1));
        queue.put_chore(Chore::Beat(oneshot::channel().0)).unwrap();
        let chores = queue.take(Lanes { requests: false, chores: true }).unwrap();
        assert_eq!((chores.commands.len(), chores.chores.len()), (0, 1));
    }
}
