//! Several sessions and several people on one document: resume, take-over, semaphores, and what each of them sees.

use doclock::auth::{Claims, Role};
use serde_json::{Value, json};

use crate::support::{TestServer, claims, reasons};

const LOCK: &str = "/api/documents/room/lock";

#[tokio::test]
async fn the_same_session_resumes_its_lock() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({"session_id": "tab", "ttl_seconds": 20, "metadata": {"a": 1}})).await.ok();
    server.pass_seconds(5).await;
    let resumed = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    for same in ["lease_id", "fencing_token", "acquired_at", "ttl_seconds", "metadata"] {
        assert_eq!(resumed[same], lock[same], "{same}");
    }
    assert_eq!((&resumed["hold"], &resumed["resumed"]), (&json!(2), &json!(true)));
    assert_eq!(resumed["expires_in_ms"], 20_000);
    let resumed = alice.post(LOCK, json!({"session_id": "tab", "ttl_seconds": 60, "metadata": {"b": 2}})).await.ok();
    assert_eq!((&resumed["hold"], &resumed["expires_in_ms"]), (&json!(3), &json!(60_000)));
    assert_eq!(resumed["metadata"], json!({"b": 2}));
    assert_eq!(server.events().await.len(), 1, "a resumed lock is not a new one");
    // Another owner's session of the same name is another session.
    server.editor("bob").post(LOCK, json!({"session_id": "tab"})).await.problem(409, "LOCK_HELD");
}

#[tokio::test]
async fn after_its_end_a_session_does_not_resume_but_locks_anew() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let first = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    server.pass_seconds(30).await;
    let second = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    assert_eq!((&second["hold"], &second["resumed"]), (&json!(1), &json!(false)));
    assert_ne!(second["lease_id"], first["lease_id"]);
    assert_eq!(second["fencing_token"], 2);
}

#[tokio::test]
async fn an_owner_may_always_take_over_its_own_lock() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let old = alice.post(LOCK, json!({"session_id": "old tab"})).await.ok();
    let new = alice.post(LOCK, json!({"session_id": "new tab", "takeover": true})).await.ok();
    assert_eq!((&new["fencing_token"], &new["resumed"]), (&json!(2), &json!(false)));
    alice.put(LOCK, json!({"lease_id": old["lease_id"]})).await.problem(409, "LEASE_REVOKED");
    let events = server.events().await;
    assert_eq!(reasons(&events), ["taken_over"]);
    assert_eq!((&events[1]["by"], &events[1]["lease_id"]), (&json!("alice"), &old["lease_id"]));
    assert_eq!(events[2]["type"], "DocumentLocked");
}

#[tokio::test]
async fn taking_over_from_others_needs_a_permission() {
    let server = TestServer::start().await;
    let holder = server.editor("alice");
    let allowed = Claims { permissions: vec!["takeover".to_owned()], ..claims("bob", Role::Editor) };
    let other = Claims { permissions: vec!["other".to_owned()], ..claims("bob", Role::Editor) };
    for (who, may) in [
        (server.editor("bob"), false),
        (server.caller(other), false),
        (server.caller(allowed), true),
        (server.admin(), true),
    ] {
        let path = format!("/api/documents/room/{}/lock", server.events().await.len());
        holder.post(&path, json!({})).await.ok();
        let answer = who.post(&path, json!({"takeover": true})).await;
        if may {
            assert_eq!(answer.ok()["fencing_token"], 2);
        } else {
            assert_eq!(answer.problem(403, "ROLE_FORBIDS")["lock"]["holder"]["owner_id"], "alice");
        }
    }
    let viewer = Claims { permissions: vec!["takeover".to_owned()], ..claims("eve", Role::Viewer) };
    server.caller(viewer).post(LOCK, json!({"takeover": true})).await.problem(403, "ROLE_FORBIDS");
}

