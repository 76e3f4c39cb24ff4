//! The way out of a WebSocket: what is queued is written straight to its connection, many messages in one call.
//!
//! `is_due` is a claim: whoever sets it must write until nothing is left, or have it written, so there is one writer at
//! a time.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, IoSlice},
    net::Shutdown,
    sync::Arc,
};

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::net::TcpStream;

use super::{Outbox, OutboxState, ThreadWriter};

/// How many messages go into one call at most.
const TOGETHER: usize = 64;

#[derive(Debug)]
pub(super) struct Connection {
    pub stream: Arc<TcpStream>,
    pub writer: ThreadWriter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    All,
    /// The connection takes no more for now.
    Part,
}

impl Outbox {
    /// Writes as much of what is queued as the connection takes now.
    pub(super) fn write(&self) -> Written {
        let Some(connection) = &self.connection else { return Written::All };
        loop {
            let Some(mut batch) = self.take() else { return Written::All };
            match batch.write(&connection.stream) {
                Ok(()) => self.put_back(batch),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.put_back(batch);
                    return Written::Part;
                }
                Err(_) => {
                    // The socket's reader finds the connection broken too, and ends the socket.
                    let mut state = self.state();
                    state.abandon();
                    state.is_due = false;
                    return Written::All;
                }
            }
        }
    }

    /// Resolves when the connection may take more.
    pub(super) async fn writable(&self) {
        if let Some(connection) = &self.connection {
            let _ = connection.stream.writable().await;
        }
    }

    /// Takes everything queued out to be written. If there is nothing, it gives up the claim and returns `None`.
    fn take(&self) -> Option<Batch> {
        let mut state = self.state();
        if state.begun.is_empty() && state.queue.is_empty() {
            state.is_due = false;
            self.close_if_closed(&state);
            return None;
        }
        let (begun, queue) = (std::mem::take(&mut state.begun), std::mem::take(&mut state.queue));
        Some(Batch { begun, queue, messages: 0, bytes: 0, forgotten: state.forgotten })
    }

    fn put_back(&self, mut batch: Batch) {
        let mut state = self.state();
        state.begun = batch.begun;
        // If the queue was thrown away meanwhile, only the message that was begun is finished.
        if state.forgotten == batch.forgotten {
            state.taken(batch.messages, batch.bytes);
            batch.queue.append(&mut state.queue);
            state.queue = batch.queue;
        }
        if state.queue.is_empty() {
            // A socket that has had a burst and is quiet again needs no memory for it.
            state.queue = VecDeque::new();
        }
    }

    /// Ends our side of a closed connection after the last message. The client's side is still read for a moment.
    fn close_if_closed(&self, state: &OutboxState) {
        if let Some(connection) = self.connection.as_ref().filter(|_| state.is_closed()) {
            let _ = SockRef::from(&*connection.stream).shutdown(Shutdown::Write);
        }
    }
}

/// What was taken out of the queue to be written.
struct Batch {
    begun: Bytes,
    queue: VecDeque<Bytes>,
    /// How much of it was written.
    messages: usize,
    bytes: usize,
    /// `OutboxState::forgotten` when it was taken out.
    forgotten: u32,
}

impl Batch {
    fn write(&mut self, stream: &TcpStream) -> io::Result<()> {
        while let Some(mut written) = self.write_once(stream)? {
            while written > 0 {
                if self.begun.is_empty() {
                    self.begun = self.queue.pop_front().unwrap_or_default();
                }
                let part = written.min(self.begun.len());
                self.begun.advance(part);
                self.bytes += part;
                written -= part;
                if self.begun.is_empty() {
                    // An empty rest would still keep the memory of the whole message.
                    self.begun = Bytes::new();
                    self.messages += 1;
                }
            }
        }
        Ok(())
    }

    /// Returns how many bytes were written; none if there was nothing to write.
    fn write_once(&self, stream: &TcpStream) -> io::Result<Option<usize>> {
        let mut slices = [IoSlice::new(&[]); TOGETHER];
        let begun = std::iter::once(&self.begun).filter(|begun| !begun.is_empty());
        let mut count = 0;
        for (slice, message) in slices.iter_mut().zip(begun.chain(&self.queue)) {
            *slice = IoSlice::new(message);
            count += 1;
        }
        let written = match &slices[..count] {
            [] => return Ok(None),
            [one] => stream.try_write(one),
            some => stream.try_write_vectored(some),
        };
        written.map(Some)
    }
}
