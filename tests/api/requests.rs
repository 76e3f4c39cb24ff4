//! SPEC section 5: a request sent again acts once.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Caller, TestServer, reasons};

const LOCK: &str = "/api/documents/room/lock";
const ROOM: &str = "/api/rooms/room/locks";

async fn with_key(caller: &Caller, method: Method, path: &str, key: &str, body: Value) -> Answer {
    Answer::of(caller.request(method, path).header("Idempotency-Key", key).json(&body)).await
}

#[tokio::test]
async fn the_header_and_the_field_are_the_same_id() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let by_field = alice.post(LOCK, json!({"request_id": "r"})).await.ok();
    let by_header = with_key(&alice, Method::POST, LOCK, "r", json!({})).await.ok();
    let by_both = with_key(&alice, Method::POST, LOCK, "r", json!({"request_id": "r"})).await.ok();
    assert_eq!(by_field["lease_id"], by_header["lease_id"]);
    assert_eq!(by_field["lease_id"], by_both["lease_id"]);
    let problem = with_key(&alice, Method::POST, LOCK, "r", json!({"request_id": "s"})).await;
    assert_eq!(problem.problem(422, "INVALID_FIELD")["field"], "request_id");
}

#[tokio::test]
async fn an_invalid_request_id_is_refused() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let long = "r".repeat(201);
    for id in ["", &long, "a\nb", ".."] {
        let problem = alice.post(LOCK, json!({"request_id": id})).await.problem(422, "INVALID_FIELD");
        assert_eq!(problem["field"], "request_id");
    }
    for key in ["", &long, ".."] {
        let problem = with_key(&alice, Method::POST, LOCK, key, json!({})).await.problem(422, "INVALID_FIELD");
        assert_eq!(problem["field"], "Idempotency-Key");
    }
    with_key(&alice, Method::POST, LOCK, &"r".repeat(200), json!({})).await.ok();
}

#[tokio::test]
async fn the_same_request_is_the_same_however_it_is_written() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let body = json!({"request_id": "r", "ttl_seconds": 20, "session_id": "tab"});
    let first = alice.post(LOCK, body.clone()).await.ok();
    // The other path to the same document, another order of fields, nulls for what is not given.
    let text = r#" {"session_id": "tab", "metadata": null, "ttl_seconds": 20, "request_id": "r"} "#;
    let request = alice.request(Method::POST, "/api/documents/room/main/lock");
    let again = Answer::of(request.header("content-type", "application/json").body(text)).await.ok();
    assert_eq!(first["lease_id"], again["lease_id"]);
    assert_eq!(again["hold"], 1, "not even resumed");
    alice.delete(LOCK, json!({"request_id": "u", "session_id": "tab"})).await.ok();
    alice.delete(&format!("{LOCK}?request_id=u&session_id=tab"), json!({})).await.ok();
}

#[tokio::test]
async fn an_id_used_for_another_method_path_or_body_is_refused() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({"request_id": "locked"})).await.ok();
    alice.post("/api/documents/room/gone/lock", json!({})).await.ok();
    alice.delete("/api/documents/room/gone/lock", json!({"request_id": "unlocked"})).await.ok();
    alice.put(LOCK, json!({"request_id": "extended"})).await.ok();
    let before = (server.events().await, server.locks().await);
    for (method, path, body) in [
        (Method::POST, LOCK, json!({"request_id": "locked", "ttl_seconds": 31})),
        (Method::POST, LOCK, json!({"request_id": "locked", "session_id": "tab"})),
        (Method::POST, "/api/documents/room/x/lock", json!({"request_id": "locked"})),
        (Method::POST, "/api/documents/other/lock", json!({"request_id": "locked"})),
        (Method::PUT, LOCK, json!({"request_id": "locked"})),
        (Method::DELETE, LOCK, json!({"request_id": "locked"})),
        (Method::POST, ROOM, json!({"request_id": "locked", "documents": ["x"]})),
        (Method::DELETE, ROOM, json!({"request_id": "locked", "documents": ["main"]})),
        (Method::DELETE, LOCK, json!({"request_id": "unlocked"})),
        (Method::DELETE, "/api/documents/room/gone/lock", json!({"request_id": "unlocked", "session_id": "s"})),
        (Method::POST, "/api/documents/room/gone/lock", json!({"request_id": "unlocked"})),
        (Method::PUT, LOCK, json!({"request_id": "extended", "ttl_seconds": 5})),
        (Method::POST, LOCK, json!({"request_id": "extended"})),
        (Method::DELETE, LOCK, json!({"request_id": "extended"})),
    ] {
        let answer = alice.json(method.clone(), path, body.clone()).await;
        assert_eq!(answer.body["code"], "REQUEST_ID_REUSED", "{method} {path} {body}: {}", answer.body);
        answer.problem(422, "REQUEST_ID_REUSED");
    }
    let live = server.locks().await;
    assert_eq!((server.events().await, live.len()), (before.0, before.1.len()));
    assert_eq!(live[0]["expires_at"], before.1[0]["expires_at"]);
}

