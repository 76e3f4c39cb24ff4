//! What holders say with a heartbeat: what they are doing, what they have saved, and which hold they speak for.

use std::time::Duration;

use doclock::{
    auth::{Claims, Role},
    locking::HolderKind,
};
use serde_json::{Value, json};

use crate::support::{TestServer, claims};

const LOCK: &str = "/api/documents/room/lock";

/// The events of these types, as (type, version).
async fn versions(server: &TestServer) -> Vec<(String, Value)> {
    let events = server.events().await;
    let saves = events.into_iter().filter(|event| event["type"] != "DocumentLocked");
    saves.map(|event| (event["type"].as_str().unwrap().to_owned(), event["document_version"].clone())).collect()
}

#[tokio::test]
async fn everyone_sees_what_the_holder_last_said_of_itself_and_since_when() {
    let server = TestServer::start().await;
    let (alice, eve) = (server.editor("alice"), server.viewer("eve"));
    let mut active_at = alice.post(LOCK, json!({"ttl_seconds": 60})).await.ok()["acquired_at"].clone();
    let expect = async |activity: &str, active_at: &Value| {
        let lock = eve.get(LOCK).await.ok()["lock"].clone();
        assert_eq!((&lock["activity"], &lock["active_at"]), (&json!(activity), active_at));
    };
    expect("active", &active_at).await;
    for (said, activity, is_active_now) in [
        (json!({"activity": "idle"}), "idle", false),
        (json!({}), "idle", false),
        (json!({"activity": "away"}), "away", false),
        (json!({"activity": "active"}), "active", true),
        (json!({}), "active", false),
        (json!({"activity": "active"}), "active", true),
    ] {
        server.pass_seconds(1).await;
        let lock = alice.put(LOCK, said).await.ok();
        assert_eq!(lock["activity"], activity);
        if is_active_now {
            active_at = json!(server.clock.now().to_string());
        }
        expect(activity, &active_at).await;
    }
    alice.put(LOCK, json!({"activity": "away"})).await.ok();
    alice.delete(LOCK, json!({})).await.ok();
    server.editor("bob").post(LOCK, json!({})).await.ok();
    expect("active", &json!(server.clock.now().to_string())).await;
    for activity in [json!("asleep"), json!("Active"), json!(1), json!({})] {
        let refused = server.editor("bob").put(LOCK, json!({"activity": activity})).await;
        assert_eq!(refused.problem(422, "INVALID_FIELD")["field"], "activity", "{activity}");
    }
    assert_eq!(server.events().await.len(), 3, "what they do is no event");
}

#[tokio::test]
async fn a_heartbeat_with_a_new_version_is_a_save_and_one_with_the_same_is_not() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({"document_version": "v1"})).await.ok();
    for version in ["v1", "v2", "v2", "v3"] {
        let lock = alice.put(LOCK, json!({"document_version": version})).await.ok();
        assert_eq!(lock["document_version"], version);
        assert_eq!(lock["expires_in_ms"], 30_000);
    }
    alice.put(LOCK, json!({})).await.ok();
    let saved = |version: &str| ("DocumentSaved".to_owned(), json!(version));
    assert_eq!(versions(&server).await, [saved("v2"), saved("v3")]);
    let event = server.events().await.pop().unwrap();
    assert_eq!((&event["owner_id"], &event["fencing_token"]), (&json!("alice"), &json!(1)));
    // Unlocked without one: the last is left.
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(versions(&server).await.pop().unwrap(), ("DocumentUnlocked".to_owned(), json!("v3")));
    let lock = server.editor("bob").post(LOCK, json!({"document_version": "mine"})).await.ok();
    assert_eq!(lock["document_version"], "v3");
}

#[tokio::test]
async fn an_unlock_with_a_new_version_is_a_save_and_then_an_end() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({})).await.ok();
    alice.delete(LOCK, json!({"document_version": "v2"})).await.ok();
    let told = [("DocumentSaved".to_owned(), json!("v2")), ("DocumentUnlocked".to_owned(), json!("v2"))];
    assert_eq!(versions(&server).await, told);
    let sequences: Vec<_> = server.events().await.iter().map(|event| event["sequence"].clone()).collect();
    assert_eq!(sequences, [1, 2, 3]);
}

