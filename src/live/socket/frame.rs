//! WebSocket frames as a server sends them: unmasked, unfragmented.

use bytes::{Buf, Bytes};
use serde::Serialize;

pub(super) const CONTINUATION: u8 = 0x0;
pub(super) const TEXT: u8 = 0x1;
pub(super) const BINARY: u8 = 0x2;
pub(super) const CLOSE: u8 = 0x8;
pub(super) const PING: u8 = 0x9;
pub(super) const PONG: u8 = 0xA;
/// The largest payload of a control frame, by the standard.
pub(super) const MAX_CONTROL: usize = 125;
/// The longest header a server sends.
const MAX_HEADER: usize = 10;

/// Returns a text frame with the message as JSON.
pub fn text(message: &impl Serialize) -> Bytes {
    // The header depends on how long the payload has become, so it is put in front afterwards.
    let mut bytes = Vec::with_capacity(512);
    bytes.resize(MAX_HEADER, 0);
    // Our own types can always be written.
    let _ = serde_json::to_writer(&mut bytes, message);
    let (header, size) = header(TEXT, bytes.len() - MAX_HEADER);
    let start = MAX_HEADER - size;
    bytes[start..MAX_HEADER].copy_from_slice(&header[..size]);
    let mut frame = Bytes::from(bytes);
    frame.advance(start);
    frame
}

pub(super) fn ping(payload: &[u8]) -> Bytes {
    control(PING, payload)
}

pub(super) fn pong(payload: &[u8]) -> Bytes {
    control(PONG, payload)
}

/// Returns a close frame. A reason that is too long is cut.
pub(super) fn close(code: u16, reason: &str) -> Bytes {
    let reason = &reason[..reason.floor_char_boundary(MAX_CONTROL - 2)];
    control(CLOSE, &[&code.to_be_bytes(), reason.as_bytes()].concat())
}

fn control(opcode: u8, payload: &[u8]) -> Bytes {
    let (header, size) = header(opcode, payload.len());
    [&header[..size], payload].concat().into()
}

/// Returns the shortest header for a payload of this length, and its size.
fn header(opcode: u8, length: usize) -> ([u8; MAX_HEADER], usize) {
    let mut header = [0; MAX_HEADER];
    header[0] = 0x80 | opcode;
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length), _) if length < 126 => {
            header[1] = length;
            (header, 2)
        }
        (_, Ok(length)) => {
            header[1] = 126;
            header[2..4].copy_from_slice(&length.to_be_bytes());
            (header, 4)
        }
        (_, Err(_)) => {
            header[1] = 127;
            header[2..].copy_from_slice(&(length as u64).to_be_bytes());
            (header, MAX_HEADER)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_the_shortest_header_for_its_length() {
        for (length, header) in [
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_535, vec![0x81, 126, 255, 255]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let payload = "x".repeat(length - 2);
            let frame = text(&payload);
            assert_eq!(frame[..], [&header[..], format!("\"{payload}\"").as_bytes()].concat());
        }
    }

    #[test]
    fn a_close_reason_is_cut_between_characters() {
        let frame = close(4408, &"é".repeat(100));
        assert_eq!(frame.len(), 2 + 2 + 122);
        assert_eq!(frame[2..4], 4408_u16.to_be_bytes());
        assert!(str::from_utf8(&frame[4..]).is_ok());
    }
}
