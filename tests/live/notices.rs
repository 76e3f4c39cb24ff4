//! Who hears what, in which order, how often.

use doclock::auth::{Claims, Role};
use serde_json::json;

use crate::{
    client::sequence,
    support::{TestServer, claims},
};

const LOCK: &str = "/api/documents/room/lock";

#[tokio::test]
async fn everyone_in_a_room_hears_every_event_once_and_in_order() {
    let server = TestServer::start().await;
    let alice = server.editor("alice").connected();
    let mut sockets = Vec::new();
    for index in 0..10 {
        sockets.push(server.viewer(&format!("viewer {index}")).in_room("room").await.0);
    }
    for _ in 0..50 {
        alice.post(LOCK, json!({})).await.ok();
        alice.delete(LOCK, json!({})).await.ok();
        alice.post("/api/documents/other/lock", json!({})).await.ok();
        alice.delete("/api/documents/other/lock", json!({})).await.ok();
    }
    let log: Vec<_> = server.events().await.iter().filter(|event| event["room"] == "room").map(sequence).collect();
    assert_eq!(log.len(), 100);
    for socket in &mut sockets {
        for expected in &log {
            assert_eq!(sequence(&socket.next().await), *expected);
        }
        socket.is_quiet().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_larger_than_an_outbox_closes_no_socket_that_reads() {
    let server = TestServer::start().await;
    let mut sockets = Vec::new();
    for index in 0..20 {
        let (mut socket, _) = server.viewer(&format!("viewer {index}")).in_room("room").await;
        socket.subscribe("other", None).await;
        sockets.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.len() < 4000 {
                seen.push(sequence(&socket.next().await));
            }
            socket.is_quiet().await;
            seen
        }));
    }
    let editors = (0..20).map(|editor| {
        let caller = server.editor(&format!("editor {editor}")).connected();
        tokio::spawn(async move {
            let documents: Vec<_> = (0..100).map(|index| format!("{editor} {index}")).collect();
            let (path, body) =
                (format!("/api/rooms/{}/locks", ["room", "other"][editor % 2]), json!({"documents": documents}));
            caller.post(&path, body.clone()).await.ok();
            caller.delete(&path, body).await.ok();
        })
    });
    for editor in editors.collect::<Vec<_>>() {
        editor.await.unwrap();
    }
    for socket in sockets {
        // Over both rooms.
        assert_eq!(socket.await.unwrap(), (1..=4000).collect::<Vec<_>>(), "in order, each once");
    }
}

#[tokio::test]
async fn notices_say_who_and_how_and_show_the_lease_to_its_owner_and_admins_only() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let mut own = alice.in_room("room").await.0;
    let mut other = server.viewer("eve").in_room("room").await.0;
    let mut root = server.admin().in_room("room").await.0;
    let lock = alice.post(LOCK, json!({"session_id": "tab", "metadata": {"color": "red"}})).await.ok();
    let mut expected = lock.clone();
    for absent in ["resumed", "handovers", "server_time"] {
        expected.as_object_mut().unwrap().remove(absent);
    }
    let full = json!({"type": "DocumentLocked", "sequence": 1, "room": "room", "document": "main", "lock": expected});
    assert_eq!(own.next().await, full);
    assert_eq!(root.next().await, full);
    let notice = other.next().await;
    assert_eq!(notice["lock"]["holder"], json!({"owner_id": "alice", "name": null, "kind": "person"}));
    assert_eq!((&notice["lock"]["lease_id"], &notice["lock"]["metadata"]), (&json!(null), &json!({"color": "red"})));
    server.admin().post(LOCK, json!({"takeover": true})).await.ok();
    let ended = other.next().await;
    let expected = json!({"type": "DocumentUnlocked", "sequence": 2, "room": "room", "document": "main",
        "fencing_token": 1, "reason": "taken_over", "by": "root", "document_version": null});
    assert_eq!(ended, expected);
    assert_eq!(other.next().await["lock"]["fencing_token"], 2);
}

