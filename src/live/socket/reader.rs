//! Reads a socket's connection, and returns what it brings as messages.

use std::{cell::RefCell, io::ErrorKind, sync::Arc};

use tokio::{io::Interest, net::TcpStream, task::coop};

use super::decoder::{Broken, Decoder, Incoming};

const BUFFER: usize = 16 * 1024;

thread_local! {
    /// One buffer for all sockets of a thread: a quiet socket needs none.
    static RECEIVED: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

pub(super) struct Reader {
    connection: Arc<TcpStream>,
    decoder: Decoder,
    /// What was found behind a ping, and comes next.
    ahead: Option<Result<Incoming, Broken>>,
    /// How many frames have been read.
    pub frames: u64,
}

impl Reader {
    /// `received` is what has been read already.
    pub fn new(connection: Arc<TcpStream>, received: &[u8]) -> Self {
        let mut decoder = Decoder::default();
        decoder.feed(received);
        Self { connection, decoder, ahead: None, frames: 0 }
    }

    /// Returns the next message; none once the client is gone. Cancel safe: what has been read is kept.
    pub async fn next(&mut self) -> Option<Result<Incoming, Broken>> {
        loop {
            // Before anything is taken: one that never stops talking lets others have their turn after every few frames.
            coop::consume_budget().await;
            if let Some(incoming) = self.decoded() {
                return Some(incoming);
            }
            let Self { connection, decoder, .. } = self;
            read(connection, |chunk| decoder.feed(chunk)).await?;
        }
    }

    /// Returns the next message that has arrived. Of pings in a row only the newest, which is all that must be answered.
    fn decoded(&mut self) -> Option<Result<Incoming, Broken>> {
        let mut found = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.frame()?,
        };
        while let Ok(Incoming::Ping(_)) = found {
            match self.frame() {
                Some(next @ Ok(Incoming::Ping(_))) => found = next,
                next => {
                    self.ahead = next;
                    break;
                }
            }
        }
        Some(found)
    }

    fn frame(&mut self) -> Option<Result<Incoming, Broken>> {
        let frame = self.decoder.next().transpose()?;
        self.frames += 1;
        Some(frame)
    }

    /// Reads on until the client has answered the close or is gone. To close the connection while the client still
    /// sends would reset it, and the close code would never arrive.
    pub async fn discard(&mut self) {
        loop {
            match self.next().await {
                Some(Ok(Incoming::Close)) | None => return,
                Some(Ok(_)) => {}
                // Nothing after a broken frame can be decoded.
                Some(Err(_)) => break,
            }
        }
        (self.decoder, self.ahead) = (Decoder::default(), None);
        while read(&self.connection, |_| ()).await.is_some() {}
    }
}

/// Reads once, as soon as there is something. None once the client is gone.
async fn read(connection: &TcpStream, mut each: impl FnMut(&[u8])) -> Option<()> {
    // A client that never stops sending must let other sockets of the thread have their turn.
    coop::consume_budget().await;
    loop {
        // Not `readable()`: polling replaces the waker that the HTTP server has left, which would keep its task's
        // memory.
        std::future::poll_fn(|context| connection.poll_read_ready(context)).await.ok()?;
        let read =
            RECEIVED.with_borrow_mut(|buffer| connection.try_read(buffer).inspect(|length| each(&buffer[..*length])));
        match read {
            Ok(0) => return None,
            Ok(length) => {
                if length < BUFFER {
                    // That was all there is. Saying so here saves a read that would find nothing.
                    let nothing = || Err::<(), _>(ErrorKind::WouldBlock.into());
                    let _ = connection.try_io(Interest::READABLE, nothing);
                }
                return Some(());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::net::TcpListener;

    use super::*;

    /// The reader of a client that has sent these bytes, and stays.
    async fn reader(bytes: &[u8]) -> (Reader, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (connection, _) = listener.accept().await.unwrap();
        (Reader::new(Arc::new(connection), bytes), client)
    }

    #[tokio::test]
    async fn a_client_that_has_answered_the_close_is_not_waited_for() {
        let (mut reader, _client) = reader(&[0x81, 0x81, 0, 0, 0, 0, b'x', 0x88, 0x80, 0, 0, 0, 0]).await;
        assert!(reader.discard().now_or_never().is_some());
    }

    #[tokio::test]
    async fn of_pings_in_a_row_the_newest_is_passed_on_and_all_are_counted() {
        let ping = |payload: u8| [0x89, 0x81, 0, 0, 0, 0, payload];
        let bytes = [&ping(b'1')[..], &ping(b'2'), b"\x81\x81\0\0\0\0x", &ping(b'3')].concat();
        let (mut reader, _client) = reader(&bytes).await;
        let mut found = Vec::new();
        for _ in 0..3 {
            found.push(reader.next().await.unwrap().unwrap());
        }
        let expected = [
            Incoming::Ping(bytes::Bytes::from_static(b"2")),
            Incoming::Text("x".to_owned()),
            Incoming::Ping(bytes::Bytes::from_static(b"3")),
        ];
        assert_eq!(found, expected);
        assert_eq!(reader.frames, 4);
    }

    #[tokio::test]
    async fn a_client_that_still_sends_is_read_until_it_is_gone() {
        for bytes in [&b"\x81\x01x"[..], b"\x81\x81\0\0\0\0x", b"\xFF"] {
            let (mut reader, client) = reader(bytes).await;
            assert!(reader.discard().now_or_never().is_none());
            drop(client);
            reader.discard().await;
        }
    }
}
