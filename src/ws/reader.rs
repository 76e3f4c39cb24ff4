//! The way in: the request's payload, cut into messages.

use actix_web::dev::Payload;
use futures_util::StreamExt;

use super::decoder::{Broken, Decoder, Incoming};

pub struct Reader {
    payload: Payload,
    decoder: Decoder,
}

impl Reader {
    pub fn new(payload: Payload) -> Self {
        Self { payload, decoder: Decoder::default() }
    }

    /// Nothing, once the client is gone. May be dropped and asked again: what has been read is kept.
    pub async fn next(&mut self) -> Option<Result<Incoming, Broken>> {
        loop {
            if let Some(incoming) = self.decoder.next().transpose() {
                return Some(incoming);
            }
            let chunk = self.payload.next().await?.ok()?;
            self.decoder.feed(&chunk);
        }
    }

    /// Reads on until the client has closed its side. To leave while it still sends would reset the connection, and
    /// the close code would never arrive.
    pub async fn discard(&mut self) {
        self.decoder = Decoder::default();
        while let Some(Ok(_)) = self.payload.next().await {}
    }
}