#[tokio::test]
async fn tenants_never_hear_each_other() {
    let server = TestServer::start().await;
    let (ours, theirs) = (server.editor_of("ours", "alice"), server.editor_of("theirs", "alice"));
    let mut socket = theirs.in_room("room").await.0;
    let mut everything = server.admin_of("theirs").socket("/ws?rooms=*").await;
    assert_eq!(everything.next().await["type"], "subscribed");
    ours.post(LOCK, json!({})).await.ok();
    socket.is_quiet().await;
    everything.is_quiet().await;
    let told = theirs.in_room("room").await.1;
    assert!(told.locks.is_empty());
    theirs.post(LOCK, json!({})).await.ok();
    // Only volume shows.
    assert_eq!(sequence(&socket.next().await), 2);
    assert_eq!(sequence(&everything.next().await), 2);
    let told = theirs
        .socket("/ws")
        .await
        .subscribe("room", Some(json!({"epoch": told.opening["epoch"], "sequence": 0})))
        .await;
    assert_eq!(told.events.iter().map(sequence).collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn rooms_star_hears_every_room_the_token_may_see() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post("/api/documents/team-a/lock", json!({})).await.ok();
    let rooms = Some(vec!["team-*".to_owned()]);
    let mut socket = server.caller(Claims { rooms, ..claims("eve", Role::Viewer) }).socket("/ws?rooms=*").await;
    let told = socket.told().await;
    assert_eq!((&told.opening["room"], &told.opening["sequence"]), (&json!("*"), &json!(1)));
    for room in ["team-b", "other", "team-c"] {
        alice.post(&format!("/api/documents/{room}/lock"), json!({})).await.ok();
    }
    assert_eq!(socket.next().await["room"], "team-b");
    assert_eq!(socket.next().await["room"], "team-c");
    for kind in ["subscribe", "unsubscribe"] {
        let refused = socket.ask(json!({"type": kind, "id": 1, "room": "team-a"})).await;
        assert_eq!((&refused["type"], &refused["code"]), (&json!("error"), &json!("BAD_REQUEST")));
    }
}

#[tokio::test]
async fn expiry_and_force_unlock_are_heard() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let mut socket = server.viewer("eve").in_room("room").await.0;
    alice.post(LOCK, json!({"ttl_seconds": 5})).await.ok();
    socket.next().await;
    server.pass_seconds(5).await;
    server.sweep().await;
    let ended = socket.next().await;
    assert_eq!((&ended["reason"], &ended["by"]), (&json!("expired"), &json!(null)));
    let lock = alice.post(LOCK, json!({})).await.ok();
    socket.next().await;
    let path = format!("/api/admin/locks/{}", lock["lease_id"].as_str().unwrap());
    server.admin().delete(&path, json!({"reason": "lunch"})).await.ok();
    assert_eq!(socket.next().await["reason"], "revoked");
}

#[tokio::test]
async fn extended_locks_are_told_to_those_who_ask() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({})).await.ok();
    let mut plain = server.viewer("eve").in_room("room").await.0;
    let mut curious = server.viewer("eve").socket("/ws").await;
    curious.ask(json!({"type": "subscribe", "room": "room", "extensions": true})).await;
    server.pass_seconds(3).await;
    let lock = alice.put(LOCK, json!({})).await.ok();
    let expected =
        json!({"type": "LockExtended", "room": "room", "document": "main", "expires_at": lock["expires_at"]});
    assert_eq!(curious.next().await, expected);
    // To resume is to extend.
    let body = json!({"session_id": "tab", "ttl_seconds": 20});
    alice.post("/api/documents/room/other/lock", body.clone()).await.ok();
    assert_eq!(curious.next().await["type"], "DocumentLocked");
    server.pass_seconds(3).await;
    let lock = alice.post("/api/documents/room/other/lock", body).await.ok();
    let told = curious.next().await;
    assert_eq!((&told["type"], &told["expires_at"]), (&json!("LockExtended"), &lock["expires_at"]));
    assert_eq!(plain.next().await["type"], "DocumentLocked");
    plain.is_quiet().await;
}

#[tokio::test]
async fn a_client_that_has_unsubscribed_hears_nothing_more() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let mut socket = alice.in_room("room").await.0;
    let answer = socket.ask(json!({"type": "unsubscribe", "id": "u", "room": "room"})).await;
    assert_eq!((&answer["type"], &answer["id"], &answer["room"]), (&json!("ok"), &json!("u"), &json!("room")));
    alice.post(LOCK, json!({})).await.ok();
    socket.is_quiet().await;
    assert_eq!(socket.subscribe("room", None).await.locks.len(), 1);
    // Twice is once.
    assert_eq!(socket.subscribe("room", None).await.locks.len(), 1);
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(socket.next().await["type"], "DocumentUnlocked");
    socket.is_quiet().await;
}
