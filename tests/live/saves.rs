//! What a room is told of the holder: what it has saved, and what it is doing.

use std::time::Duration;

use doclock::auth::Role;
use serde_json::{Value, json};

use crate::{
    pair::{Pair, round, until},
    support::{TestServer, claims},
};

const LOCK: &str = "/api/documents/room/lock";

#[tokio::test]
async fn a_room_is_told_of_each_save_and_of_the_version_that_is_left() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let (mut eve, told) = server.viewer("eve").in_room("room").await;
    alice.post(LOCK, json!({})).await.ok();
    assert_eq!(eve.next().await["type"], "DocumentLocked");
    alice.put(LOCK, json!({"document_version": "v2"})).await.ok();
    let saved = |sequence: u32, version: &str| {
        json!({"type": "DocumentSaved", "sequence": sequence, "room": "room", "document": "main", "fencing_token": 1,
            "document_version": version, "by": "alice"})
    };
    assert_eq!(eve.next().await, saved(2, "v2"));
    // The same version is not saved again, and a heartbeat is none.
    alice.put(LOCK, json!({"document_version": "v2"})).await.ok();
    alice.put(LOCK, json!({})).await.ok();
    alice.delete(LOCK, json!({"document_version": "v3"})).await.ok();
    assert_eq!(eve.next().await, saved(3, "v3"));
    let ended = json!({"type": "DocumentUnlocked", "sequence": 4, "room": "room", "document": "main",
        "fencing_token": 1, "reason": "released", "by": "alice", "document_version": "v3"});
    assert_eq!(eve.next().await, ended);
    let missed = server.viewer("eve").socket("/ws").await.subscribe("room", Some(told.after())).await;
    assert_eq!(missed.events[1..], [saved(2, "v2"), saved(3, "v3"), ended], "who comes back is told as well");
}

fn activity(activity: &str, active_at: &Value) -> Value {
    json!({"type": "LockActivity", "room": "room", "document": "main", "activity": activity, "active_at": active_at})
}

#[tokio::test]
async fn a_room_is_told_when_the_activity_of_a_holder_changes_and_not_otherwise() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let acquired_at = alice.post(LOCK, json!({})).await.ok()["acquired_at"].clone();
    let (mut eve, told) = server.viewer("eve").in_room("room").await;
    assert_eq!(told.locks[0]["activity"], "active");
    let mut everything = server.viewer("eve").socket("/ws?rooms=*").await;
    everything.told().await;
    server.pass(Duration::from_secs(1)).await;
    for said in [json!({}), json!({"activity": "active"})] {
        alice.put(LOCK, said).await.ok();
    }
    let active_at = json!(server.clock.now().to_string());
    assert_ne!(active_at, acquired_at);
    server.pass(Duration::from_secs(1)).await;
    for said in [json!({"activity": "idle"}), json!({"activity": "idle"}), json!({}), json!({"activity": "away"})] {
        alice.put(LOCK, said).await.ok();
    }
    let mut editor = alice.socket("/ws").await;
    let extend = json!({"type": "extend", "room": "room", "activity": "active"});
    assert_eq!(editor.ask(extend).await["activity"], "active");
    let now = json!(server.clock.now().to_string());
    for socket in [&mut eve, &mut everything] {
        assert_eq!(socket.next().await, activity("idle", &active_at));
        assert_eq!(socket.next().await, activity("away", &active_at));
        assert_eq!(socket.next().await, activity("active", &now));
        socket.is_quiet().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_activity_of_a_holder_crosses_servers_within_a_second() {
    let Pair { clock, first, second, database } = Pair::start().await;
    let mut alice = first.in_room_as(claims("alice", Role::Editor), "lobby").await.0;
    let mut eve = second.in_room("eve", "room").await.0;
    let lock = alice.ask(json!({"type": "lock", "room": "room"})).await;
    assert_eq!(eve.next().await["type"], "DocumentLocked");
    assert_eq!(alice.ask(json!({"type": "extend", "room": "room", "activity": "idle"})).await["type"], "ok");
    // One round to say it, one to hear it.
    round(&clock);
    until(&database, "holder_activity", 1).await;
    round(&clock);
    assert_eq!(eve.next().await, activity("idle", &lock["acquired_at"]));
}