#[tokio::test]
async fn a_refused_request_may_be_tried_again_with_its_id() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    bob.post(LOCK, json!({})).await.ok();
    alice.post(LOCK, json!({"request_id": "r"})).await.problem(409, "LOCK_HELD");
    alice.delete(LOCK, json!({"request_id": "u"})).await.problem(403, "NOT_OWNER");
    bob.delete(LOCK, json!({})).await.ok();
    // Not even the body has to be the same: nothing was remembered.
    let lock = alice.post(LOCK, json!({"request_id": "r", "ttl_seconds": 60})).await.ok();
    assert_eq!(lock["fencing_token"], 2);
    alice.delete(LOCK, json!({"request_id": "u"})).await.ok();
}

#[tokio::test]
async fn a_resent_request_whose_lock_has_ended_is_told_how_and_granted_nothing() {
    let server = TestServer::start().await;
    let (alice, root) = (server.editor("alice"), server.admin());
    let path = |how: &str| format!("/api/documents/room/{how}/lock");
    let endings = [
        ("expired", "LEASE_EXPIRED"),
        ("released", "LEASE_RELEASED"),
        ("revoked", "LEASE_REVOKED"),
        ("taken over", "LEASE_REVOKED"),
    ];
    let mut leases = Vec::new();
    for (how, _) in endings {
        let body = json!({"request_id": how, "ttl_seconds": if how == "expired" { 1 } else { 300 }});
        leases.push(alice.post(&path(how), body).await.ok()["lease_id"].as_str().unwrap().to_owned());
    }
    alice.delete(&path("released"), json!({})).await.ok();
    root.delete(&format!("/api/admin/locks/{}", leases[2]), json!({})).await.ok();
    root.post(&path("taken over"), json!({"takeover": true})).await.ok();
    server.pass_seconds(1).await;
    for swept in [false, true] {
        if swept {
            server.sweep().await;
        }
        for (how, code) in endings {
            let body = json!({"request_id": how, "ttl_seconds": if how == "expired" { 1 } else { 300 }});
            alice.post(&path(how), body).await.problem(409, code);
        }
    }
    let tokens: Vec<_> = server.events().await.iter().map(|event| event["fencing_token"].clone()).collect();
    assert!(
        tokens.iter().filter(|token| **token == 2).count() == 1,
        "only the take-over was granted again: {tokens:?}"
    );
}

#[tokio::test]
async fn a_resent_lock_of_several_documents_succeeds_only_while_all_of_them_live() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let body = json!({"request_id": "r", "documents": ["a", "b"]});
    let first = alice.post(ROOM, body.clone()).await.ok();
    assert_eq!(alice.post(ROOM, body.clone()).await.ok()["items"], first["items"]);
    alice.delete("/api/documents/room/a/lock", json!({})).await.ok();
    let problem = alice.post(ROOM, body).await.problem(409, "LEASE_RELEASED");
    assert_eq!(problem["failed"], json!([{"document": "a", "code": "LEASE_RELEASED"}]));
    assert_eq!(server.locks().await.len(), 1);
}

#[tokio::test]
async fn a_resent_unlock_of_several_documents_ends_nothing_more() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(ROOM, json!({"documents": ["a", "b"]})).await.ok();
    let body = json!({"request_id": "u", "documents": ["a", "b"]});
    let first = alice.delete(ROOM, body.clone()).await.ok();
    alice.post(ROOM, json!({"documents": ["a", "b"]})).await.ok();
    assert_eq!(alice.delete(ROOM, body).await.ok()["items"], first["items"]);
    assert_eq!(server.locks().await.len(), 2);
}

