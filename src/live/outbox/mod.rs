//! What waits to be written to one client: a bounded queue of ready bytes.
//!
//! It has one of two ways out. A WebSocket's is emptied by the [`ThreadWriter`] of its thread, straight into the
//! connection (`connection`); an event stream's is read by whoever writes the response ([`OutboxStream`]).
//!
//! A full outbox takes no more notices. If its owner can read the missing ones from the log, it does so once what is
//! queued has been written, so that a burst larger than the queue closes nobody who reads. If not, the outbox is closed
//! at once.
//!
//! Its mutex is held to put something in or to take something out, never while anything is written.

mod connection;
mod stream;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    collections::VecDeque,
    future::Future,
    sync::Arc,
    task::{Poll, Waker},
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpStream;

use connection::{Connection, Written};
pub use stream::OutboxStream;
pub use writer::{Due, ThreadWriter};

const MESSAGES: usize = 256;
const BYTES: usize = 256 * 1024;

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    TooSlow,
    Closed,
}

#[derive(Debug)]
pub struct Outbox {
    state: Mutex<OutboxState>,
    /// `None` for an event stream, which takes its messages itself.
    connection: Option<Connection>,
    /// The last message to a client that is too slow.
    too_slow: Bytes,
    /// Whether its owner goes on from the log when it is full.
    recovers: bool,
}

#[derive(Debug, Default)]
struct OutboxState {
    queue: VecDeque<Bytes>,
    /// The rest of a message that has been written in part. It is always written next: the client could not tell where
    /// anything else begins.
    begun: Bytes,
    /// How much is not written yet, including what has been taken out of the queue to be written.
    messages: usize,
    bytes: usize,
    /// How often the queue was thrown away. What was taken out of it before is not put back.
    forgotten: u32,
    phase: Phase,
    /// A claim: whoever sets it must write until the queue is empty, or have it written, so there is one writer at a
    /// time.
    is_due: bool,
    /// Wakes the event stream.
    waker: Option<Waker>,
    /// Wakes the one who waits in [`Outbox::drained`] or [`Outbox::stopped`].
    watcher: Option<(Watched, Waker)>,
}

/// `Open` ⇄ `Full`, and from either to `Closed` and `Ended`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// It has taken all notices before this sequence, and none from it on.
    Full { from: i64 },
    /// The last message is queued; the connection stays until [`Outbox::end`].
    Closed,
    /// Nothing more is taken, and the connection is let go once what is queued is written.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    Drained,
    Stopped,
}

