//! Locking over a socket: the fields, codes and views of the HTTP calls.

use serde_json::json;

use crate::support::TestServer;

#[tokio::test]
async fn a_socket_locks_extends_and_unlocks_as_http_does() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let mut socket = alice.socket("/ws").await;
    let lock =
        socket.ask(json!({"type": "lock", "id": 7, "room": "room", "session_id": "tab", "ttl_seconds": 20})).await;
    assert_eq!((&lock["type"], &lock["id"], &lock["fencing_token"]), (&json!("ok"), &json!(7), &json!(1)));
    assert_eq!(
        (&lock["document"], &lock["resumed"], &lock["expires_in_ms"]),
        (&json!("main"), &json!(false), &json!(20_000))
    );
    let by_http = alice.get("/api/documents/room/lock").await.ok();
    assert_eq!(by_http["lock"]["lease_id"], lock["lease_id"]);
    server.pass_seconds(5).await;
    let extended = socket.ask(json!({"type": "extend", "id": "e", "room": "room", "session_id": "tab"})).await;
    assert_eq!((&extended["type"], &extended["expires_in_ms"]), (&json!("ok"), &json!(20_000)));
    let unlocked = socket.ask(json!({"type": "unlock", "id": "u", "room": "room", "lease_id": lock["lease_id"], "document_version": "v2"})).await;
    assert_eq!((&unlocked["released"], &unlocked["fencing_token"]), (&json!(true), &json!(1)));
    let next = socket.ask(json!({"type": "lock", "room": "room", "document": "main"})).await;
    assert_eq!((&next["document_version"], &next["id"]), (&json!("v2"), &json!(null)));
}

#[tokio::test]
async fn refusals_have_the_codes_of_the_catalogue() {
    let server = TestServer::start().await;
    server.editor("bob").post("/api/documents/room/lock", json!({})).await.ok();
    let mut socket = server.editor("alice").socket("/ws").await;
    for (message, code) in [
        (json!({"type": "lock", "room": "room"}), "LOCK_HELD"),
        (json!({"type": "extend", "room": "room"}), "NOT_OWNER"),
        (json!({"type": "unlock", "room": "free"}), "LOCK_NOT_FOUND"),
        (json!({"type": "lock", "room": "room", "ttl_seconds": 0}), "INVALID_FIELD"),
        (json!({"type": "lock", "room": "room", "nonsense": 1}), "UNKNOWN_FIELD"),
        (json!({"type": "lock"}), "INVALID_FIELD"),
        (json!({"type": "lock", "room": 5}), "INVALID_FIELD"),
        (json!({"type": "lock", "room": ""}), "INVALID_FIELD"),
        (json!({"type": "subscribe", "room": "room", "after": 5}), "INVALID_FIELD"),
        (json!({"type": "unsubscribe", "room": "room", "nonsense": 1}), "UNKNOWN_FIELD"),
        (json!({"type": "dance", "room": "room"}), "BAD_REQUEST"),
    ] {
        let mut message = message;
        message["id"] = json!("mine");
        let answer = socket.ask(message.clone()).await;
        assert_eq!(
            (&answer["type"], &answer["id"], &answer["code"]),
            (&json!("error"), &json!("mine"), &json!(code)),
            "{message}"
        );
        assert!(answer["retryable"].is_boolean() && answer["detail"].is_string(), "{answer}");
    }
    let held = socket.ask(json!({"type": "lock", "room": "room"})).await;
    assert_eq!((&held["lock"]["holder"]["owner_id"], &held["is_you"]), (&json!("bob"), &json!(false)));
}

#[tokio::test]
async fn a_request_id_is_one_for_sockets_and_http() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let body = json!({"request_id": "once", "session_id": "tab"});
    let lock = alice.post("/api/documents/room/lock", body).await.ok();
    let mut socket = alice.socket("/ws").await;
    let again = socket.ask(json!({"type": "lock", "room": "room", "request_id": "once", "session_id": "tab"})).await;
    assert_eq!((&again["type"], &again["lease_id"], &again["hold"]), (&json!("ok"), &lock["lease_id"], &json!(1)));
    let other = socket.ask(json!({"type": "lock", "room": "room", "request_id": "once"})).await;
    assert_eq!(other["code"], "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn roles_and_rooms_hold_for_sockets_too() {
    use doclock::auth::{Claims, Role};
    let server = TestServer::start().await;
    let mut viewer = server.viewer("eve").socket("/ws").await;
    assert_eq!(viewer.ask(json!({"type": "lock", "room": "room"})).await["code"], "ROLE_FORBIDS");
    let rooms = Some(vec!["team-*".to_owned()]);
    let limited = Claims { rooms, ..crate::support::claims("alice", Role::Editor) };
    let mut socket = server.caller(limited.clone()).socket("/ws").await;
    assert_eq!(socket.ask(json!({"type": "subscribe", "room": "other"})).await["code"], "ROOM_FORBIDDEN");
    assert_eq!(socket.ask(json!({"type": "lock", "room": "other"})).await["code"], "ROOM_FORBIDDEN");
    assert_eq!(socket.ask(json!({"type": "lock", "room": "team-a"})).await["type"], "ok");
    let mut refused = server.caller(limited).socket("/ws/other").await;
    assert_eq!(refused.next().await["code"], "ROOM_FORBIDDEN");
    assert_eq!(refused.closed().await, (4403, "ROOM_FORBIDDEN".to_owned()));
}

#[tokio::test]
async fn a_welcome_says_who_one_is() {
    use doclock::auth::{Claims, Role};
    let server = TestServer::start().await;
    let named = Claims { name: Some("Alice Liddell".to_owned()), ..crate::support::claims("alice", Role::Editor) };
    let mut alice = server.caller(named).unwelcomed("/ws").await;
    let mut root = server.admin().unwelcomed("/ws").await;
    for (socket, owner, name, role) in
        [(&mut alice, "alice", json!("Alice Liddell"), "editor"), (&mut root, "root", json!(null), "admin")]
    {
        let welcome = socket.next().await;
        assert_eq!(welcome["type"], "welcome");
        assert_eq!((&welcome["owner_id"], &welcome["name"], &welcome["role"]), (&json!(owner), &name, &json!(role)));
        assert_eq!(welcome["ping_ms"], 10_000);
    }
}

#[tokio::test]
async fn a_ping_of_a_page_is_answered_by_a_pong() {
    let server = TestServer::start().await;
    let mut socket = server.editor("alice").socket("/ws").await;
    let now = server.clock.now().to_string();
    let expected = json!({"type": "pong", "id": "here?", "server_time": now});
    assert_eq!(socket.ask(json!({"type": "ping", "id": "here?"})).await, expected);
    assert_eq!(socket.ask(json!({"type": "ping"})).await, json!({"type": "pong", "server_time": now}));
    assert_eq!(socket.ask(json!({"type": "ping", "room": "room"})).await["code"], "UNKNOWN_FIELD");
}
