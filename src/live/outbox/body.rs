//! The way out as a response body: the HTTP server asks for bytes until its write buffer is full, so what is queued together
//! is written together.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

use super::{End, Outbox};

/// When the connection goes away it is dropped, and the outbox is closed.
#[derive(Debug)]
pub struct OutboxBody(pub(super) Arc<Outbox>);

impl MessageBody for OutboxBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let mut state = self.0.state();
        match state.queue.pop_front() {
            Some(message) => {
                state.taken(1, message.len());
                if state.queue.is_empty() {
                    // One that has had a burst and is quiet again needs no memory for it.
                    state.queue = VecDeque::new();
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
        self.0.state().abandon();
    }
}
