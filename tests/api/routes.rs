//! The calls on one document, and what every answer has.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Caller, TestServer, reasons};

const LOCK: &str = "/api/documents/room/lock";
const RELEASE: &str = "/api/documents/room/lock/release";

#[tokio::test]
async fn a_lock_tells_everything_its_holder_needs() {
    let server = TestServer::start().await;
    let body = json!({"session_id": "tab", "ttl_seconds": 20, "metadata": {"color": "red"}, "document_version": "v1"});
    let lock = server.editor("alice").post("/api/documents/room/cell%20A1/lock", body).await.ok();
    let now = server.clock.now();
    let lease = lock["lease_id"].as_str().unwrap();
    assert!(uuid::Uuid::parse_str(lease).is_ok());
    let expected = json!({
        "room": "room", "document": "cell A1", "lease_id": lease, "hold": 1, "fencing_token": 1,
        "holder": {"owner_id": "alice", "session_id": "tab", "name": null, "kind": "person"},
        "acquired_at": now.to_string(), "expires_at": now.plus_seconds(20).to_string(), "expires_in_ms": 20_000,
        "ttl_seconds": 20, "activity": "active", "active_at": now.to_string(),
        "metadata": {"color": "red"}, "document_version": "v1",
        "resumed": false, "handovers": [], "server_time": now.to_string(),
    });
    assert_eq!(lock, expected);
}

#[tokio::test]
async fn a_document_is_read_with_its_lock_or_null() {
    let server = TestServer::start().await;
    let (alice, viewer) = (server.editor("alice"), server.viewer("eve"));
    let time = json!(server.clock.now().to_string());
    let free = json!({"lock": null, "waiting": 0, "last_token": 0, "server_time": time});
    assert_eq!(viewer.get(LOCK).await.ok(), free);
    alice.post(LOCK, json!({})).await.ok();
    server.pass_seconds(1).await;
    let held = viewer.get(LOCK).await.ok();
    assert_eq!(held["lock"]["holder"]["owner_id"], "alice");
    assert_eq!(held["lock"]["expires_in_ms"], 29_000);
    assert_eq!(held["last_token"], 1);
    alice.delete(LOCK, json!({})).await.ok();
    let free = viewer.get(LOCK).await.ok();
    assert_eq!((&free["lock"], &free["last_token"]), (&json!(null), &json!(1)));
}

#[tokio::test]
async fn both_families_of_paths_mean_the_same_document_main() {
    const MAIN: &str = "/api/documents/room/main/lock";
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({})).await.ok();
    assert_eq!(lock["document"], "main");
    assert_eq!(alice.get(MAIN).await.ok()["lock"]["lease_id"], lock["lease_id"]);
    assert_eq!(alice.put(MAIN, json!({})).await.ok()["lease_id"], lock["lease_id"]);
    let verify = json!({"fencing_token": 1});
    assert_eq!(alice.post(&format!("{MAIN}/verify"), verify.clone()).await.ok()["valid"], true);
    assert_eq!(alice.post(&format!("{LOCK}/verify"), verify).await.ok()["valid"], true);
    let goodbye = json!({"lease_id": lock["lease_id"], "hold": 1, "linger_ms": 5000});
    alice.post(&format!("{MAIN}/release"), goodbye.clone()).await.ok();
    alice.post(RELEASE, goodbye).await.ok();
    alice.delete(MAIN, json!({})).await.ok();
    assert_eq!(alice.get(LOCK).await.ok()["lock"], json!(null));
}

#[tokio::test]
async fn names_in_paths_are_compared_after_decoding() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let names = [
        ("a%2Fb", "a/b"),
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("%25", "%"),
        ("%2525", "%25"),
        ("%F0%9F%94%92", "🔒"),
        ("lock", "lock"),
        ("LOCK", "LOCK"),
        ("...", "..."),
    ];
    for (sent, expected) in names {
        let lock = alice.post(&format!("/api/documents/{sent}/{sent}/lock"), json!({})).await.ok();
        assert_eq!((&lock["room"], &lock["document"]), (&json!(expected), &json!(expected)), "{sent}");
        assert_eq!(lock["fencing_token"], 1, "{sent} is a document of its own");
    }
}

#[tokio::test]
async fn an_unlock_takes_its_fields_from_the_query_too() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let unlock = async |path: &str| Answer::of(alice.request(Method::DELETE, path)).await;
    alice.post(LOCK, json!({"session_id": "tab 1"})).await.ok();
    unlock(LOCK).await.problem(409, "LEASE_MISMATCH");
    unlock(&format!("{LOCK}?session_id=tab+1&document_version=v%202")).await.ok();
    let lock = alice.post(LOCK, json!({})).await.ok();
    assert_eq!(lock["document_version"], "v 2");
    unlock(&format!("{LOCK}?nonsense=1")).await.problem(422, "UNKNOWN_FIELD");
    unlock(&format!("{LOCK}?lease_id=1&lease_id=2")).await.problem(422, "INVALID_FIELD");
    let twice = alice.delete(&format!("{LOCK}?session_id=tab"), json!({"session_id": "tab"})).await;
    twice.problem(422, "INVALID_FIELD");
    unlock(&format!("{LOCK}?lease_id={}", lock["lease_id"].as_str().unwrap())).await.ok();
}

/// What `navigator.sendBeacon` sends: text, and no header of our own.
async fn beacon(server: &TestServer, token: Option<&Caller>, mut body: Value) -> Answer {
    if let Some(caller) = token {
        body["access_token"] = json!(caller.token);
    }
    let request = server.bearing(None).request(Method::POST, RELEASE);
    Answer::of(request.header("content-type", "text/plain;charset=UTF-8").body(body.to_string())).await
}

