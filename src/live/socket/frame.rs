//! Bytes for the wire: WebSocket frames as a server sends them (unmasked, unfragmented), and Server-Sent Events.

use bytes::Bytes;
use uuid::Uuid;

use crate::{live::Wire, storage::tail::Head};

const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
/// A control frame's payload, by the standard.
pub const MAX_CONTROL: usize = 125;

/// Why a socket is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    Normal,
    TooBig,
    Draining,
    BadFrame,
    Unauthorized,
    Forbidden,
    TooSlow,
    NoPong,
    TooMany,
}

impl Close {
    pub fn code(self) -> u16 {
        match self {
            Self::Normal => 1000,
            Self::TooBig => 1009,
            Self::Draining => 1012,
            Self::BadFrame => 4400,
            Self::Unauthorized => 4401,
            Self::Forbidden => 4403,
            Self::TooSlow => 4408,
            Self::NoPong => 4409,
            Self::TooMany => 4429,
        }
    }
}

pub fn text(json: &[u8]) -> Bytes {
    frame(TEXT, json)
}

pub fn ping(payload: &[u8]) -> Bytes {
    frame(PING, payload)
}

pub fn pong(payload: &[u8]) -> Bytes {
    frame(PONG, payload)
}

pub fn close(close: Close, reason: &str) -> Bytes {
    let mut end = reason.len().min(MAX_CONTROL - 2);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let payload = [&close.code().to_be_bytes(), &reason.as_bytes()[..end]].concat();
    frame(CLOSE, &payload)
}

fn frame(opcode: u8, payload: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(payload.len() + 10);
    bytes.push(0x80 | opcode);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => bytes.push(length),
        (_, Ok(length)) => {
            bytes.push(126);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
        (_, Err(_)) => {
            bytes.push(127);
            bytes.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(payload);
    bytes.into()
}

/// A message of the given type. As a Server-Sent Event it may have an id, which says how far its reader has come.
pub fn message(wire: Wire, kind: &str, id: Option<Head>, json: &str) -> Bytes {
    match wire {
        Wire::WebSocket => text(json.as_bytes()),
        Wire::EventStream => {
            let id = id.map(|Head { epoch, sequence }| format!("id: {epoch}:{sequence}\n")).unwrap_or_default();
            // JSON has no line breaks of its own.
            format!("{id}event: {kind}\ndata: {json}\n\n").into()
        }
    }
}

/// What a client sends as `Last-Event-ID`; anything else is as good as none.
pub fn event_id(text: &str) -> Option<Head> {
    let (epoch, sequence) = text.trim().split_once(':')?;
    Some(Head { epoch: Uuid::try_parse(epoch).ok()?, sequence: sequence.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_shortest_header() {
        for (length, header) in [
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_535, vec![0x81, 126, 255, 255]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let frame = text(&vec![b'x'; length]);
            assert_eq!((&frame[..header.len()], frame.len()), (header.as_slice(), header.len() + length));
        }
    }

    #[test]
    fn a_close_reason_is_cut_between_characters() {
        let frame = close(Close::TooSlow, &"é".repeat(100));
        assert_eq!(frame.len(), 2 + 2 + 122);
        assert_eq!(frame[2..4], 4408_u16.to_be_bytes());
        assert!(std::str::from_utf8(&frame[4..]).is_ok());
    }
}
