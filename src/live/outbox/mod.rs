//! What waits to be written to one client: a bounded queue of ready bytes.
//!
//! It has one of two ways out. A WebSocket's is emptied by the [`ThreadWriter`] of its thread, straight into the connection
//! (`connection`); an event stream's is read by whoever writes the response ([`OutboxStream`]).
//!
//! A full outbox takes no more notices. If its owner can read on in the log it does so once what is queued has been
//! written: a burst that is larger than the queue is no reason to close anyone who reads. If not, the outbox is closed at
//! once.
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
    /// None if a stream asks for what there is.
    connection: Option<Connection>,
    /// The last words to a client that is too slow.
    too_slow: Bytes,
    /// Whether its owner reads on in the log when it is full.
    recovers: bool,
}

#[derive(Debug, Default)]
struct OutboxState {
    queue: VecDeque<Bytes>,
    /// What is left of a message that has been written in part. Whatever happens, it comes next.
    begun: Bytes,
    /// What is not written yet, with what is about to be.
    messages: usize,
    bytes: usize,
    /// How often everything queued was thrown away.
    forgotten: u32,
    phase: Phase,
    /// A claim: whoever sets it must write until the queue is empty, or have it written, so there is one writer at a time.
    is_due: bool,
    /// Of the stream.
    waker: Option<Waker>,
    /// Of whoever waits for the queue to be empty or closed.
    watcher: Option<(Watched, Waker)>,
}

/// `Open` ⇄ `Full`, and from either to `Closed` and `Ended`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// It has all notices before this one, and none from it on.
    Full { from: i64 },
    /// The last words are queued; the connection stays until [`Outbox::end`].
    Closed,
    /// Nothing is written any more.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    Drained,
    Stopped,
}

impl Outbox {
    /// For a response whose body is [`Outbox::stream`].
    pub fn streaming(too_slow: Bytes, recovers: bool) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), connection: None, too_slow, recovers })
    }

    /// For a connection of this thread, inside a `LocalSet`.
    pub fn writing(stream: Arc<TcpStream>, too_slow: Bytes, recovers: bool) -> Arc<Self> {
        let connection = Some(Connection { stream, writer: ThreadWriter::here() });
        Arc::new(Self { state: Mutex::default(), connection, too_slow, recovers })
    }

    pub fn stream(self: &Arc<Self>) -> OutboxStream {
        OutboxStream(Arc::clone(self))
    }

    /// Takes the notice, unless too much waits already. It is written when `due` is sent.
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

    /// Whether this many notices would be taken now. A closed outbox has room for everything.
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

    /// Returns the first notice it has not taken, if it is full.
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

    /// Closes the outbox of a client that has missed something, whoever is to blame.
    pub fn close_as_too_slow(self: &Arc<Self>) {
        let mut state = self.state();
        if !state.is_closed() {
            state.give_up(self.too_slow.clone());
            self.write_soon(state);
        }
    }

    /// Takes the last words, and nothing after them.
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

    /// Resolves when everything queued has been handed on, or nothing will be.
    pub async fn drained(&self) {
        self.watch(Watched::Drained).await;
    }

    /// Resolves when it is full or closed, for whatever reason.
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

    /// Leaves it to be written together with others, so that their writer is woken once.
    fn put_off(self: &Arc<Self>, state: MutexGuard<'_, OutboxState>, due: &mut Due) {
        if let Some(connection) = self.claim(state) {
            due.add(&connection.writer, Arc::clone(self));
        }
    }

    /// Returns the connection, if it is now up to the caller to have it written to.
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

    /// Counts what has been handed on.
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

    /// Throws away what was not written in time.
    fn give_up(&mut self, last: Bytes) {
        self.forget();
        self.close(last);
    }

    fn forget(&mut self) {
        self.queue = VecDeque::new();
        (self.messages, self.bytes) = (0, 0);
        self.forgotten += 1;
    }

    /// Ends it because nobody takes anything any more.
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
