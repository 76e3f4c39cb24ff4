//! Tells frames apart by their header and the first bytes of their payload; the rest is skipped.

/// How many bytes of a text are looked at: one that begins with `{"type":"D` is a notice.
const LOOK: usize = 10;
const NOTICE: &[u8] = br#"{"type":"D"#;
/// A notice of the raw loop goes on with the moment its writing began.
const STAMP: &[u8] = br#"ocument","at":"#;
const STAMP_DIGITS: usize = 19;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// With the moment its writing began, if it says so.
    Notice {
        bytes: usize,
        written_ns: Option<u64>,
    },
    Other,
    /// Its payload, of eight bytes.
    Ping([u8; 8]),
    Close,
}

/// Where one connection's stream of frames stands.
#[derive(Debug, Default)]
pub struct Frames {
    /// The beginning of a frame, while too little has arrived to tell what it is.
    begun: Vec<u8>,
    /// How many bytes are still to come of a frame that has been reported.
    rest: usize,
}

impl Frames {
    pub fn feed(&mut self, mut bytes: &[u8], mut found: impl FnMut(Frame)) {
        if !self.begun.is_empty() {
            let mut begun = std::mem::take(&mut self.begun);
            begun.extend_from_slice(bytes);
            // Rare: a frame that was cut within its first bytes.
            self.feed(&begun, found);
            return;
        }
        loop {
            let skipped = self.rest.min(bytes.len());
            self.rest -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            let Some((header, length)) = header(bytes) else { break };
            let needed = header + length.min(LOOK + STAMP.len() + STAMP_DIGITS);
            if bytes.len() < needed {
                break;
            }
            found(told(bytes[0] & 0x0F, &bytes[header..], header + length));
            self.rest = header + length;
        }
        self.begun = bytes.to_vec();
    }
}

/// Returns the size of the header, and that of the payload.
fn header(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes.get(1)? & 0x7F {
        126 => Some((4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)))),
        127 => Some((10, usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?)),
        length => Some((2, usize::from(length))),
    }
}

fn told(opcode: u8, payload: &[u8], bytes: usize) -> Frame {
    match opcode {
        0x8 => Frame::Close,
        0x9 => Frame::Ping(payload.first_chunk().copied().unwrap_or_default()),
        _ if payload.starts_with(NOTICE) => {
            let stamp = payload[NOTICE.len()..].strip_prefix(STAMP);
            let digits = stamp.and_then(|stamp| std::str::from_utf8(stamp.get(..STAMP_DIGITS)?).ok());
            Frame::Notice { bytes, written_ns: digits.and_then(|digits| digits.parse().ok()) }
        }
        _ => Frame::Other,
    }
}

/// Returns a frame as a client sends it: masked, with a mask of zeros.
pub fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match u8::try_from(payload.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length),
        _ => {
            frame.push(0xFE);
            frame.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// Returns a notice of so many bytes, as a server sends it.
pub fn raw_notice(bytes: usize, written_ns: u64) -> Vec<u8> {
    let begin = [NOTICE, STAMP, format!("{written_ns:019}").as_bytes(), br#","x":""#].concat();
    let length = bytes.saturating_sub(4).clamp(126, 65_535);
    let mut frame = vec![0x81, 126];
    frame.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    frame.extend(&begin);
    frame.resize(4 + length - 2, b'x');
    frame.extend(br#""}"#);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmasked(opcode: u8, payload: &[u8]) -> Vec<u8> {
        [&[0x80 | opcode, u8::try_from(payload.len()).unwrap()], payload].concat()
    }

    #[test]
    fn frames_are_counted_however_they_are_cut() {
        let notice = raw_notice(250, 1_234_567_890_123_456_789);
        assert_eq!(notice.len(), 250);
        let locked = unmasked(1, br#"{"type":"DocumentLocked","sequence":1,"room":"a room"}"#);
        let bytes =
            [notice, unmasked(9, b"12345678"), unmasked(1, b"{}"), locked, unmasked(1, br#"{"type":"ok"}"#)].concat();
        for step in 1..300 {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            bytes.chunks(step).for_each(|chunk| frames.feed(chunk, |frame| found.push(frame)));
            let expected = [
                Frame::Notice { bytes: 250, written_ns: Some(1_234_567_890_123_456_789) },
                Frame::Ping(*b"12345678"),
                Frame::Other,
                Frame::Notice { bytes: 56, written_ns: None },
                Frame::Other,
            ];
            assert_eq!(found, expected, "{step}");
        }
    }
}