#[tokio::test]
async fn a_page_says_goodbye_by_beacon() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    let goodbye = json!({"lease_id": lock["lease_id"], "hold": 1});
    beacon(&server, None, goodbye.clone()).await.problem(401, "TOKEN_MISSING");
    beacon(&server, Some(&server.editor("bob")), goodbye.clone()).await.problem(403, "NOT_OWNER");
    // Whom the token in it names is told what is wrong with the rest.
    for (body, code) in [
        (json!({"lease_id": lock["lease_id"], "hold": 1, "nonsense": 1}), "UNKNOWN_FIELD"),
        (json!({"lease_id": lock["lease_id"], "hold": 1, "linger_ms": "x"}), "INVALID_FIELD"),
        (json!({"lease_id": lock["lease_id"]}), "INVALID_FIELD"),
    ] {
        beacon(&server, Some(&alice), body).await.problem(422, code);
    }
    let ended = beacon(&server, Some(&alice), goodbye.clone()).await.ok();
    assert_eq!((&ended["released"], &ended["fencing_token"]), (&json!(true), &json!(1)));
    assert_eq!(reasons(&server.events().await), ["released"]);
    beacon(&server, Some(&alice), goodbye).await.problem(409, "LEASE_RELEASED");
}

#[tokio::test]
async fn a_lingering_lock_is_resumed_by_the_same_session() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    let goodbye = json!({"lease_id": lock["lease_id"], "hold": 1, "linger_ms": 3000});
    let lingering = alice.post(RELEASE, goodbye.clone()).await.ok();
    assert_eq!(lingering["expires_in_ms"], 3000);
    server.pass(Duration::from_millis(2999)).await;
    server.editor("bob").post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
    let resumed = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    assert_eq!((&resumed["hold"], &resumed["resumed"]), (&json!(2), &json!(true)));
    assert_eq!(resumed["lease_id"], lock["lease_id"]);
    assert_eq!(resumed["expires_in_ms"], 30_000);
    // The goodbye of the page before, late: it names a hold that is over.
    alice.post(RELEASE, goodbye).await.problem(409, "LEASE_MISMATCH");
    assert_eq!(alice.get(LOCK).await.ok()["lock"]["expires_in_ms"], 30_000);
}

#[tokio::test]
async fn a_lingering_lock_nobody_resumes_ends_as_released() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    let goodbye = |linger: u32| json!({"lease_id": lock["lease_id"], "hold": 1, "linger_ms": linger});
    alice.post(RELEASE, goodbye(10_001)).await.problem(422, "INVALID_FIELD");
    alice.post(RELEASE, goodbye(1000)).await.ok();
    // It cuts, it never extends.
    assert_eq!(alice.post(RELEASE, goodbye(10_000)).await.ok()["expires_in_ms"], 1000);
    server.pass_seconds(1).await;
    server.sweep().await;
    assert_eq!(reasons(&server.events().await), ["released"]);
    assert_eq!(server.events().await.last().unwrap()["by"], "alice");
    alice.post(RELEASE, goodbye(0)).await.problem(409, "LEASE_RELEASED");
}

#[tokio::test]
async fn every_answer_has_the_time_and_is_not_stored() {
    let server = TestServer::start().await;
    let (alice, root) = (server.editor("alice"), server.admin());
    server.pass_seconds(7).await;
    let time = server.clock.now().to_string();
    let verify = json!({"fencing_token": 1});
    let answers = [
        alice.get(LOCK).await,
        alice.post(LOCK, json!({})).await,
        alice.put(LOCK, json!({})).await,
        alice.post(&format!("{LOCK}/verify"), verify).await,
        alice.delete(LOCK, json!({})).await,
        alice.delete(LOCK, json!({})).await,
        alice.post("/api/rooms/room/locks", json!({"documents": ["a"]})).await,
        alice.put("/api/rooms/room/locks", json!({"documents": ["a"]})).await,
        alice.delete("/api/rooms/room/locks", json!({"documents": ["a"]})).await,
        alice.get("/api/rooms/room/locks").await,
        root.get("/api/admin/locks").await,
        root.post("/api/admin/locks/unlock", json!({"filter": {"room": "room"}})).await,
        root.get("/api/admin/events").await,
        root.get("/api/admin/stats").await,
        alice.get("/api/admin/stats").await,
        alice.get("/nothing/here").await,
        alice.json(Method::PATCH, LOCK, json!({})).await,
        server.bearing(None).get(LOCK).await,
        alice.get("/healthz").await,
        alice.get("/readyz").await,
    ];
    for answer in answers {
        assert_eq!(answer.body["server_time"], time, "{}", answer.body);
        assert_eq!(answer.headers["cache-control"], "no-store");
        assert!(answer.headers.contains_key("x-request-id"));
    }
    assert_eq!(time, "2027-01-15T08:00:07.000Z", "UTC, with milliseconds");
}

#[tokio::test]
async fn head_answers_as_get_does_without_a_body() {
    let server = TestServer::start().await;
    let root = server.admin();
    for path in [LOCK, "/api/rooms/room/locks", "/api/admin/locks", "/healthz", "/openapi.json"] {
        let get = root.get(path).await;
        let head = Answer::of(root.request(Method::HEAD, path)).await;
        assert_eq!((head.status, &head.body), (200, &json!("")), "{path}");
        assert_eq!(head.headers["content-type"], get.headers["content-type"], "{path}");
    }
    let stranger = server.bearing(None);
    assert_eq!(Answer::of(stranger.request(Method::HEAD, LOCK)).await.status, 401);
}
