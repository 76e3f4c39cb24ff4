//! Waiting in line over a socket.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    polls::{holder, until, until_waiting},
    support::{Caller, TestServer},
};

const LOCK: &str = "/api/documents/room/lock";

fn wait() -> Value {
    json!({"type": "wait", "id": 1, "room": "room", "session_id": "tab"})
}

/// Alice holds the lock for five minutes.
async fn held() -> (TestServer, Caller) {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({"ttl_seconds": 300})).await.ok();
    (server, alice)
}

#[tokio::test]
async fn a_wait_for_a_free_document_is_granted_at_once() {
    let server = TestServer::start().await;
    let mut bob = server.editor("bob").socket("/ws").await;
    let lock = bob.ask(wait()).await;
    assert_eq!((&lock["type"], &lock["id"], &lock["granted"]), (&json!("ok"), &json!(1), &json!(true)));
    assert_eq!((&lock["fencing_token"], &lock["expires_in_ms"]), (&json!(1), &json!(30_000)));
    assert!(lock["lease_id"].is_string());
}

#[tokio::test]
async fn a_wait_is_told_its_position_then_its_turn_and_the_pong_claims_it() {
    let (server, alice) = held().await;
    let mut bob = server.editor("bob").socket("/ws").await;
    let answer = bob.ask(wait()).await;
    let now = server.clock.now().to_string();
    let expected = json!({"type": "ok", "id": 1, "granted": false, "position": 1, "room": "room", "document": "main",
        "server_time": now});
    assert_eq!(answer, expected);
    let mut carol = server.editor("carol").socket("/ws").await;
    assert_eq!(carol.ask(wait()).await["position"], 2);
    server.tend_lines().await;
    let position =
        |position: u32| json!({"type": "LockWaiting", "room": "room", "document": "main", "position": position});
    assert_eq!(bob.next().await, position(1));
    assert_eq!(carol.next().await, position(2));
    alice.delete(LOCK, json!({"document_version": "v2"})).await.ok();
    let granted = bob.next().await;
    assert_eq!(
        (&granted["type"], &granted["room"], &granted["document"]),
        (&json!("granted"), &json!("room"), &json!("main"))
    );
    let lock = &granted["lock"];
    assert_eq!((&lock["fencing_token"], &lock["holder"]["session_id"]), (&json!(2), &json!("tab")));
    assert_eq!((&lock["expires_in_ms"], &lock["document_version"]), (&json!(5000), &json!("v2")));
    // Reading on answers the ping.
    let expected = json!({"type": "extended", "room": "room", "document": "main", "lease_id": lock["lease_id"],
        "expires_at": server.clock.now().plus_seconds(30).to_string(), "expires_in_ms": 30_000, "server_time": now});
    assert_eq!(bob.next().await, expected);
    server.tend_lines().await;
    assert_eq!(carol.next().await, position(1));
    server.tend_lines().await;
    carol.is_quiet().await;
    bob.is_quiet().await;
}

#[tokio::test]
async fn sockets_and_requests_stand_in_one_line() {
    let (server, alice) = held().await;
    let mut first = server.editor("first").socket("/ws").await;
    first.ask(wait()).await;
    let second = server.editor("second").waits(&server, LOCK, json!({}), 2).await;
    let mut third = server.editor("third").socket("/ws").await;
    assert_eq!(third.ask(wait()).await["position"], 3);
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(first.next_of("extended").await["expires_in_ms"], 30_000);
    let unlock = json!({"type": "unlock", "room": "room", "session_id": "tab"});
    assert_eq!(first.ask(unlock.clone()).await["released"], true);
    assert_eq!(second.answer().await.ok()["fencing_token"], 3);
    server.editor("second").delete(LOCK, json!({"session_id": "tab"})).await.ok();
    assert_eq!(third.next_of("granted").await["lock"]["fencing_token"], 4);
}

#[tokio::test]
async fn a_grant_that_is_not_claimed_goes_to_the_next_after_5_s() {
    let (server, alice) = held().await;
    let mut bob = server.editor("bob").raw().await;
    bob.ask(&wait()).await;
    let mut carol = server.editor("carol").socket("/ws").await;
    carol.ask(wait()).await;
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(bob.said().await["type"], "granted");
    let late = bob.ping().await;
    server.pass(Duration::from_millis(4999)).await;
    server.sweep().await;
    assert_eq!(holder(&server, LOCK).await, "bob");
    server.pass(Duration::from_millis(1)).await;
    server.sweep().await;
    assert_eq!(carol.next_of("granted").await["lock"]["fencing_token"], 3);
    bob.pong(late).await;
    bob.is_heard().await;
    assert_eq!(carol.next_of("extended").await["expires_in_ms"], 30_000);
    assert_eq!(holder(&server, LOCK).await, "carol");
}