#[tokio::test]
async fn a_take_over_may_expect_a_token() {
    let server = TestServer::start().await;
    let (alice, root) = (server.editor("alice"), server.admin());
    alice.post(LOCK, json!({})).await.ok();
    let stale = json!({"takeover": true, "expected_token": 7});
    assert_eq!(root.post(LOCK, stale).await.problem(409, "LOCK_HELD")["lock"]["fencing_token"], 1);
    assert_eq!(root.post(LOCK, json!({"takeover": true, "expected_token": 1})).await.ok()["fencing_token"], 2);
    let alone = json!({"expected_token": 2});
    assert_eq!(root.post(LOCK, alone).await.problem(422, "INVALID_FIELD")["field"], "expected_token");
    // Nobody holds it: there is nothing to take over, and nothing to refuse.
    root.delete(LOCK, json!({})).await.ok();
    assert_eq!(alice.post(LOCK, json!({"takeover": true})).await.ok()["fencing_token"], 3);
    assert_eq!(reasons(&server.events().await), ["taken_over", "released"]);
}

#[tokio::test]
async fn lease_and_session_are_shown_to_the_owner_and_admins_only() {
    let server = TestServer::start().await;
    let named = Claims { name: Some("Alice Liddell".to_owned()), ..claims("alice", Role::Editor) };
    server.caller(named).post(LOCK, json!({"session_id": "tab"})).await.ok();
    let (bob, viewer) = (server.editor("bob"), server.viewer("eve"));
    let seen_by_others = [
        bob.get(LOCK).await.ok()["lock"].clone(),
        viewer.get(LOCK).await.ok()["lock"].clone(),
        bob.get("/api/rooms/room/locks").await.ok()["items"][0].clone(),
        bob.post(LOCK, json!({})).await.problem(409, "LOCK_HELD")["lock"].clone(),
        bob.put(LOCK, json!({})).await.problem(403, "NOT_OWNER")["lock"].clone(),
        bob.delete(LOCK, json!({})).await.problem(403, "NOT_OWNER")["lock"].clone(),
        bob.post(LOCK, json!({"takeover": true})).await.problem(403, "ROLE_FORBIDS")["lock"].clone(),
        bob.post("/api/rooms/room/locks", json!({"documents": ["main"]})).await.problem(409, "LOCK_HELD")["failed"][0]
            ["lock"]
            .clone(),
    ];
    for lock in seen_by_others {
        assert_eq!(lock["holder"], json!({"owner_id": "alice", "name": "Alice Liddell", "kind": "person"}));
        assert_eq!(lock.get("lease_id"), None);
    }
    let seen_by_those_who_may = [
        server.editor("alice").get(LOCK).await.ok()["lock"].clone(),
        server.admin().get(LOCK).await.ok()["lock"].clone(),
        server.locks().await[0].clone(),
    ];
    for lock in seen_by_those_who_may {
        assert_eq!(lock["holder"]["session_id"], "tab");
        assert!(lock["lease_id"].is_string());
    }
}

#[tokio::test]
async fn metadata_is_shown_to_others_and_replaced_as_a_whole() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let seen = async || server.editor("bob").get(LOCK).await.ok()["lock"]["metadata"].clone();
    alice.post(LOCK, json!({"metadata": {"cursor": [1, 2], "名": "議事録"}})).await.ok();
    assert_eq!(seen().await, json!({"cursor": [1, 2], "名": "議事録"}));
    alice.put(LOCK, json!({})).await.ok();
    assert_eq!(seen().await, json!({"cursor": [1, 2], "名": "議事録"}));
    alice.put(LOCK, json!({"metadata": {"cursor": [3, 4]}})).await.ok();
    assert_eq!(seen().await, json!({"cursor": [3, 4]}));
    alice.put(LOCK, json!({"metadata": {}})).await.ok();
    assert_eq!(seen().await, json!({}));
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(alice.post(LOCK, json!({})).await.ok()["metadata"], json!(null), "it belongs to the lock");
}

#[tokio::test]
async fn a_grant_tells_the_version_its_previous_holder_left() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    let version =
        async |who: &crate::support::Caller, body: Value| who.post(LOCK, body).await.ok()["document_version"].clone();
    assert_eq!(version(&alice, json!({})).await, json!(null));
    alice.delete(LOCK, json!({})).await.ok();
    // Nobody has left one yet: the one the editor starts from.
    assert_eq!(version(&alice, json!({"document_version": "v1"})).await, "v1");
    alice.delete(LOCK, json!({"document_version": "v2"})).await.ok();
    assert_eq!(version(&bob, json!({"document_version": "v1"})).await, "v2");
    bob.delete(LOCK, json!({})).await.ok();
    assert_eq!(version(&alice, json!({})).await, "v2", "who leaves none leaves the last");
    server.pass_seconds(30).await;
    let server = server.restart().await;
    assert_eq!(version(&server.editor("bob"), json!({})).await, "v2");
}

