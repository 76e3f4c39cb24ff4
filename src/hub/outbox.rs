//! What waits to be written to one client: a bounded queue of ready bytes, and the response body that empties it.
//!
//! One that is full takes no more notices. If its owner can read on in the log it is left to it to do so, once what is
//! queued has been written: a burst that is larger than the queue is no reason to close anyone who reads. If not, it is
//! closed at once.
//!
//! Its lock is held for a push or a pop, never while anything else happens. The HTTP server asks the body for bytes until
//! its write buffer is full, so what is queued together is written together.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

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
    /// Said to a client that is too slow.
    too_slow: Bytes,
    /// Its owner reads on in the log.
    recovers: bool,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Bytes>,
    bytes: usize,
    end: End,
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
    pub fn new(too_slow: Bytes, recovers: bool) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), too_slow, recovers })
    }

    pub fn body(self: &Arc<Self>) -> OutboxBody {
        OutboxBody(Arc::clone(self))
    }

    /// Takes the notice, unless too much waits already.
    pub fn notify(&self, sequence: i64, notice: Bytes) -> Result<(), Refused> {
        let mut state = self.state();
        match state.end {
            End::Open => {}
            End::Full { .. } => return Err(Refused::TooSlow),
            End::Closed | End::Ended => return Err(Refused::Closed),
        }
        if state.queue.len() < MESSAGES && state.bytes + notice.len() <= BYTES {
            state.put(notice);
            return Ok(());
        }
        if self.recovers {
            state.end = End::Full { from: sequence };
            state.wake_watcher();
        } else {
            state.give_up(self.too_slow.clone());
        }
        Err(Refused::TooSlow)
    }

    /// An answer, which must not be lost: with twice the room, and the end if that is used up as well.
    pub fn push(&self, message: Bytes) -> Result<(), Refused> {
        let mut state = self.state();
        if state.is_closed() {
            return Err(Refused::Closed);
        }
        if state.queue.len() >= MESSAGES * 2 || state.bytes + message.len() > BYTES * 2 {
            state.give_up(self.too_slow.clone());
            return Err(Refused::TooSlow);
        }
        state.put(message);
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

    /// Takes the message only if there is plenty of room.
    pub fn offer(&self, message: Bytes) {
        let mut state = self.state();
        if state.end == End::Open && state.queue.len() < MESSAGES / 2 && state.bytes < BYTES / 2 {
            state.put(message);
        }
    }

    /// One page of something large, whatever its size: the next one when this one is [`Outbox::drained`].
    pub fn push_page(&self, page: Bytes) -> Result<(), Refused> {
        let mut state = self.state();
        if state.is_closed() {
            return Err(Refused::Closed);
        }
        state.put(page);
        Ok(())
    }

    /// For one that has missed something, whoever is to blame.
    pub fn close_as_too_slow(&self) {
        let mut state = self.state();
        if !state.is_closed() {
            state.give_up(self.too_slow.clone());
        }
    }

    /// Nothing is taken after the last words.
    pub fn close(&self, last: Bytes) {
        let mut state = self.state();
        if !state.is_closed() {
            state.close(last);
        }
    }

    /// The connection may go, once what is queued is written.
    pub fn end(&self) {
        let mut state = self.state();
        state.end = End::Ended;
        state.wake();
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
                Watched::Drained => state.is_closed() || state.queue.is_empty(),
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
}

impl State {
    fn put(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.queue.push_back(message);
        self.wake();
    }

    fn is_closed(&self) -> bool {
        matches!(self.end, End::Closed | End::Ended)
    }

    fn close(&mut self, last: Bytes) {
        if !last.is_empty() {
            self.queue.push_back(last);
        }
        self.end = End::Closed;
        self.wake();
        self.wake_watcher();
    }

    /// What was not written in time is not written at all.
    fn give_up(&mut self, last: Bytes) {
        self.queue = VecDeque::new();
        self.bytes = 0;
        self.close(last);
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

/// The response body. When the connection goes away it is dropped, and the outbox is closed.
#[derive(Debug)]
pub struct OutboxBody(Arc<Outbox>);

impl MessageBody for OutboxBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let mut state = self.0.state();
        match state.queue.pop_front() {
            Some(message) => {
                state.bytes = state.bytes.saturating_sub(message.len());
                if state.queue.is_empty() {
                    // A socket that has had a burst and is quiet again needs no memory for it.
                    state.queue = VecDeque::new();
                    if matches!(state.watcher, Some((Watched::Drained, _))) {
                        state.wake_watcher();
                    }
                }
                Poll::Ready(Some(Ok(message)))
            }
            None if state.end == End::Ended => Poll::Ready(None),
            None => {
                if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    state.waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for OutboxBody {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.end = End::Ended;
        state.queue = VecDeque::new();
        state.wake_watcher();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Bytes {
        Bytes::from(vec![b'x'; length])
    }

    async fn written(outbox: &Arc<Outbox>) -> Vec<Bytes> {
        outbox.end();
        let (mut body, mut found) = (outbox.body(), Vec::new());
        while let Some(Ok(message)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_next(context)).await {
            found.push(message);
        }
        found
    }

    #[tokio::test]
    async fn an_outbox_takes_256_notices_or_256_kib_and_then_says_goodbye() {
        for (length, fits) in [(10, 256), (64 * 1024, 4)] {
            let outbox = Outbox::new(Bytes::from_static(b"too slow"), false);
            for sequence in 0..fits {
                outbox.notify(sequence, message(length)).unwrap();
            }
            assert_eq!(outbox.notify(fits, message(length)), Err(Refused::TooSlow));
            assert_eq!(outbox.notify(fits + 1, message(length)), Err(Refused::Closed));
            outbox.stopped().await;
            assert_eq!(written(&outbox).await, [Bytes::from_static(b"too slow")]);
        }
    }

    #[tokio::test]
    async fn one_that_recovers_says_where_from_and_still_takes_answers() {
        let outbox = Outbox::new(Bytes::from_static(b"too slow"), true);
        for sequence in 0..256 {
            outbox.notify(sequence, message(1)).unwrap();
        }
        for sequence in 256..300 {
            assert_eq!(outbox.notify(sequence, message(1)), Err(Refused::TooSlow));
        }
        outbox.stopped().await;
        assert_eq!(outbox.full_from(), Some(256));
        outbox.push(message(2)).unwrap();
        outbox.reopen();
        assert_eq!(outbox.full_from(), None);
        assert_eq!(written(&outbox).await.len(), 257);
    }

    #[tokio::test]
    async fn pages_do_not_count_and_a_dropped_body_closes() {
        let outbox = Outbox::new(Bytes::new(), false);
        outbox.push_page(message(BYTES * 2)).unwrap();
        assert_eq!(outbox.push_page(message(1)), Ok(()));
        drop(outbox.body());
        outbox.drained().await;
        assert_eq!(outbox.push(message(1)), Err(Refused::Closed));
    }
}
