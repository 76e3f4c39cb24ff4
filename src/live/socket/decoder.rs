//! Frames as clients send them: masked, text only, at most [`MAX_MESSAGE`] bytes per message, in however many
//! fragments.
//!
//! A header is checked as soon as it has arrived. actix-http's own codec waits for the whole frame before it looks at
//! the length, and would buffer a declared terabyte until then (docs/decisions/0009).

use bytes::{Buf, Bytes, BytesMut};

use super::{
    MAX_MESSAGE,
    frame::{BINARY, CLOSE, CONTINUATION, MAX_CONTROL, PING, PONG, TEXT},
};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Text(String),
    Ping(Bytes),
    Pong(Bytes),
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    TooBig,
    /// What is wrong with it.
    Bad(&'static str),
}

#[derive(Debug, Default)]
pub(super) struct Decoder {
    received: BytesMut,
    /// The fragments received so far of an unfinished message.
    message: Option<Vec<u8>>,
}

struct Header {
    is_final: bool,
    opcode: u8,
    mask: [u8; 4],
    length: usize,
    /// The length of the header itself.
    size: usize,
}

impl Decoder {
    pub fn feed(&mut self, chunk: &[u8]) {
        self.received.extend_from_slice(chunk);
    }

    /// Returns the next message, if all of it has arrived. Fails at a frame that is too big or not allowed.
    pub fn next(&mut self) -> Result<Option<Incoming>, Broken> {
        loop {
            let Some(header) = header(&self.received)? else { return Ok(None) };
            if header.opcode < CLOSE && header.length + self.message.as_ref().map_or(0, Vec::len) > MAX_MESSAGE {
                return Err(Broken::TooBig);
            }
            self.check_order(&header)?;
            if self.received.len() < header.size + header.length {
                return Ok(None);
            }
            let payload = self.take(&header);
            if let Some(incoming) = self.accept(&header, payload)? {
                return Ok(Some(incoming));
            }
        }
    }

    fn check_order(&self, header: &Header) -> Result<(), Broken> {
        match (header.opcode, &self.message) {
            (CONTINUATION, None) => Err(Broken::Bad("a continuation of nothing")),
            (TEXT, Some(_)) => Err(Broken::Bad("a message inside another")),
            _ => Ok(()),
        }
    }

