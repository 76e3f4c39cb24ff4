//! The way out of an event stream: the HTTP server asks for bytes until its write buffer is full, so what is queued
//! together is written together.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::Stream;

use super::{Outbox, Phase};

/// The messages of an outbox, as the body of a response. The HTTP server drops it when the connection is gone, which
/// closes the outbox.
#[derive(Debug)]
pub struct OutboxStream(pub(super) Arc<Outbox>);

impl Stream for OutboxStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.0.state();
        match state.queue.pop_front() {
            Some(message) => {
                state.taken(1, message.len());
                if state.queue.is_empty() {
                    // A stream that has had a burst and is quiet again needs no memory for it.
                    state.queue = VecDeque::new();
                }
                Poll::Ready(Some(Ok(message)))
            }
            None if state.phase == Phase::Ended => Poll::Ready(None),
            None => {
                if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    state.waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for OutboxStream {
    fn drop(&mut self) {
        self.0.state().abandon();
    }
}
