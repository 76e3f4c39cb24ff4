//! SIGTERM with sockets open.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{client::try_open, support::TestServer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "how long a stop takes is real time")]
async fn every_socket_is_told_and_closed_1012_within_the_time_to_stop() {
    const SOCKETS: usize = 300;
    let server = TestServer::configured(|settings| {
        settings.server.drain_seconds = 2;
        settings.limits.sockets_per_owner = 0;
    })
    .await;
    let alice = server.editor("alice");
    alice.post("/api/documents/room/lock", json!({})).await.ok();
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        sockets.push(alice.in_room("room").await.0);
    }
    let base = server.base.clone();
    let start = Instant::now();
    let restarting = tokio::spawn(server.restart());
    let waiting = sockets.into_iter().map(|mut socket| {
        tokio::spawn(async move {
            let goodbye = socket.next().await;
            assert_eq!(goodbye["type"], "goodbye");
            let delay = goodbye["reconnect_after_ms"].as_u64().unwrap();
            let code = socket.close_code().await;
            (delay, code, start.elapsed())
        })
    });
    let waiting: Vec<_> = waiting.collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(try_open(&base, "/ws", &[]).await.is_err(), "no new ones meanwhile");
    let (mut delays, mut ends) = (Vec::new(), Vec::new());
    for socket in waiting {
        let (delay, code, end) = socket.await.unwrap();
        assert_eq!(code, 1012);
        delays.push(delay);
        ends.push(end);
    }
    let server = restarting.await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(3500), "{:?}", start.elapsed());
    delays.sort_unstable();
    delays.dedup();
    assert!(delays.len() > SOCKETS / 4, "they do not all come back at once");
    let early = ends.iter().filter(|end| **end < Duration::from_secs(1)).count();
    assert!((SOCKETS / 10..SOCKETS * 9 / 10).contains(&early), "{early} of {SOCKETS} in the first second");
    assert_eq!(server.locks().await.len(), 1, "no lock is lost");
}

#[tokio::test]
async fn a_socket_that_does_not_go_is_not_waited_for() {
    let server = TestServer::start().await;
    let socket = server.editor("alice").socket("/ws").await;
    let restarted = tokio::time::timeout(Duration::from_secs(5), server.restart()).await;
    assert!(restarted.is_ok());
    drop(socket);
}