impl Outbox {
    /// Makes the outbox of a response whose body is [`Outbox::stream`].
    pub fn streaming(too_slow: Bytes, recovers: bool) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), connection: None, too_slow, recovers })
    }

    /// Makes the outbox of a connection of this thread. Must be called inside a `LocalSet`, where the thread's writer
    /// runs.
    pub fn writing(stream: Arc<TcpStream>, too_slow: Bytes, recovers: bool) -> Arc<Self> {
        let connection = Some(Connection { stream, writer: ThreadWriter::here() });
        Arc::new(Self { state: Mutex::default(), connection, too_slow, recovers })
    }

    pub fn stream(self: &Arc<Self>) -> OutboxStream {
        OutboxStream(Arc::clone(self))
    }

    /// Queues the notice, which is written when `due` is sent. Fails if too much is queued already, or if it is closed.
    pub fn notify(self: &Arc<Self>, sequence: i64, notice: Bytes, due: &mut Due) -> Result<(), Refused> {
        let mut state = self.state();
        match state.phase {
            Phase::Open => {}
            Phase::Full { .. } => return Err(Refused::TooSlow),
            Phase::Closed | Phase::Ended => return Err(Refused::Closed),
        }
        if state.messages < MESSAGES && state.bytes + notice.len() <= BYTES {
            state.put(notice);
            self.put_off(state, due);
            return Ok(());
        }
        if self.recovers {
            state.phase = Phase::Full { from: sequence };
            state.wake_watcher();
        } else {
            state.give_up(self.too_slow.clone());
            self.put_off(state, due);
        }
        Err(Refused::TooSlow)
    }

    /// Returns whether this many notices would be taken now. A closed outbox says yes, so that nobody waits for it.
    pub fn has_room(&self, messages: usize, bytes: usize) -> bool {
        let state = self.state();
        match state.phase {
            Phase::Open => state.messages + messages <= MESSAGES && state.bytes + bytes <= BYTES,
            Phase::Full { .. } => false,
            Phase::Closed | Phase::Ended => true,
        }
    }

    /// Takes the message only if there is plenty of room.
    pub fn offer(self: &Arc<Self>, message: Bytes, due: &mut Due) {
        let mut state = self.state();
        if state.phase == Phase::Open && state.messages < MESSAGES / 2 && state.bytes < BYTES / 2 {
            state.put(message);
            self.put_off(state, due);
        }
    }

    /// Takes an answer, which must not be lost: it has twice the room, and if that is used up the outbox is closed.
    pub fn push(self: &Arc<Self>, message: Bytes) -> Result<(), Refused> {
        let mut state = self.state();
        if state.is_closed() {
            return Err(Refused::Closed);
        }
        let fits = state.messages < MESSAGES * 2 && state.bytes + message.len() <= BYTES * 2;
        if fits {
            state.put(message);
        } else {
            state.give_up(self.too_slow.clone());
        }
        self.write_now(state);
        if fits { Ok(()) } else { Err(Refused::TooSlow) }
    }

    /// Takes one page of something large, whatever its size. The next page waits until this one is [`Outbox::drained`].
    pub fn push_page(self: &Arc<Self>, page: Bytes) -> Result<(), Refused> {
        let mut state = self.state();
        if state.is_closed() {
            return Err(Refused::Closed);
        }
        state.put(page);
        self.write_soon(state);
        Ok(())
    }

    /// Returns the sequence of the first notice it has not taken, if it is full.
    pub fn full_from(&self) -> Option<i64> {
        match self.state().phase {
            Phase::Full { from } => Some(from),
            Phase::Open | Phase::Closed | Phase::Ended => None,
        }
    }

    /// Lets a full outbox take notices again.
    pub fn reopen(&self) {
        let mut state = self.state();
        if matches!(state.phase, Phase::Full { .. }) {
            state.phase = Phase::Open;
        }
    }

    /// Closes the outbox of a client that has missed something, because it was too slow or because the log was pruned.
    pub fn close_as_too_slow(self: &Arc<Self>) {
        let mut state = self.state();
        if !state.is_closed() {
            state.give_up(self.too_slow.clone());
            self.write_soon(state);
        }
    }

    /// Queues the last message, and takes nothing after it.
    pub fn close(self: &Arc<Self>, last: Bytes) {
        let mut state = self.state();
        if !state.is_closed() {
            state.close(last);
            self.write_soon(state);
        }
    }

    /// Lets the connection go, once what is queued is written.
    pub fn end(self: &Arc<Self>) {
        let mut state = self.state();
        state.phase = Phase::Ended;
        self.write_soon(state);
    }

    /// Resolves when everything queued has been written, or when it is closed.
    pub async fn drained(&self) {
        self.watch(Watched::Drained).await;
    }

    /// Resolves when it is full or closed.
    pub async fn stopped(&self) {
        self.watch(Watched::Stopped).await;
    }

    fn watch(&self, watched: Watched) -> impl Future<Output = ()> {
        std::future::poll_fn(move |context| {
            let mut state = self.state();
            let has_come = match watched {
                Watched::Drained => state.is_closed() || state.messages == 0,
                Watched::Stopped => state.phase != Phase::Open,
            };
            if has_come {
                state.watcher = None;
                return Poll::Ready(());
            }
            state.watcher = Some((watched, context.waker().clone()));
            Poll::Pending
        })
    }

    fn state(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock()
    }

    fn write_soon(self: &Arc<Self>, state: MutexGuard<'_, OutboxState>) {
        if let Some(connection) = self.claim(state) {
            connection.writer.write(vec![Arc::clone(self)]);
        }
    }

    /// Writes at once: an answer comes alone, and nothing is gained by leaving it to the writer.
    fn write_now(self: &Arc<Self>, state: MutexGuard<'_, OutboxState>) {
        if let Some(connection) = self.claim(state)
            && self.write() == Written::Part
        {
            connection.writer.write(vec![Arc::clone(self)]);
        }
    }

    /// Adds it to `due`, to be written together with others, so that their writer is woken once.
    fn put_off(self: &Arc<Self>, state: MutexGuard<'_, OutboxState>, due: &mut Due) {
        if let Some(connection) = self.claim(state) {
            due.add(&connection.writer, Arc::clone(self));
        }
    }

    /// Makes the claim `is_due`. Returns the connection if nobody else had the claim: the caller must then have it
    /// written to. A stream has no connection; it is woken instead.
    fn claim(&self, mut state: MutexGuard<'_, OutboxState>) -> Option<&Connection> {
        let Some(connection) = &self.connection else {
            state.wake();
            return None;
        };
        (!std::mem::replace(&mut state.is_due, true)).then_some(connection)
    }
}

impl OutboxState {
    fn put(&mut self, message: Bytes) {
        self.messages += 1;
        self.bytes += message.len();
        self.queue.push_back(message);
    }

    /// Counts what has been written.
    fn taken(&mut self, messages: usize, bytes: usize) {
        self.messages = self.messages.saturating_sub(messages);
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.messages == 0 && matches!(self.watcher, Some((Watched::Drained, _))) {
            self.wake_watcher();
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Ended)
    }

    fn close(&mut self, last: Bytes) {
        if !last.is_empty() {
            self.put(last);
        }
        self.phase = Phase::Closed;
        self.wake_watcher();
    }

    /// Throws away what is queued, and closes with the last message.
    fn give_up(&mut self, last: Bytes) {
        self.forget();
        self.close(last);
    }

    fn forget(&mut self) {
        self.queue = VecDeque::new();
        (self.messages, self.bytes) = (0, 0);
        self.forgotten += 1;
    }

    /// Ends it at once, because the client is gone.
    fn abandon(&mut self) {
        self.phase = Phase::Ended;
        self.begun = Bytes::new();
        self.forget();
        self.wake_watcher();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn wake_watcher(&mut self) {
        if let Some((_, waker)) = self.watcher.take() {
            waker.wake();
        }
    }
}
