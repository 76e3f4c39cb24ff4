//! What waits to be written to one client: a bounded queue of ready bytes.
//!
//! It has one of two ways out. A WebSocket's is emptied by the [`Writer`] of its thread, straight into the connection; an
//! event stream's is a response body ([`OutboxBody`]).
//!
//! One that is full takes no more notices. If its owner can read on in the log it is left to it to do so, once what is
//! queued has been written: a burst that is larger than the queue is no reason to close anyone who reads. If not, it is
//! closed at once.
//!
//! Its lock is held to put something in or to take something out, never while anything is written.

mod body;
mod connection;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    collections::VecDeque,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use bytes::Bytes;
use tokio::net::TcpStream;

pub use body::OutboxBody;
use connection::{Connection, Written};
pub use writer::{Due, Writer};

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
    state: Mutex<State>,
    /// None: a body asks for what there is.
    connection: Option<Connection>,
    /// Said to a client that is too slow.
    too_slow: Bytes,
    /// Its owner reads on in the log.
    recovers: bool,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Bytes>,
    /// What is left of a message that has been written in part. Whatever happens, it comes next.
    begun: Bytes,
    /// Not written yet, with those that are about to be.
    messages: usize,
    bytes: usize,
    /// How often everything queued was thrown away.
    forgotten: u32,
    end: End,
    /// Somebody writes, or will.
    is_due: bool,
    /// The body's.
    waker: Option<Waker>,
    /// Of whoever waits for the queue to be empty or closed.
    watcher: Option<(Watched, Waker)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// Has all notices before this one, and none from it on.
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
    /// For a response body.
    pub fn streaming(too_slow: Bytes, recovers: bool) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), connection: None, too_slow, recovers })
    }

    /// For a connection of this thread.
    pub fn writing(stream: Arc<TcpStream>, too_slow: Bytes, recovers: bool) -> Arc<Self> {
        let connection = Some(Connection { stream, writer: Writer::here() });
        Arc::new(Self { state: Mutex::default(), connection, too_slow, recovers })
    }

    pub fn body(self: &Arc<Self>) -> OutboxBody {
        OutboxBody(Arc::clone(self))
    }

    /// Takes the notice, unless too much waits already. It will be written when what is due is sent.
    pub fn notify(self: &Arc<Self>, sequence: i64, notice: Bytes, due: &mut Due) -> Result<(), Refused> {
        let mut state = self.state();
        match state.end {
            End::Open => {}
            End::Full { .. } => return Err(Refused::TooSlow),
            End::Closed | End::Ended => return Err(Refused::Closed),
        }
        if state.messages < MESSAGES && state.bytes + notice.len() <= BYTES {
            state.put(notice);
            self.put_off(state, due);
            return Ok(());
        }
        if self.recovers {
            state.end = End::Full { from: sequence };
            state.wake_watcher();
        } else {
            state.give_up(self.too_slow.clone());
            self.put_off(state, due);
        }
        Err(Refused::TooSlow)
    }

    /// Whether so many notices would be taken now. One that is closed has room for everything.
    pub fn has_room(&self, messages: usize, bytes: usize) -> bool {
        let state = self.state();
        match state.end {
            End::Open => state.messages + messages <= MESSAGES && state.bytes + bytes <= BYTES,
            End::Full { .. } => false,
            End::Closed | End::Ended => true,
        }
    }

    /// Takes the message only if there is plenty of room.
    pub fn offer(self: &Arc<Self>, message: Bytes, due: &mut Due) {
        let mut state = self.state();
        if state.end == End::Open && state.messages < MESSAGES / 2 && state.bytes < BYTES / 2 {
            state.put(message);
            self.put_off(state, due);
        }
    }

    /// An answer, which must not be lost: with twice the room, and the end if that is used up as well.
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

    /// One page of something large, whatever its size: the next one when this one is [`Outbox::drained`].
    pub fn push_page(self: &Arc<Self>, page: Bytes) -> Result<(), Refused> {
        let mut state = self.state();
        if state.is_closed() {
            return Err(Refused::Closed);
        }
        state.put(page);
        self.write_soon(state);
        Ok(())
    }

    /// The first notice it has not taken, if it is full.
    pub fn full_from(&self) -> Option<i64> {
        match self.state().end {
            End::Full { from } => Some(from),
            End::Open | End::Closed | End::Ended => None,
        }
    }

    /// Takes notices again.
    pub fn reopen(&self) {
        let mut state = self.state();
        if matches!(state.end, End::Full { .. }) {
            state.end = End::Open;
        }
    }

    /// For one that has missed something, whoever is to blame.
    pub fn close_as_too_slow(self: &Arc<Self>) {
        let mut state = self.state();
        if !state.is_closed() {
            state.give_up(self.too_slow.clone());
            self.write_soon(state);
        }
    }

    /// Nothing is taken after the last words.
    pub fn close(self: &Arc<Self>, last: Bytes) {
        let mut state = self.state();
        if !state.is_closed() {
            state.close(last);
            self.write_soon(state);
        }
    }

    /// The connection may go, once what is queued is written.
    pub fn end(self: &Arc<Self>) {
        let mut state = self.state();
        state.end = End::Ended;
        self.write_soon(state);
    }

    /// Everything queued has been handed on, or nothing will be.
    pub async fn drained(&self) {
        self.watch(Watched::Drained).await;
    }

    /// It is full or closed, for whatever reason.
    pub async fn stopped(&self) {
        self.watch(Watched::Stopped).await;
    }

    fn watch(&self, watched: Watched) -> impl Future<Output = ()> {
        std::future::poll_fn(move |context| {
            let mut state = self.state();
            let has_come = match watched {
                Watched::Drained => state.is_closed() || state.messages == 0,
                Watched::Stopped => state.end != End::Open,
            };
            if has_come {
                state.watcher = None;
                return Poll::Ready(());
            }
            state.watcher = Some((watched, context.waker().clone()));
            Poll::Pending
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_soon(self: &Arc<Self>, state: MutexGuard<'_, State>) {
        if let Some(connection) = self.claim(state) {
            connection.writer.write(vec![Arc::clone(self)]);
        }
    }

    /// An answer comes alone: nothing is gained by leaving it to the writer.
    fn write_now(self: &Arc<Self>, state: MutexGuard<'_, State>) {
        if let Some(connection) = self.claim(state)
            && self.write() == Written::Part
        {
            connection.writer.write(vec![Arc::clone(self)]);
        }
    }

    /// With others, so that their writer is woken once.
    fn put_off(self: &Arc<Self>, state: MutexGuard<'_, State>, due: &mut Due) {
        if let Some(connection) = self.claim(state) {
            due.add(&connection.writer, Arc::clone(self));
        }
    }

    /// The connection, if it is now up to the caller to have it written to.
    fn claim(&self, mut state: MutexGuard<'_, State>) -> Option<&Connection> {
        let Some(connection) = &self.connection else {
            state.wake();
            return None;
        };
        (!std::mem::replace(&mut state.is_due, true)).then_some(connection)
    }
}

impl State {
    fn put(&mut self, message: Bytes) {
        self.messages += 1;
        self.bytes += message.len();
        self.queue.push_back(message);
    }

    /// So much has been handed on.
    fn taken(&mut self, messages: usize, bytes: usize) {
        self.messages = self.messages.saturating_sub(messages);
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.messages == 0 && matches!(self.watcher, Some((Watched::Drained, _))) {
            self.wake_watcher();
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.end, End::Closed | End::Ended)
    }

    fn close(&mut self, last: Bytes) {
        if !last.is_empty() {
            self.put(last);
        }
        self.end = End::Closed;
        self.wake_watcher();
    }

    /// What was not written in time is not written at all.
    fn give_up(&mut self, last: Bytes) {
        self.forget();
        self.close(last);
    }

    fn forget(&mut self) {
        self.queue = VecDeque::new();
        (self.messages, self.bytes) = (0, 0);
        self.forgotten += 1;
    }

    /// Nobody takes anything any more.
    fn abandon(&mut self) {
        self.end = End::Ended;
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
