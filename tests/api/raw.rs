//! Requests as bytes, for what a well-behaved HTTP client would not send.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use crate::support::{Answer, Caller};

/// `POST {path}` with these headers and this body, as they are.
pub fn post(caller: &Caller, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let token = caller.token.as_deref().unwrap_or_default();
    let head = format!("POST {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {token}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// With the headers of a JSON body.
pub fn post_json(caller: &Caller, path: &str, body: &[u8]) -> Vec<u8> {
    let headers = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    post(caller, path, &headers, body)
}

/// Sends the bytes and nothing more, and reads one answer.
pub async fn send(caller: &Caller, request: Vec<u8>) -> Answer {
    let text = exchange(caller, request, false).await;
    parse(&text)
}

/// Sends the bytes and hangs up; whatever was answered meanwhile does not matter.
pub async fn cut_off(caller: &Caller, request: Vec<u8>) {
    exchange(caller, request, true).await;
}

async fn exchange(caller: &Caller, request: Vec<u8>, hangs_up: bool) -> Vec<u8> {
    let address = caller.base.trim_start_matches("http://").to_owned();
    let exchange = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // A server that has seen enough may stop reading: then its answer is already there.
        let _ = stream.write_all(&request);
        if hangs_up {
            stream.shutdown(Shutdown::Both).unwrap();
            return Vec::new();
        }
        read_answer(&mut stream)
    };
    tokio::task::spawn_blocking(exchange).await.unwrap()
}

/// Until the body is as long as its header says, or the server hangs up.
fn read_answer(stream: &mut TcpStream) -> Vec<u8> {
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return text,
            Ok(count) => text.extend_from_slice(&part[..count]),
        }
        if is_whole(&text) {
            return text;
        }
    }
}

fn is_whole(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}

fn parse(text: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(text);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not an answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| {
        let name: reqwest::header::HeaderName = name.parse().unwrap();
        (name, value.parse().unwrap())
    });
    let body = serde_json::from_str(body).unwrap_or_else(|_| body.into());
    Answer { status, headers: headers.collect(), body }
}

/// The connection of a request that waits, to be cut.
pub struct Line(TcpStream);

impl Line {
    pub fn post(caller: &Caller, path: &str, body: &serde_json::Value) -> Self {
        Self::send(caller, &post_json(caller, path, body.to_string().as_bytes()))
    }

    pub fn get(caller: &Caller, path: &str) -> Self {
        let token = caller.token.as_deref().unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {token}\r\n\r\n");
        Self::send(caller, head.as_bytes())
    }

    /// Sends the request, and does not wait for its answer.
    fn send(caller: &Caller, request: &[u8]) -> Self {
        let mut stream = TcpStream::connect(caller.base.trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request).unwrap();
        Self(stream)
    }

    /// Hangs up. Returns what had been answered before the server noticed.
    pub fn cut(mut self) -> String {
        let mut answered = Vec::new();
        let _ = self.0.shutdown(Shutdown::Write);
        let _ = self.0.read_to_end(&mut answered);
        String::from_utf8_lossy(&answered).into_owned()
    }
}
