//! A WebSocket client without manners and with little memory: it sends whatever bytes it is given, reads only when it is
//! asked to, and there may be a thousand of it.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Nothing in these tests takes nearly as long: whatever does is stuck.
const PATIENCE: Duration = Duration::from_mins(1);

pub struct Raw {
    stream: TcpStream,
    received: BytesMut,
    /// Bytes of all messages so far.
    pub bytes: usize,
}

#[derive(Debug)]
pub enum Frame {
    Text(Value),
    Close(u16),
    Ping([u8; 8]),
    Pong,
}

impl Raw {
    /// Upgraded, and not yet welcomed.
    pub async fn open(base: &str, path: &str, token: &str) -> Self {
        let address = base.strip_prefix("http://").unwrap();
        let mut raw = Self { stream: TcpStream::connect(address).await.unwrap(), received: BytesMut::new(), bytes: 0 };
        let handshake = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        );
        assert!(raw.send(handshake.as_bytes()).await);
        let end = loop {
            if let Some(end) = raw.received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            assert!(raw.read().await, "no answer");
        };
        assert!(raw.received.starts_with(b"HTTP/1.1 101 "), "{:?}", raw.received);
        raw.received.advance(end + 4);
        raw
    }

    /// In the room, with what it was told first.
    pub async fn in_room(base: &str, room: &str, token: &str) -> (Self, Value) {
        let mut raw = Self::open(base, &format!("/ws/{room}"), token).await;
        assert_eq!(raw.text().await["type"], "welcome");
        let told = raw.text().await;
        assert_eq!(told["type"], "subscribed");
        (raw, told)
    }

    /// Whether the server still takes it.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        let sent = tokio::time::timeout(PATIENCE, self.stream.write_all(bytes)).await;
        sent.expect("it is not read").is_ok()
    }

    pub async fn say(&mut self, message: &Value) {
        assert!(self.send(&masked(message.to_string().as_bytes())).await);
    }

    /// The next ping. It is not answered, nor is any other on the way.
    pub async fn ping(&mut self) -> [u8; 8] {
        match self.next_with_pongs().await {
            Some(Frame::Ping(payload)) => payload,
            other => panic!("{other:?} instead of a ping"),
        }
    }

    pub async fn pong(&mut self, payload: [u8; 8]) {
        assert!(self.send(&pong(payload)).await);
    }

    /// The next thing that is said, which must come before any ping.
    pub async fn said(&mut self) -> Value {
        match self.next_with_pongs().await {
            Some(Frame::Text(message)) => message,
            other => panic!("{other:?} instead of a text"),
        }
    }

    /// Asks, and returns the answer, which must come next.
    pub async fn ask(&mut self, message: &Value) -> Value {
        self.say(message).await;
        self.said().await
    }

    /// The server has handled everything that was sent before. What it says meanwhile is not looked at.
    pub async fn is_heard(&mut self) {
        self.say(&serde_json::json!({"type": "ping"})).await;
        while self.said().await["type"] != "pong" {}
    }

    /// The next frame; none once the connection is gone. Pings are answered as it reads.
    pub async fn next(&mut self) -> Option<Frame> {
        // Not only for each read: pings may come for ever.
        tokio::time::timeout(PATIENCE, self.next_but_pings()).await.expect("nothing came")
    }

    async fn next_but_pings(&mut self) -> Option<Frame> {
        loop {
            match self.frame() {
                Some(Frame::Ping(payload)) => {
                    // Whether the server still takes it shows when it is read from again.
                    self.send(&pong(payload)).await;
                }
                Some(Frame::Pong) => {}
                Some(frame) => return Some(frame),
                None if !self.read().await => return None,
                None => {}
            }
        }
    }

    /// The next frame, pongs too, but not who comes and goes; none once the connection is gone.
    pub async fn next_with_pongs(&mut self) -> Option<Frame> {
        let next = async {
            loop {
                match self.frame() {
                    Some(Frame::Text(message)) if crate::client::is_presence(&message) => {}
                    Some(frame) => return Some(frame),
                    None if !self.read().await => return None,
                    None => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("nothing came")
    }

    /// The next thing that is said, but for who comes and goes.
    pub async fn text(&mut self) -> Value {
        tokio::time::timeout(PATIENCE, self.text_at_last()).await.expect("nothing was said")
    }

    /// The same, however long it takes.
    pub async fn text_at_last(&mut self) -> Value {
        loop {
            match self.next_but_pings().await {
                Some(Frame::Text(message)) if crate::client::is_presence(&message) => {}
                Some(Frame::Text(message)) => return message,
                other => panic!("{other:?} instead of a text"),
            }
        }
    }

    async fn read(&mut self) -> bool {
        self.stream.read_buf(&mut self.received).await.is_ok_and(|bytes| bytes > 0)
    }

    /// A server's frames are neither masked nor cut up.
    fn frame(&mut self) -> Option<Frame> {
        let [first, short, rest @ ..] = &self.received[..] else { return None };
        let (size, length) = match short {
            126 => (4, usize::from(u16::from_be_bytes(*rest.first_chunk()?))),
            127 => (10, usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).unwrap()),
            short => (2, usize::from(*short)),
        };
        let first = *first;
        if self.received.len() < size + length {
            return None;
        }
        self.received.advance(size);
        let payload = self.received.split_to(length);
        Some(match first {
            0x81 => {
                self.bytes += length;
                Frame::Text(serde_json::from_slice(&payload).unwrap())
            }
            0x88 => Frame::Close(u16::from_be_bytes(*payload.first_chunk().unwrap())),
            0x89 => Frame::Ping(*payload.first_chunk().unwrap()),
            0x8A => Frame::Pong,
            other => panic!("a frame that begins with {other:#x}"),
        })
    }
}

fn pong(payload: [u8; 8]) -> Vec<u8> {
    [&[0x8A, 0x88, 0, 0, 0, 0], &payload[..]].concat()
}

/// A text frame as a client sends it; the mask changes nothing.
pub fn masked(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match u8::try_from(text.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length),
        _ => {
            frame.push(0xFE);
            frame.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text);
    frame
}

/// Small, seeded, the same every time.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    pub fn byte(&mut self) -> u8 {
        u8::try_from(self.roll(256)).unwrap()
    }

    pub fn one_of<'a, T>(&mut self, these: &'a [T]) -> &'a T {
        &these[self.roll(these.len())]
    }
}