#[tokio::test]
async fn an_extend_claims_a_grant_as_well() {
    for over_http in [false, true] {
        let (server, alice) = held().await;
        let mut bob = server.editor("bob").raw().await;
        bob.ask(&wait()).await;
        alice.delete(LOCK, json!({})).await.ok();
        assert_eq!(bob.said().await["type"], "granted");
        bob.ping().await;
        if over_http {
            server.editor("bob").put(LOCK, json!({"session_id": "tab"})).await.ok();
        } else {
            let extend = json!({"type": "extend", "room": "room", "session_id": "tab"});
            assert_eq!(bob.ask(&extend).await["expires_in_ms"], 30_000);
        }
        server.pass_seconds(6).await;
        server.sweep().await;
        assert_eq!(holder(&server, LOCK).await, "bob", "over HTTP: {over_http}");
    }
}

#[tokio::test]
async fn a_socket_that_ends_loses_its_place_at_once() {
    let (server, alice) = held().await;
    let mut bob = server.editor("bob").socket("/ws").await;
    bob.ask(wait()).await;
    let mut carol = server.editor("carol").socket("/ws").await;
    assert_eq!(carol.ask(wait()).await["position"], 2);
    drop(bob);
    until_waiting(&server, LOCK, 1).await;
    server.tend_lines().await;
    assert_eq!(carol.next().await["position"], 1);
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(carol.next().await["lock"]["fencing_token"], 2, "nothing was granted to who is not there");
}

#[tokio::test]
async fn a_socket_that_ends_before_it_claims_gives_its_grant_to_the_next_at_once() {
    let (server, alice) = held().await;
    let mut bob = server.editor("bob").raw().await;
    bob.ask(&wait()).await;
    let mut carol = server.editor("carol").socket("/ws").await;
    carol.ask(wait()).await;
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(bob.said().await["type"], "granted");
    drop(bob);
    assert_eq!(carol.next().await["lock"]["fencing_token"], 3, "no time passes");
}

#[tokio::test]
async fn a_lock_that_was_claimed_outlives_its_socket() {
    let (server, alice) = held().await;
    let mut bob = server.editor("bob").socket("/ws").await;
    bob.ask(wait()).await;
    alice.delete(LOCK, json!({})).await.ok();
    bob.next_of("extended").await;
    drop(bob);
    crate::hostile::sockets(&server, 0).await;
    server.pass(Duration::from_millis(29_999)).await;
    assert_eq!(holder(&server, LOCK).await, "bob");
    server.pass(Duration::from_millis(1)).await;
    assert_eq!(holder(&server, LOCK).await, json!(null));
}

#[tokio::test]
async fn a_place_is_kept_while_the_socket_answers_pings_and_no_longer() {
    let (server, _alice) = held().await;
    let (mut here, mut gone) = (server.editor("bob").raw().await, server.editor("carol").raw().await);
    assert_eq!(gone.ask(&wait()).await["position"], 1);
    assert_eq!(here.ask(&wait()).await["position"], 2);
    // Both are pinged every 5 s; one answers.
    for round in 0..4 {
        server.pass_seconds(5).await;
        loop {
            match here.next_with_pongs().await.unwrap() {
                crate::raw::Frame::Ping(payload) => {
                    here.pong(payload).await;
                    break;
                }
                crate::raw::Frame::Text(message) => assert_eq!(message["type"], "LockWaiting", "{round}"),
                other => panic!("{other:?}"),
            }
        }
        here.is_heard().await;
    }
    assert_eq!(server.admin().get(LOCK).await.ok()["waiting"], 1, "20 s after its last word");
    let position = server.editor("bob").post(LOCK, json!({"session_id": "tab"})).await.problem(409, "LOCK_HELD");
    assert_eq!(position["position"], 1);
}

