//! SIGTERM with sockets open.

use std::time::{Duration, Instant};

use doclock::auth::Role;
use reqwest::Method;
use serde_json::json;
use tokio::task::block_in_place;

use crate::{
    client::try_open,
    costs::allow_open_files,
    process::{Home, token},
    raw::{Frame, Raw},
    support::TestServer,
};

/// How long it was told to stay away, how it was closed, and when.
async fn see_it_out(mut socket: Raw, start: Instant) -> (u64, u16, Duration) {
    let goodbye = socket.text().await;
    assert_eq!(goodbye["type"], "goodbye");
    let delay = goodbye["reconnect_after_ms"].as_u64().unwrap();
    loop {
        match socket.next().await {
            Some(Frame::Close(code)) => return (delay, code, start.elapsed()),
            Some(Frame::Text(_)) => {}
            other => panic!("{other:?}: cut, not closed"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "how closes are spread over a stop is real time")]
async fn sigterm_says_goodbye_to_1000_sockets_and_closes_them_1012_one_after_the_other() {
    const SOCKETS: usize = 1000;
    const LOCKS: usize = 100;
    allow_open_files(4000);
    let home = Home::new().set("DOCLOCK_SERVER__DRAIN_SECONDS", "4").set("DOCLOCK_LIMITS__SOCKETS_PER_OWNER", "0");
    let mut server = home.start();
    let documents: Vec<_> = (0..LOCKS).map(|index| index.to_string()).collect();
    let body = json!({"documents": documents, "ttl_seconds": 300});
    server.editor("alice").send(Method::POST, "/api/rooms/room/locks", body).await.ok();
    let before = server.admin().locks().await;
    let viewer = token("eve", Role::Viewer);
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        sockets.push(Raw::in_room(&server.base, "lobby", &viewer).await.0);
    }
    let start = Instant::now();
    server.signal("TERM");
    let waiting: Vec<_> = sockets.into_iter().map(|socket| tokio::spawn(see_it_out(socket, start))).collect();
    let (mut delays, mut ends) = (Vec::new(), Vec::new());
    for (index, socket) in waiting.into_iter().enumerate() {
        let (delay, code, end) = socket.await.unwrap();
        assert_eq!(code, 1012);
        delays.push(delay);
        ends.push(end);
        if index == 0 {
            assert!(try_open(&server.base, "/ws", &[]).await.is_err(), "no new ones meanwhile");
        }
    }
    assert_eq!(block_in_place(|| server.wait()).code(), Some(0), "{:?}", server.log());
    delays.sort_unstable();
    delays.dedup();
    assert!(delays.len() > SOCKETS / 4, "they do not all come back at once");
    ends.sort_unstable();
    let (early, late) = (ends[SOCKETS / 10], ends[SOCKETS * 9 / 10]);
    assert!(late.abs_diff(early) > Duration::from_secs(1), "closed all at once: {early:?} to {late:?}");
    let server = home.start();
    let lasting = |locks: &[serde_json::Value]| -> Vec<_> {
        locks.iter().map(|lock| (lock["lease_id"].clone(), lock["fencing_token"].clone())).collect()
    };
    assert_eq!(lasting(&server.admin().locks().await), lasting(&before), "no lock is lost");
}

#[tokio::test]
async fn a_stopping_server_does_not_wait_for_a_socket_that_stays() {
    let server = TestServer::start().await;
    let socket = server.editor("alice").socket("/ws").await;
    let restarted = tokio::time::timeout(Duration::from_secs(5), server.restart()).await;
    assert!(restarted.is_ok());
    drop(socket);
}