    fn take(&mut self, header: &Header) -> Vec<u8> {
        self.received.advance(header.size);
        let mut payload = self.received.split_to(header.length).to_vec();
        if self.received.is_empty() {
            // A quiet socket needs no memory.
            self.received = BytesMut::new();
        }
        payload.iter_mut().zip(header.mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        payload
    }

    /// Returns the message, unless more fragments of it are still to come.
    fn accept(&mut self, header: &Header, payload: Vec<u8>) -> Result<Option<Incoming>, Broken> {
        match header.opcode {
            PING => Ok(Some(Incoming::Ping(payload.into()))),
            PONG => Ok(Some(Incoming::Pong(payload.into()))),
            CLOSE => {
                check_close(&payload)?;
                Ok(Some(Incoming::Close))
            }
            _ => {
                let message = match self.message.take() {
                    Some(mut message) => {
                        message.extend_from_slice(&payload);
                        message
                    }
                    None => payload,
                };
                if !header.is_final {
                    self.message = Some(message);
                    return Ok(None);
                }
                let text = String::from_utf8(message).map_err(|_| Broken::Bad("not UTF-8"))?;
                Ok(Some(Incoming::Text(text)))
            }
        }
    }
}

/// Fails unless a close frame is empty, or has a code that may be sent and a reason in UTF-8.
fn check_close(payload: &[u8]) -> Result<(), Broken> {
    match payload.split_first_chunk() {
        None if payload.is_empty() => Ok(()),
        Some((code, reason)) if str::from_utf8(reason).is_ok() => match u16::from_be_bytes(*code) {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Ok(()),
            _ => Err(Broken::Bad("a close code that may not be sent")),
        },
        _ => Err(Broken::Bad("a close frame without code, or whose reason is not UTF-8")),
    }
}

/// Returns the header, if all of it has arrived. Fails at its first bytes if these are wrong, without waiting for the
/// rest.
fn header(bytes: &[u8]) -> Result<Option<Header>, Broken> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    let (is_final, opcode) = (first & 0x80 != 0, first & 0x0F);
    if first & 0x70 != 0 {
        return Err(Broken::Bad("reserved bits are set"));
    }
    if second & 0x80 == 0 {
        return Err(Broken::Bad("not masked"));
    }
    let short = usize::from(second & 0x7F);
    match opcode {
        CONTINUATION | TEXT => {}
        CLOSE | PING | PONG if is_final && short <= MAX_CONTROL => {}
        CLOSE | PING | PONG => return Err(Broken::Bad("a control frame is too long or cut up")),
        BINARY => return Err(Broken::Bad("binary, only text is understood")),
        _ => return Err(Broken::Bad("unknown opcode")),
    }
    let (length, extended) = match short {
        126 => match rest.first_chunk() {
            Some(length) => (u64::from(u16::from_be_bytes(*length)), 2),
            None => return Ok(None),
        },
        127 => match rest.first_chunk() {
            Some(length) => (u64::from_be_bytes(*length), 8),
            None => return Ok(None),
        },
        short => (short as u64, 0),
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_MESSAGE).ok_or(Broken::TooBig)?;
    let Some(mask) = rest[extended..].first_chunk() else { return Ok(None) };
    Ok(Some(Header { is_final, opcode, mask: *mask, length, size: 2 + extended + 4 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![first, 0x80 | u8::try_from(payload.len()).unwrap()];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    fn all(bytes: &[u8], step: usize) -> Result<Vec<Incoming>, Broken> {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for chunk in bytes.chunks(step) {
            decoder.feed(chunk);
            while let Some(incoming) = decoder.next()? {
                found.push(incoming);
            }
        }
        Ok(found)
    }

    #[test]
    fn messages_are_the_same_however_their_bytes_are_cut() {
        let bytes =
            [masked(0x01, b"he"), masked(0x89, b"?"), masked(0x00, b"l"), masked(0x80, b"lo"), masked(0x81, b"x")];
        let expected =
            vec![Incoming::Ping(Bytes::from_static(b"?")), Incoming::Text("hello".into()), Incoming::Text("x".into())];
        for step in 1..20 {
            assert_eq!(all(&bytes.concat(), step).unwrap(), expected, "{step}");
        }
    }

    #[test]
    fn a_close_may_have_a_code_and_a_reason() {
        for payload in [&b""[..], &[0x03, 0xE8], b"\x0B\xB8bye", b"\x13\x87"] {
            assert_eq!(all(&masked(0x88, payload), 1), Ok(vec![Incoming::Close]), "{payload:?}");
        }
    }

    #[test]
    fn a_message_is_refused_by_its_declared_length_before_any_of_it_comes() {
        assert_eq!(all(&[0x81, 0xFF, 0, 0, 1, 0, 0, 0, 0, 0], 1), Err(Broken::TooBig));
        assert_eq!(all(&[0x81, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], 1), Err(Broken::TooBig));
        assert_eq!(all(&[0x81, 0xFE, 0x40, 0x01], 1), Err(Broken::TooBig));
        assert_eq!(all(&[0x81, 0xFE, 0x40, 0x00], 1), Ok(vec![]));
    }

    #[test]
    fn fragments_together_are_bounded() {
        let mut bytes = masked(0x01, &[b'x'; 100]);
        for _ in 0..200 {
            bytes.extend(masked(0x00, &[b'x'; 100]));
        }
        assert_eq!(all(&bytes, 64), Err(Broken::TooBig));
    }

    #[test]
    fn what_is_not_text_is_refused() {
        for bytes in [
            masked(0x82, b"binary"),
            masked(0x80, b"continues nothing"),
            masked(0xC1, b"reserved bit"),
            masked(0x83, b"opcode"),
            masked(0x09, b"ping cut up"),
            vec![0x81, 0x01, b'x'],
            masked(0x81, &[0xFF, 0xFE]),
            masked(0x88, b"x"),
            masked(0x88, &[0x03, 0xE7]),
            masked(0x88, &[0x03, 0xED]),
            masked(0x88, &[0x03, 0xE8, 0xFF]),
            [masked(0x01, b"a"), masked(0x81, b"b")].concat(),
        ] {
            assert!(matches!(all(&bytes, 7), Err(Broken::Bad(_))), "{bytes:?}");
        }
    }
}