#[tokio::test]
async fn a_wait_may_be_cancelled_and_begun_anew() {
    let (server, alice) = held().await;
    let mut bob = server.editor("bob").socket("/ws").await;
    bob.ask(wait()).await;
    let mut carol = server.editor("carol").socket("/ws").await;
    carol.ask(wait()).await;
    let cancel = json!({"type": "cancel_wait", "id": 2, "room": "room", "session_id": "tab"});
    let cancelled = bob.ask(cancel.clone()).await;
    assert_eq!((&cancelled["id"], &cancelled["cancelled"]), (&json!(2), &json!(true)));
    assert_eq!(bob.ask(cancel.clone()).await["cancelled"], false);
    assert_eq!(alice.get(LOCK).await.ok()["waiting"], 1);
    assert_eq!(bob.ask(wait()).await["position"], 2, "at the end");
    server.tend_lines().await;
    assert_eq!(bob.next().await["position"], 2, "the old wait is not spoken of any more");
    bob.is_quiet().await;
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(carol.next_of("granted").await["lock"]["fencing_token"], 2);
}

#[tokio::test]
async fn a_grant_that_is_cancelled_before_it_is_claimed_is_unlocked() {
    let (server, alice) = held().await;
    let mut bob = server.editor("bob").raw().await;
    bob.ask(&wait()).await;
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(bob.said().await["type"], "granted");
    bob.ping().await;
    let cancel = json!({"type": "cancel_wait", "room": "room", "session_id": "tab"});
    assert_eq!(bob.ask(&cancel).await["cancelled"], true);
    assert_eq!(holder(&server, LOCK).await, json!(null));
    // What is claimed is a lock as any other.
    server.editor("bob").post(LOCK, json!({"session_id": "tab"})).await.ok();
    assert_eq!(bob.ask(&cancel).await["cancelled"], false);
    assert_eq!(holder(&server, LOCK).await, "bob");
}

#[tokio::test]
async fn a_wait_that_is_sent_again_keeps_its_place_and_is_told_its_turn_once() {
    let (server, alice) = held().await;
    let mut bob = server.editor("bob").socket("/ws").await;
    bob.ask(wait()).await;
    let mut carol = server.editor("carol").socket("/ws").await;
    carol.ask(wait()).await;
    let again = bob.ask(wait()).await;
    assert_eq!((&again["granted"], &again["position"]), (&json!(false), &json!(1)));
    assert_eq!(alice.get(LOCK).await.ok()["waiting"], 2);
    server.tend_lines().await;
    assert_eq!(bob.next().await["position"], 1);
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(bob.next().await["type"], "granted");
    assert_eq!(bob.next().await["type"], "extended");
    bob.is_quiet().await;
}

#[tokio::test]
async fn another_socket_of_the_same_session_has_the_place_and_the_older_one_is_told() {
    let (server, alice) = held().await;
    let caller = server.editor("bob");
    let (mut older, mut newer) = (caller.socket("/ws").await, caller.socket("/ws").await);
    older.ask(wait()).await;
    assert_eq!(newer.ask(wait()).await["position"], 1);
    assert_eq!(older.next().await["position"], json!(null));
    older.close().await;
    crate::hostile::sockets(&server, 1).await;
    until(json!(1), async || alice.get(LOCK).await.ok()["waiting"].clone()).await;
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(newer.next().await["type"], "granted");
}

#[tokio::test]
async fn a_wait_has_the_rules_of_the_http_call() {
    let (server, _alice) = held().await;
    let mut bob = server.editor("bob").socket("/ws").await;
    let mut eve = server.viewer("eve").socket("/ws").await;
    assert_eq!(eve.ask(wait()).await["code"], "ROLE_FORBIDS");
    for (message, field) in [
        (json!({"type": "lock", "room": "room", "wait_ms": 1000}), "wait_ms"),
        (json!({"type": "wait", "room": "room", "ttl_seconds": 0}), "ttl_seconds"),
        (json!({"type": "wait", "room": "room", "keep": "for ever"}), "keep"),
        (json!({"type": "wait"}), "room"),
        (json!({"type": "cancel_wait", "room": "room"}), "session_id"),
    ] {
        let refused = bob.ask(message.clone()).await;
        assert_eq!((&refused["code"], &refused["field"]), (&json!("INVALID_FIELD"), &json!(field)), "{message}");
    }
    assert_eq!(bob.ask(json!({"type": "wait", "room": "room", "capacity": 2})).await["code"], "CAPACITY_MISMATCH");
}
