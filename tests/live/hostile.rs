//! Clients that are slow, broken or wicked.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::{MaybeTlsStream, tungstenite::Message};

use crate::{
    client::{Socket, sequence},
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_stops_reading_is_closed_4408_and_nobody_waits_for_it() {
    const LOCKS: usize = 6000;
    let server = TestServer::start().await;
    let alice = server.editor("alice").connected();
    let (mut stalled, told) = server.viewer("eve").in_room("room").await;
    let mut reader = server.viewer("bob").in_room("room").await.0;
    let listening = tokio::spawn(async move {
        for expected in 1..=LOCKS * 2 {
            assert_eq!(sequence(&reader.next().await), i64::try_from(expected).unwrap());
        }
    });
    let metadata = json!({"text": "x".repeat(2000)});
    let documents: Vec<_> = (0..30).map(|index| index.to_string()).collect();
    for _ in 0..LOCKS / 30 {
        let body = json!({"documents": documents, "metadata": metadata});
        alice.post("/api/rooms/room/locks", body).await.ok();
        alice.delete("/api/rooms/room/locks", json!({"documents": documents})).await.ok();
    }
    listening.await.unwrap();
    // It is given up although it has read nothing of it.
    sockets(&server, 0).await;
    let mut last = sequence(&told.opening);
    let code = loop {
        match stalled.message().await {
            Some(Message::Text(text)) => {
                let notice = serde_json::from_str(&text).unwrap();
                assert_eq!(sequence(&notice), last + 1, "what does arrive has no gap");
                last = sequence(&notice);
            }
            Some(Message::Close(Some(close))) => break u16::from(close.code),
            Some(_) => {}
            None => break 0,
        }
    };
    assert_eq!(code, 4408);
    assert!(last < i64::try_from(LOCKS * 2).unwrap());
    let after = json!({"epoch": told.opening["epoch"], "sequence": last});
    let told = server.viewer("eve").socket("/ws").await.subscribe("room", Some(after)).await;
    assert_eq!(sequence(&told.opening), i64::try_from(LOCKS * 2).unwrap());
}

/// Past the client's own manners.
async fn send_bytes(socket: &mut Socket, bytes: &[u8]) {
    let MaybeTlsStream::Plain(stream) = socket.stream.get_mut() else { panic!("not plain") };
    let _ = stream.write_all(bytes).await;
}

#[tokio::test]
async fn a_declared_terabyte_is_refused_at_once() {
    let server = TestServer::start().await;
    let mut socket = server.editor("alice").socket("/ws").await;
    send_bytes(&mut socket, &[0x81, 0xFF, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4]).await;
    // It goes on sending: none of it is kept, and the code arrives all the same.
    send_bytes(&mut socket, &vec![b'x'; 8 << 20]).await;
    assert_eq!(socket.close_code().await, 1009);
    let mut socket = server.editor("alice").socket("/ws").await;
    socket.say(json!({"type": "lock", "room": "room", "metadata": {"text": "x".repeat(20_000)}})).await;
    assert_eq!(socket.close_code().await, 1009);
    sockets(&server, 0).await;
}

#[tokio::test]
async fn what_is_no_message_is_closed_4400() {
    let server = TestServer::start().await;
    for text in ["", "[]", "5", "{", "{}", r#"{"type": 5}"#, r#"{"type": "lock", "id": {}}"#] {
        let mut socket = server.editor("alice").socket("/ws").await;
        socket.send_raw(Message::text(text)).await;
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

/// Small, seeded, the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

fn masked(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    let mut frame = vec![0x81, 0xFE];
    frame.extend(length.to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}

fn fuzzed(dice: &mut Dice) -> Vec<u8> {
    if dice.roll(3) == 0 {
        return (0..dice.roll(200)).map(|_| u8::try_from(dice.roll(256)).unwrap()).collect();
    }
    let kinds = ["subscribe", "unsubscribe", "lock", "extend", "unlock", "auth", "wait"];
    let kind = kinds[dice.roll(kinds.len())];
    let message = json!({"type": kind, "id": dice.roll(9), "room": "room", "after": {"epoch": "x", "sequence": dice.roll(99)},
        "ttl_seconds": dice.roll(400), "token": "x"});
    let mut bytes = masked(&message.to_string());
    for _ in 0..dice.roll(4) {
        let place = dice.roll(bytes.len());
        bytes[place] = u8::try_from(dice.roll(256)).unwrap();
    }
    if dice.roll(4) == 0 {
        bytes.truncate(dice.roll(bytes.len()));
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_sequence_of_bytes_breaks_the_server() {
    const SOCKETS: usize = 400;
    const FRAMES: usize = 10;
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let mut witness = server.viewer("witness").in_room("witness").await.0;
    let mut dice = Dice(7);
    for _ in 0..SOCKETS {
        let mut socket = alice.unwelcomed("/ws/room").await;
        let bytes: Vec<_> = (0..FRAMES).flat_map(|_| fuzzed(&mut dice)).collect();
        send_bytes(&mut socket, &bytes).await;
        if dice.roll(2) == 0 {
            let MaybeTlsStream::Plain(stream) = socket.stream.get_mut() else { panic!("not plain") };
            let _ = stream.shutdown().await;
            let mut rest = Vec::new();
            let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
        }
    }
    sockets(&server, 1).await;
    alice.post("/api/documents/witness/lock", json!({})).await.ok();
    assert_eq!(witness.next().await["room"], "witness");
}
