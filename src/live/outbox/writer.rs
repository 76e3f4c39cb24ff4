//! One task per thread writes to all its sockets, so that a notice to a room wakes each thread once rather than each
//! socket. If there are only a few sockets the publisher writes to them itself, which is faster than waking a thread.

use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::{Arc, Weak},
};

use tokio::sync::mpsc;

use super::{Outbox, connection::Written};

/// How many sockets of a large room are written to before other work of the thread has its turn.
const TURN: usize = 32;
/// Up to how many sockets the publisher writes to itself.
const FEW: usize = 16;

/// Outboxes that have something to write.
type Outboxes = Vec<Arc<Outbox>>;

#[derive(Debug, Clone)]
pub struct ThreadWriter(Arc<mpsc::UnboundedSender<Outboxes>>);

thread_local! {
    /// The writer of this thread. It is kept by the thread's sockets, and ends with the last of them.
    static HERE: RefCell<Weak<mpsc::UnboundedSender<Outboxes>>> = const { RefCell::new(Weak::new()) };
}

impl ThreadWriter {
    /// Returns the writer of this thread, and starts it if there is none.
    pub fn here() -> Self {
        HERE.with_borrow_mut(|here| {
            Self(here.upgrade().unwrap_or_else(|| {
                let (sender, due) = mpsc::unbounded_channel();
                let sender = Arc::new(sender);
                *here = Arc::downgrade(&sender);
                tokio::task::spawn_local(write(due));
                sender
            }))
        })
    }

    pub fn write(&self, outboxes: Outboxes) {
        // This fails only when the thread has ended, and its connections with it.
        let _ = self.0.send(outboxes);
    }
}

/// The outboxes that the publisher has put something into and that are still to be written.
#[derive(Debug, Default)]
pub struct Due(Vec<(ThreadWriter, Outboxes)>);

impl Due {
    pub(super) fn add(&mut self, writer: &ThreadWriter, outbox: Arc<Outbox>) {
        match self.0.iter_mut().find(|(known, _)| Arc::ptr_eq(&known.0, &writer.0)) {
            Some((_, outboxes)) => outboxes.push(outbox),
            None => self.0.push((writer.clone(), vec![outbox])),
        }
    }

    pub fn send(&mut self) {
        let count: usize = self.0.iter().map(|(_, outboxes)| outboxes.len()).sum();
        for (writer, mut outboxes) in self.0.drain(..) {
            if count <= FEW {
                // A socket that takes no more for now is left to its own thread, which can wait for it.
                outboxes.retain(|outbox| outbox.write() == Written::Part);
            }
            if !outboxes.is_empty() {
                writer.write(outboxes);
            }
        }
    }
}

/// Writes in turns, so that a room of thousands does not keep an answer waiting.
async fn write(mut due: mpsc::UnboundedReceiver<Outboxes>) {
    let mut waiting: VecDeque<Outboxes> = VecDeque::new();
    let mut written = 0;
    loop {
        if waiting.is_empty() {
            match due.recv().await {
                Some(outboxes) => waiting.push_back(outboxes),
                None => return,
            }
        }
        while let Ok(outboxes) = due.try_recv() {
            waiting.push_back(outboxes);
        }
        let Some(mut outboxes) = waiting.pop_front() else { continue };
        for outbox in outboxes.drain(outboxes.len().saturating_sub(TURN)..) {
            written += 1;
            if outbox.write() == Written::Part {
                tokio::task::spawn_local(write_on(outbox));
            }
        }
        if !outboxes.is_empty() {
            waiting.push_back(outboxes);
        }
        if written >= TURN {
            written = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Waits for a client that reads slowly, apart from the others.
async fn write_on(outbox: Arc<Outbox>) {
    loop {
        outbox.writable().await;
        if outbox.write() == Written::All {
            return;
        }
    }
}
