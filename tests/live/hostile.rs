//! Clients that are slow, broken or wicked.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::{MaybeTlsStream, tungstenite::Message};

use crate::{
    client::{Socket, open},
    support::TestServer,
};

/// Waits until there are so many sockets, by the metrics.
pub async fn sockets(server: &TestServer, expected: usize) {
    let mut found = String::new();
    for _ in 0..500 {
        let metrics = server.admin().get("/metrics").await.body;
        let line = metrics.as_str().unwrap().lines().find(|line| line.starts_with("doclock_sockets "));
        found = line.unwrap().to_owned();
        if found == format!("doclock_sockets {expected}") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{found} instead of {expected}");
}

/// Past the client's own manners.
async fn send_bytes(socket: &mut Socket, bytes: &[u8]) {
    let MaybeTlsStream::Plain(stream) = socket.stream.get_mut() else { panic!("not plain") };
    let _ = stream.write_all(bytes).await;
}

#[tokio::test]
async fn a_message_over_16_kib_is_closed_1009() {
    let server = TestServer::start().await;
    let mut socket = server.editor("alice").socket("/ws").await;
    socket.say(json!({"type": "lock", "room": "room", "metadata": {"text": "x".repeat(20_000)}})).await;
    assert_eq!(socket.close_code().await, 1009);
    sockets(&server, 0).await;
}

#[tokio::test]
async fn a_frame_that_is_no_message_is_closed_4400() {
    let server = TestServer::start().await;
    for text in ["", "[]", "5", "{", "{}", r#"{"type": 5}"#, r#"{"type": "lock", "id": {}}"#] {
        let mut socket = server.editor("alice").socket("/ws").await;
        assert!(socket.send_raw(Message::text(text)).await);
        assert_eq!(socket.close_code().await, 4400, "{text}");
    }
    let mut socket = server.editor("alice").socket("/ws").await;
    socket.send_raw(Message::binary(b"{}".to_vec())).await;
    assert_eq!(socket.close_code().await, 4400);
    for bytes in [&[0x81, 0x01, b'x'][..], &[0xF1, 0x80, 0, 0, 0, 0], &[0x81, 0x82, 0, 0, 0, 0, 0xFF, 0xFE]] {
        let mut socket = server.editor("alice").socket("/ws").await;
        send_bytes(&mut socket, bytes).await;
        assert_eq!(socket.close_code().await, 4400, "{bytes:?}");
    }
}

#[tokio::test]
async fn a_closed_socket_does_not_keep_its_connection() {
    let server = TestServer::start().await;
    let mut socket = server.editor("alice").socket("/ws").await;
    send_bytes(&mut socket, &[0x81, 0x01, b'x']).await;
    // It neither answers the close nor closes its side.
    let MaybeTlsStream::Plain(stream) = socket.stream.get_mut() else { panic!("not plain") };
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "still connected after {rest:?}");
    assert_eq!(rest[2..4], 4400_u16.to_be_bytes());
}

/// A masked frame without payload.
fn empty_frame(opcode: u8) -> [u8; 6] {
    [0x80 | opcode, 0x80, 0, 0, 0, 0]
}

#[tokio::test]
async fn who_sends_more_frames_a_second_than_the_limit_is_closed_4429_and_sooner_without_a_token() {
    let server = TestServer::start().await;
    let mut stranger = open(&server.base, "/ws", &[]).await;
    send_bytes(&mut stranger, &empty_frame(0x9).repeat(21)).await;
    assert_eq!(stranger.close_code().await, 4429);
    let mut known = server.editor("alice").socket("/ws").await;
    send_bytes(&mut known, &empty_frame(0xA).repeat(1999)).await;
    assert_eq!(known.ask(json!({"type": "ping", "id": 1})).await["type"], "pong", "as many as it may");
    send_bytes(&mut known, &empty_frame(0xA)).await;
    assert_eq!(known.close_code().await, 4429);
    sockets(&server, 0).await;
}

#[tokio::test]
async fn a_body_that_never_comes_is_answered_after_ten_seconds() {
    let server = TestServer::start().await;
    let address = server.base.strip_prefix("http://").unwrap().to_owned();
    let mut silent = tokio::net::TcpStream::connect(&address).await.unwrap();
    let token = server.editor("alice").token.unwrap();
    let head = format!(
        "POST /api/documents/room/lock HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    );
    silent.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let length = silent.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("BAD_REQUEST"), "{answer}");
}
