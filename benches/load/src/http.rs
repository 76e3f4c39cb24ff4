//! Requests and answers, as far as a benchmark needs them.

/// Returns the request that a line describes: `METHOD PATH` or `METHOD PATH BODY`.
pub fn request(line: &str, token: &str) -> Vec<u8> {
    let mut parts = line.splitn(3, ' ');
    let (method, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let body = parts.next().unwrap_or_default();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub fn upgrade(path: &str, token: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .into_bytes()
}

/// Returns where a head ends, if all of it has arrived.
pub fn head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|place| place + 4)
}

/// Returns status and length of an answer, if all of it has arrived.
pub fn answer(bytes: &[u8]) -> Option<(u16, usize)> {
    let end = head(bytes)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?.to_ascii_lowercase();
    let status = text.get(9..12)?.parse().ok()?;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(Some(0), |length| length.trim().parse().ok())?;
    (bytes.len() >= end + length).then_some((status, end + length))
}