#[tokio::test]
async fn a_version_outlives_the_end_of_a_lock_however_it_ends() {
    let server = TestServer::start().await;
    let (alice, root) = (server.editor("alice"), server.admin());
    alice.post(LOCK, json!({"ttl_seconds": 5})).await.ok();
    alice.put(LOCK, json!({"document_version": "v2"})).await.ok();
    server.pass_seconds(5).await;
    server.sweep().await;
    assert_eq!(versions(&server).await.pop().unwrap(), ("DocumentUnlocked".to_owned(), json!("v2")));
    assert_eq!(alice.post(LOCK, json!({})).await.ok()["document_version"], "v2");
    alice.put(LOCK, json!({"document_version": "v3"})).await.ok();
    assert_eq!(root.post(LOCK, json!({"takeover": true})).await.ok()["document_version"], "v3");
    let server = server.restart().await;
    assert_eq!(server.viewer("eve").get(LOCK).await.ok()["lock"]["document_version"], "v3");
}

#[tokio::test]
async fn a_save_that_is_refused_or_sent_again_is_not_told() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({})).await.ok();
    bob.put(LOCK, json!({"document_version": "bad"})).await.problem(403, "NOT_OWNER");
    let save = json!({"document_version": "v2", "request_id": "once"});
    alice.put(LOCK, save.clone()).await.ok();
    alice.put(LOCK, json!({"document_version": "v3"})).await.ok();
    assert_eq!(alice.put(LOCK, save).await.ok()["document_version"], "v3", "the lock as it is");
    let other = json!({"document_version": "v4", "request_id": "once"});
    alice.put(LOCK, other).await.problem(422, "REQUEST_ID_REUSED");
    alice.delete(LOCK, json!({})).await.ok();
    alice.put(LOCK, json!({"document_version": "late"})).await.problem(409, "LEASE_RELEASED");
    let saved = |version: &str| ("DocumentSaved".to_owned(), json!(version));
    let unlocked = ("DocumentUnlocked".to_owned(), json!("v3"));
    assert_eq!(versions(&server).await, [saved("v2"), saved("v3"), unlocked]);
}

#[tokio::test]
async fn of_two_tabs_with_one_session_the_older_one_learns_of_the_other() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    let beat = |hold: u32| json!({"session_id": "tab", "hold": hold});
    alice.put(LOCK, beat(1)).await.ok();
    let copy = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    assert_eq!((&copy["lease_id"], &copy["hold"]), (&lock["lease_id"], &json!(2)));
    server.pass(Duration::from_secs(3)).await;
    for body in [beat(1), json!({"lease_id": lock["lease_id"], "hold": 1}), beat(3)] {
        alice.put(LOCK, body).await.problem(409, "LEASE_MISMATCH");
    }
    assert_eq!(alice.get(LOCK).await.ok()["lock"]["expires_in_ms"], 27_000, "what was refused has extended nothing");
    assert_eq!(alice.put(LOCK, beat(2)).await.ok()["hold"], 2);
    alice.put(LOCK, json!({"session_id": "tab"})).await.ok();
}

#[tokio::test]
async fn the_kind_of_a_holder_is_what_its_token_says() {
    let server = TestServer::start().await;
    for (document, kind, name) in
        [("a", None, "person"), ("b", Some(HolderKind::Agent), "agent"), ("c", Some(HolderKind::Job), "job")]
    {
        let path = format!("/api/documents/room/{document}/lock");
        let claims = Claims { kind, ..claims("robot", Role::Editor) };
        server.caller(claims).post(&path, json!({})).await.ok();
        assert_eq!(server.viewer("eve").get(&path).await.ok()["lock"]["holder"]["kind"], name);
    }
}
