//! How a connection leaves the HTTP server and becomes a socket.
//!
//! 1. The HTTP server marks a request whose connection it can give away as [`Upgradable`].
//! 2. The handler of a protocol that agrees to the upgrade leaves an [`Upgrade`] in its answer.
//! 3. The HTTP server encodes the answer and gives the connection to the `Upgrade`; nothing of its own stays with it.
//!
//! The server knows no protocol, and a protocol does not know the server.

use std::net::IpAddr;

use tokio::net::TcpStream;

/// Marks a request whose connection can be handed over.
#[derive(Debug, Clone, Copy)]
pub struct Upgradable {
    /// Where the client is, through proxies too.
    pub client: Option<IpAddr>,
}

/// What a protocol does with the connection it is given.
pub struct Upgrade(Box<Start>);

type Start = dyn FnOnce(TcpStream, &[u8], &[u8]);

impl Upgrade {
    pub fn new(start: impl FnOnce(TcpStream, &[u8], &[u8]) + 'static) -> Self {
        Self(Box::new(start))
    }

    /// `answer` is the handshake's, and is not written yet; `received` is what the client has said since.
    pub fn start(self, connection: TcpStream, answer: &[u8], received: &[u8]) {
        (self.0)(connection, answer, received);
    }
}