#[tokio::test]
async fn a_semaphore_gives_each_holder_a_lock_of_its_own() {
    let server = TestServer::start().await;
    // One owner, several processes, one token.
    let worker = server.editor("worker");
    let mut leases = Vec::new();
    for token in 1..=3 {
        let lock = worker.post(LOCK, json!({"capacity": 3})).await.ok();
        assert_eq!((&lock["fencing_token"], &lock["hold"]), (&json!(token), &json!(1)));
        leases.push(lock["lease_id"].clone());
    }
    assert_eq!(worker.post(LOCK, json!({})).await.problem(409, "LOCK_HELD")["is_you"], true);
    worker.put(LOCK, json!({"lease_id": leases[1], "ttl_seconds": 60})).await.ok();
    worker.delete(LOCK, json!({"lease_id": leases[0]})).await.ok();
    // A freed place is given again; the others stay.
    assert_eq!(server.editor("late").post(LOCK, json!({})).await.ok()["fencing_token"], 4);
    server.pass_seconds(30).await;
    let live = server.locks().await;
    assert_eq!(live.len(), 1);
    assert_eq!(live[0]["lease_id"], leases[1]);
    let verify = async |token: i64| {
        worker.post(&format!("{LOCK}/verify"), json!({"fencing_token": token})).await.ok()["valid"].clone()
    };
    assert_eq!((verify(2).await, verify(4).await), (json!(true), json!(false)));
}

#[tokio::test]
async fn capacity_is_fixed_while_locks_live() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({"capacity": 2})).await.ok();
    assert_eq!(bob.post(LOCK, json!({"capacity": 3})).await.problem(409, "CAPACITY_MISMATCH")["capacity"], 2);
    bob.post(LOCK, json!({"capacity": 1})).await.problem(409, "CAPACITY_MISMATCH");
    bob.post(LOCK, json!({})).await.ok();
    alice.delete(LOCK, json!({})).await.ok();
    bob.delete(LOCK, json!({})).await.ok();
    // Free again: back to one, or what is asked.
    alice.post(LOCK, json!({})).await.ok();
    bob.post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
    bob.post(LOCK, json!({"capacity": 2})).await.problem(409, "CAPACITY_MISMATCH");
    server.pass_seconds(30).await;
    bob.post(LOCK, json!({"capacity": 2})).await.ok();
    alice.post(LOCK, json!({"capacity": 2})).await.ok();
}

#[tokio::test]
async fn a_full_semaphore_loses_the_callers_own_or_the_oldest_lock_to_a_take_over() {
    let server = TestServer::start().await;
    let (alice, bob, root) = (server.editor("alice"), server.editor("bob"), server.admin());
    alice.post(LOCK, json!({"capacity": 2})).await.ok();
    bob.post(LOCK, json!({})).await.ok();
    bob.post(LOCK, json!({"takeover": true})).await.ok();
    root.post(LOCK, json!({"takeover": true})).await.ok();
    let tokens: Vec<_> = server.locks().await.iter().map(|lock| lock["fencing_token"].as_i64().unwrap()).collect();
    assert_eq!(tokens, [4, 3], "bob's 2 gave way to his 3, alice's 1 to root's 4");
}

#[tokio::test]
async fn a_full_semaphore_says_when_its_first_place_is_free() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({"capacity": 2, "ttl_seconds": 300})).await.ok();
    server.editor("bob").post(LOCK, json!({"ttl_seconds": 3})).await.ok();
    let held = alice.post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
    // Shown is one's own lock, which is not the one that ends first.
    assert_eq!((&held["is_you"], &held["lock"]["expires_in_ms"]), (&json!(true), &json!(300_000)));
    assert_eq!(held["retry_after_ms"], 3000);
}
