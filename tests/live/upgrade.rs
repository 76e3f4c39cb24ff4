//! Connections that change hands, or do not, byte by byte.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Caller, TestServer};

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
const WEBSOCKET: &str = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n";

/// Sends it all at once, and reads until the server closes.
async fn answer(caller: &Caller, head: &str, rest: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(caller.base.trim_start_matches("http://")).await.unwrap();
    let token = caller.token.as_deref().unwrap();
    let head = format!("{head}Host: test\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), rest].concat()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    answer
}

async fn text(caller: &Caller, head: &str, rest: &str) -> String {
    String::from_utf8(answer(caller, head, rest.as_bytes()).await).unwrap()
}

#[tokio::test]
async fn frames_sent_together_with_the_handshake_are_answered() {
    let server = TestServer::start().await;
    // A close frame, masked with zeros.
    let close = [0x88, 0x80, 0, 0, 0, 0];
    let answer = answer(&server.editor("alice"), &format!("GET /ws HTTP/1.1\r\n{UPGRADE}{WEBSOCKET}"), &close).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 101") && text.contains(r#""type":"welcome""#), "{text}");
    assert!(answer.ends_with(&[0x88, 2, 3, 0xE8]), "closed with 1000");
}

#[tokio::test]
async fn a_refused_upgrade_is_answered_as_any_request_and_ends() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    for (line, status, code) in [
        ("GET /ws?rooms=some", 422, "INVALID_FIELD"),
        ("GET /nowhere", 404, "NOT_FOUND"),
        ("POST /ws", 405, "METHOD_NOT_ALLOWED"),
        ("CONNECT /ws", 405, "METHOD_NOT_ALLOWED"),
    ] {
        let text = text(&alice, &format!("{line} HTTP/1.1\r\n{UPGRADE}{WEBSOCKET}"), "").await;
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {text}");
        assert!(text.contains(code) && text.contains("x-request-id") && text.contains("connection: close"), "{text}");
    }
    let text = text(&alice, &format!("GET /healthz HTTP/1.1\r\n{UPGRADE}"), "").await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

#[tokio::test]
async fn an_upgrade_request_with_a_body_is_refused() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let body = r#"{"ttl_seconds": 5}"#;
    let length = format!("Content-Length: {}\r\n", body.len());
    let locking = text(&alice, &format!("POST /api/documents/room/lock HTTP/1.1\r\n{UPGRADE}{length}"), body).await;
    assert!(locking.starts_with("HTTP/1.1 400"), "{locking}");
    let head = format!("GET /ws HTTP/1.1\r\n{UPGRADE}{WEBSOCKET}Transfer-Encoding: chunked\r\n");
    let chunked = text(&alice, &head, "0\r\n\r\nGET / HTTP/1.0\r\n\r\n").await;
    assert!(chunked.starts_with("HTTP/1.1 400"), "{chunked}");
}