#[tokio::test]
async fn extends_remember_the_ids_of_the_locks_last_eight_heartbeats() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({"ttl_seconds": 60})).await.ok();
    let beat = async |id: &str| {
        server.pass_seconds(1).await;
        alice.put(LOCK, json!({"request_id": id})).await.ok()["expires_at"].clone()
    };
    let first = beat("1").await;
    assert_eq!(beat("1").await, first);
    let mut latest = first.clone();
    for id in ["2", "3", "4", "5", "6", "7", "8"] {
        let next = beat(id).await;
        assert_ne!(next, latest);
        latest = next;
    }
    // However late: nothing is extended, and the lock is told as it is.
    assert_eq!(beat("1").await, latest);
    // A heartbeat without id in between does not make it forget.
    latest = alice.put(LOCK, json!({})).await.ok()["expires_at"].clone();
    assert_eq!(beat("1").await, latest);
    assert_ne!(beat("9").await, latest);
    latest = alice.get(LOCK).await.ok()["lock"]["expires_at"].clone();
    assert_eq!(beat("2").await, latest);
    assert_ne!(beat("1").await, latest, "the ninth id has taken its place");
    let many = json!({"documents": ["main"], "request_id": "many"});
    let first = alice.put(ROOM, many.clone()).await.ok();
    server.pass_seconds(1).await;
    assert_eq!(alice.put(ROOM, many).await.ok()["items"][0]["expires_at"], first["items"][0]["expires_at"]);
    assert_eq!(first["items"][0]["lease_id"], lock["lease_id"]);
}

#[tokio::test]
async fn an_id_of_a_heartbeat_is_refused_on_another_document_and_for_another_call() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let other = "/api/documents/room/other/lock";
    alice.post(LOCK, json!({})).await.ok();
    alice.post(other, json!({})).await.ok();
    let beat = json!({"request_id": "r"});
    let first = alice.put(LOCK, beat.clone()).await.ok();
    server.pass_seconds(1).await;
    alice.put(other, beat.clone()).await.problem(422, "REQUEST_ID_REUSED");
    alice.delete(other, beat.clone()).await.problem(422, "REQUEST_ID_REUSED");
    alice.post("/api/documents/room/third/lock", beat.clone()).await.problem(422, "REQUEST_ID_REUSED");
    assert_eq!(alice.put(LOCK, beat.clone()).await.ok()["expires_at"], first["expires_at"]);
    // Once its lock has ended, it says how.
    alice.delete(LOCK, json!({})).await.ok();
    alice.post(LOCK, json!({})).await.ok();
    alice.put(LOCK, beat).await.problem(409, "LEASE_RELEASED");
}

#[tokio::test]
async fn a_memo_is_forgotten_after_24_hours_swept_or_not() {
    for swept in [false, true] {
        let server = TestServer::start().await;
        let alice = server.editor("alice");
        alice.post(LOCK, json!({"request_id": "r"})).await.ok();
        alice.delete(LOCK, json!({"request_id": "u"})).await.ok();
        server.skip_hours(23).await;
        if swept {
            server.sweep().await;
        }
        server.editor("alice").post(LOCK, json!({"request_id": "r"})).await.problem(409, "LEASE_RELEASED");
        server.skip_hours(1).await;
        if swept {
            server.sweep().await;
        }
        let alice = server.editor("alice");
        let lock = alice.post(LOCK, json!({"request_id": "r", "ttl_seconds": 60})).await.ok();
        assert_eq!(lock["fencing_token"], 2, "swept: {swept}");
        alice.delete(LOCK, json!({"request_id": "u"})).await.ok();
        assert_eq!(reasons(&server.events().await), ["released", "released"]);
    }
}

#[tokio::test]
async fn an_id_belongs_to_its_owner_and_tenant() {
    let server = TestServer::start().await;
    let everyone = [
        server.editor("alice"),
        server.editor("bob"),
        server.editor_of("other", "alice"),
        server.editor_of("other", "bob"),
    ];
    for (number, caller) in everyone.iter().enumerate() {
        let path = format!("/api/documents/room {number}/lock");
        let lock = caller.post(&path, json!({"request_id": "r"})).await.ok();
        assert_eq!(lock["fencing_token"], 1);
        assert_eq!(caller.post(&path, json!({"request_id": "r"})).await.ok()["lease_id"], lock["lease_id"]);
    }
}

#[tokio::test]
async fn memos_survive_a_restart() {
    let server = TestServer::start().await;
    let lock = server.editor("alice").post(LOCK, json!({"request_id": "r"})).await.ok();
    let server = server.restart().await;
    let again = server.editor("alice").post(LOCK, json!({"request_id": "r"})).await.ok();
    assert_eq!(lock["lease_id"], again["lease_id"]);
    server.editor("alice").delete(LOCK, json!({"request_id": "u"})).await.ok();
    let server = server.restart().await;
    server.editor("alice").delete(LOCK, json!({"request_id": "u"})).await.ok();
}
