//! What a socket still does while it is told a large room, waits for a commit, or cannot be told anything.

use std::{fs, path::PathBuf, time::Duration};

use doclock::{
    auth::{Claims, Role},
    settings::DatabaseUrl,
};
use serde_json::json;

use crate::{
    client::sequence,
    raw::{Frame, Raw, masked},
    support::{TestServer, claims},
};

const LOCK: &str = "/api/documents/room/lock";

/// More than the system keeps for a client that does not read.
async fn with_a_large_room() -> TestServer {
    let server = TestServer::start().await;
    let alice = server.editor("alice").connected();
    let metadata = json!({"text": "x".repeat(2000)});
    for page in 0..60 {
        let documents: Vec<_> = (0..100).map(|index| format!("{page} {index}")).collect();
        alice.post("/api/rooms/room/locks", json!({"documents": documents, "metadata": metadata})).await.ok();
    }
    server
}

/// What comes before the last page, besides pages.
async fn interruption(socket: &mut Raw) -> Frame {
    loop {
        match socket.next_with_pongs().await.expect("cut, not closed") {
            Frame::Text(page) => assert_eq!(page["more"], true, "the last page"),
            frame => return frame,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pongs_and_the_end_of_a_token_do_not_wait_for_the_last_snapshot_page() {
    let server = with_a_large_room().await;
    let token = server.token(Claims { exp: server.seconds_from_now(60), ..claims("eve", Role::Viewer) });
    let (mut socket, told) = Raw::in_room(&server.base, "room", &token).await;
    assert_eq!(told["more"], true);
    assert!(socket.send(&[0x89, 0x80, 0, 0, 0, 0]).await);
    assert!(matches!(interruption(&mut socket).await, Frame::Pong));
    server.clock.advance(Duration::from_mins(1));
    assert!(matches!(interruption(&mut socket).await, Frame::Close(4401)));
}

#[tokio::test]
async fn requests_sent_at_once_are_answered_in_order() {
    const TURNS: i64 = 50;
    let server = TestServer::start().await;
    let mut socket = server.editor("alice").socket("/ws").await;
    for turn in 0..TURNS {
        for (id, message) in [
            json!({"type": "lock", "room": "room"}),
            json!({"type": "subscribe", "room": "other"}),
            json!({"type": "unsubscribe", "room": "other"}),
            json!({"type": "unlock", "room": "room"}),
        ]
        .into_iter()
        .enumerate()
        {
            let mut message = message;
            message["id"] = json!(turn * 4 + i64::try_from(id).unwrap());
            socket.say(message).await;
        }
    }
    for id in 0..TURNS * 4 {
        let answer = socket.next().await;
        assert_eq!((&answer["id"], answer["type"] == "error"), (&json!(id), false), "{answer}");
    }
}

#[tokio::test]
async fn a_new_token_does_not_wait_for_a_request_that_is_under_way() {
    let server = with_a_large_room().await;
    let token = server.token(Claims { exp: server.seconds_from_now(60), ..claims("eve", Role::Viewer) });
    let (mut socket, _) = Raw::in_room(&server.base, "room", &token).await;
    let token = server.token(claims("eve", Role::Viewer));
    let auth = json!({"type": "auth", "id": "new", "token": token}).to_string();
    assert!(socket.send(&masked(auth.as_bytes())).await);
    let mut pages = 0;
    loop {
        let message = socket.text().await;
        if message["type"] == "ok" {
            break;
        }
        assert_eq!(message["more"], true, "the last page");
        pages += 1;
    }
    server.clock.advance(Duration::from_mins(1));
    while socket.text().await["more"] == true {
        pages += 1;
    }
    assert!(pages > 10, "{pages} pages");
}

#[tokio::test]
async fn a_request_sent_before_the_close_is_answered() {
    let server = TestServer::start().await;
    let alice = server.editor("alice").connected();
    for _ in 0..40 {
        alice.post(LOCK, json!({})).await.ok();
        let mut socket = Raw::open(&server.base, "/ws", alice.token.as_deref().unwrap()).await;
        assert_eq!(socket.text().await["type"], "welcome");
        let unlock = masked(json!({"type": "unlock", "room": "room"}).to_string().as_bytes());
        let close = [0x88, 0x80, 0, 0, 0, 0];
        assert!(socket.send(&[&unlock[..], &close[..]].concat()).await);
        assert_eq!(socket.text().await["released"], true);
        assert!(matches!(socket.next().await, Some(Frame::Close(1000))));
        assert_eq!(alice.get(LOCK).await.ok()["lock"], json!(null));
    }
}

/// The database's files, as they are and as they are called while they are away.
fn files(server: &TestServer) -> Vec<(PathBuf, PathBuf)> {
    let DatabaseUrl::Sqlite(path) = &server.url else { panic!("a file") };
    let name = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    let with = |suffix: &str| (name(suffix), name(&format!("{suffix}.away")));
    ["", "-wal", "-shm"].map(with).into()
}

#[tokio::test]
async fn a_subscription_that_cannot_be_read_leaves_the_old_one_in_place() {
    let server = TestServer::start().await;
    let bob = server.viewer("bob");
    let (mut socket, _) = server.viewer("eve").in_room("room").await;
    for (here, away) in files(&server) {
        fs::rename(here, away).unwrap();
    }
    // It has nothing to hear, and comes again.
    let mut by_address = bob.socket("/ws/room").await;
    assert_eq!(by_address.closed().await, (4408, "OUTCOME_UNKNOWN".to_owned()));
    bob.get("/api/rooms/room/events").await.problem(503, "OUTCOME_UNKNOWN");
    let refused = socket.ask(json!({"type": "subscribe", "id": 7, "room": "room"})).await;
    assert_eq!((&refused["id"], &refused["code"]), (&json!(7), &json!("OUTCOME_UNKNOWN")));
    for (here, away) in files(&server) {
        fs::rename(away, here).unwrap();
    }
    server.editor("alice").post(LOCK, json!({})).await.ok();
    assert_eq!(sequence(&socket.next().await), 1, "it hears what it heard");
}

#[tokio::test]
async fn subscribing_counts_as_a_request() {
    let server = TestServer::configured(|settings| settings.limits.requests_per_second = 2).await;
    let mut socket = server.viewer("eve").socket("/ws").await;
    for _ in 0..2 {
        socket.subscribe("room", None).await;
    }
    let refused = socket.ask(json!({"type": "subscribe", "room": "room"})).await;
    assert_eq!((&refused["code"], &refused["retry_after_ms"]), (&json!("RATE_LIMITED"), &json!(500)));
    server.editor("alice").post(LOCK, json!({})).await.ok();
    assert_eq!(sequence(&socket.next().await), 1);
}
