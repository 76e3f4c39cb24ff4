//! `wait_ms`: a request that waits in line, what it is answered, and what becomes of its place when it is not there any more.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::{
    polls::{holder, until, until_waiting},
    raw::Line,
    support::{TestServer, reasons},
};

const LOCK: &str = "/api/documents/room/lock";

#[tokio::test]
async fn a_wait_for_a_free_document_is_granted_at_once() {
    let server = TestServer::start().await;
    let lock = server.editor("alice").post(LOCK, json!({"wait_ms": 55_000})).await.ok();
    assert_eq!((&lock["fencing_token"], &lock["expires_in_ms"]), (&json!(1), &json!(30_000)));
    assert_eq!(server.editor("bob").get(LOCK).await.ok()["waiting"], 0);
}

#[tokio::test]
async fn a_wait_is_answered_when_the_document_is_unlocked_with_a_whole_ttl() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({})).await.ok();
    let poll = bob.waits(&server, LOCK, json!({"ttl_seconds": 20, "metadata": {"color": "blue"}}), 1).await;
    server.pass_seconds(5).await;
    alice.delete(LOCK, json!({"document_version": "v2"})).await.ok();
    let lock = poll.answer().await.ok();
    assert_eq!(lock["holder"], json!({"owner_id": "bob", "session_id": "tab", "name": null, "kind": "person"}));
    assert_eq!((&lock["fencing_token"], &lock["hold"], &lock["resumed"]), (&json!(2), &json!(1), &json!(false)));
    assert_eq!((&lock["expires_in_ms"], &lock["ttl_seconds"]), (&json!(20_000), &json!(20)));
    assert_eq!((&lock["document_version"], &lock["metadata"]), (&json!("v2"), &json!({"color": "blue"})));
    assert_eq!(bob.get(LOCK).await.ok()["waiting"], 0);
    // It is claimed: nothing of it ends after 5 s.
    server.pass(Duration::from_millis(19_999)).await;
    server.sweep().await;
    assert_eq!(bob.put(LOCK, json!({"lease_id": lock["lease_id"]})).await.ok()["fencing_token"], 2);
}

#[tokio::test]
async fn a_wait_that_is_longer_than_a_ticket_lives_keeps_its_place() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({"ttl_seconds": 60})).await.ok();
    let poll = bob.waits(&server, LOCK, json!({}), 1).await;
    server.pass_seconds(50).await;
    server.sweep().await;
    assert_eq!(alice.get(LOCK).await.ok()["waiting"], 1);
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(poll.answer().await.ok()["holder"]["owner_id"], "bob");
}

#[tokio::test]
async fn when_the_time_is_up_the_place_is_told_and_kept_for_15_s_and_not_longer() {
    for (later_ms, is_kept) in [(14_999, true), (15_000, false)] {
        let server = TestServer::start().await;
        let (alice, bob, carol) = (server.editor("alice"), server.editor("bob"), server.editor("carol"));
        alice.post(LOCK, json!({"ttl_seconds": 60})).await.ok();
        let other = carol.waits(&server, LOCK, json!({"wait_ms": 10_000}), 1).await;
        let poll = bob.waits(&server, LOCK, json!({"wait_ms": 10_000}), 2).await;
        server.pass_seconds(10).await;
        let refused = poll.answer().await.problem(409, "LOCK_HELD");
        assert_eq!((&refused["position"], &refused["is_you"]), (&json!(2), &json!(false)));
        assert_eq!(refused["lock"]["holder"]["owner_id"], "alice");
        assert_eq!(other.answer().await.problem(409, "LOCK_HELD")["position"], 1);
        // Without waiting it is told its position too, and that is no new life.
        server.pass_seconds(4).await;
        assert_eq!(bob.post(LOCK, json!({"session_id": "tab"})).await.problem(409, "LOCK_HELD")["position"], 2);
        assert_eq!(bob.post(LOCK, json!({})).await.problem(409, "LOCK_HELD").get("position"), None);
        server.pass(Duration::from_millis(later_ms - 4000)).await;
        alice.delete(LOCK, json!({})).await.ok();
        let expected = if is_kept { json!("carol") } else { json!(null) };
        assert_eq!(holder(&server, LOCK).await, expected, "{later_ms}");
        assert_eq!(bob.get(LOCK).await.ok()["waiting"], u64::from(is_kept), "{later_ms}");
    }
}

#[tokio::test]
async fn a_place_that_was_lost_is_taken_anew_at_the_end() {
    let server = TestServer::start().await;
    let (alice, bob, carol) = (server.editor("alice"), server.editor("bob"), server.editor("carol"));
    alice.post(LOCK, json!({"ttl_seconds": 300})).await.ok();
    let poll = bob.waits(&server, LOCK, json!({"wait_ms": 1000}), 1).await;
    server.pass_seconds(1).await;
    poll.answer().await.problem(409, "LOCK_HELD");
    server.pass_seconds(15).await;
    let first = carol.waits(&server, LOCK, json!({}), 1).await;
    // The dead ticket is still in the table: it must not be taken for this one, however often bob asks.
    for _ in 0..2 {
        let poll = bob.waits(&server, LOCK, json!({"wait_ms": 100}), 2).await;
        assert_eq!(poll.answer_in_time(&server).await.problem(409, "LOCK_HELD")["position"], 2);
    }
    alice.delete(LOCK, json!({})).await.ok();
    first.answer().await.ok();
    carol.delete(LOCK, json!({"session_id": "tab"})).await.ok();
    assert_eq!(holder(&server, LOCK).await, "bob");
    assert_eq!(bob.get(LOCK).await.ok()["waiting"], 0);
}

#[tokio::test]
async fn the_same_session_has_one_ticket_however_often_it_asks() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({"ttl_seconds": 60})).await.ok();
    let first = bob.waits(&server, LOCK, json!({}), 1).await;
    let behind = server.editor("carol").waits(&server, LOCK, json!({}), 2).await;
    let second = bob.waits(&server, LOCK, json!({"ttl_seconds": 15}), 2).await;
    // The later request has the place, and the earlier one is told.
    first.answer().await.problem(409, "LOCK_HELD");
    let other = bob.waits(&server, LOCK, json!({"session_id": "another"}), 3).await;
    alice.delete(LOCK, json!({})).await.ok();
    let lock = second.answer().await.ok();
    assert_eq!((&lock["fencing_token"], &lock["ttl_seconds"]), (&json!(2), &json!(15)));
    bob.delete(LOCK, json!({"session_id": "tab"})).await.ok();
    assert_eq!(behind.answer().await.ok()["fencing_token"], 3);
    server.editor("carol").delete(LOCK, json!({"session_id": "tab"})).await.ok();
    assert_eq!(other.answer().await.ok()["holder"]["session_id"], "another");
}

#[tokio::test]
async fn ls_acq_004_a_wait_that_is_sent_again_has_the_same_ticket_and_then_the_same_lock() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({"ttl_seconds": 300})).await.ok();
    // No session: only the id says that it is the same.
    let body = json!({"wait_ms": 100, "request_id": "once"});
    for _ in 0..2 {
        let poll = bob.poll(Method::POST, LOCK, body.clone());
        assert_eq!(poll.answer_in_time(&server).await.problem(409, "LOCK_HELD")["position"], 1);
    }
    assert_eq!(bob.get(LOCK).await.ok()["waiting"], 1);
    let other = json!({"wait_ms": 1000, "request_id": "once", "ttl_seconds": 9});
    bob.post(LOCK, other.clone()).await.problem(422, "REQUEST_ID_REUSED");
    alice.delete(LOCK, json!({})).await.ok();
    // It was granted while nobody waited: whoever asks again claims it.
    server.pass_seconds(4).await;
    let lock = bob.post(LOCK, body.clone()).await.ok();
    assert_eq!((&lock["fencing_token"], &lock["expires_in_ms"]), (&json!(2), &json!(30_000)));
    server.pass_seconds(2).await;
    let again = bob.post(LOCK, json!({"wait_ms": 5000, "request_id": "once"})).await.ok();
    assert_eq!((&again["lease_id"], &again["expires_in_ms"]), (&lock["lease_id"], &json!(28_000)));
    bob.post(LOCK, other).await.problem(422, "REQUEST_ID_REUSED");
    bob.delete(LOCK, json!({"lease_id": lock["lease_id"]})).await.ok();
    bob.post(LOCK, body).await.problem(409, "LEASE_RELEASED");
}

#[tokio::test]
async fn a_grant_that_nobody_claims_ends_after_5_s() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({})).await.ok();
    let poll = bob.waits(&server, LOCK, json!({"wait_ms": 1000}), 1).await;
    server.pass_seconds(1).await;
    poll.answer().await.problem(409, "LOCK_HELD");
    alice.delete(LOCK, json!({})).await.ok();
    server.pass(Duration::from_millis(4999)).await;
    assert_eq!(holder(&server, LOCK).await, "bob");
    server.pass(Duration::from_millis(1)).await;
    assert_eq!(holder(&server, LOCK).await, json!(null));
    bob.put(LOCK, json!({"session_id": "tab"})).await.problem(409, "LEASE_EXPIRED");
    server.editor("carol").post(LOCK, json!({})).await.ok();
    assert_eq!(reasons(&server.events().await), ["released", "expired"]);
}

#[tokio::test]
async fn a_client_that_goes_away_loses_its_place_at_once() {
    let server = TestServer::start().await;
    let (alice, bob, carol) = (server.editor("alice"), server.editor("bob"), server.editor("carol"));
    alice.post(LOCK, json!({})).await.ok();
    let line = Line::post(&bob, LOCK, &json!({"wait_ms": 55_000}));
    until_waiting(&server, LOCK, 1).await;
    let poll = carol.waits(&server, LOCK, json!({}), 2).await;
    assert_eq!(line.cut(), "");
    until_waiting(&server, LOCK, 1).await;
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(poll.answer().await.ok()["fencing_token"], 2, "nothing was granted to who is not there");
}

/// The client hangs up as it is granted the lock, sometimes before and sometimes after. No time passes: what nobody has
/// received would be held for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_nobody_received_is_unlocked_at_once() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice").connected(), server.editor("bob"));
    let root = server.admin().connected();
    for round in 0..60 {
        alice.post(LOCK, json!({})).await.ok();
        let line = Line::post(&bob, LOCK, &json!({"wait_ms": 55_000}));
        until_waiting(&server, LOCK, 1).await;
        let unlocks = alice.poll(Method::DELETE, LOCK, json!({}));
        let cut = tokio::task::spawn_blocking(move || {
            // A different moment each time; none of them decides what is right.
            std::thread::sleep(Duration::from_micros(round * 100));
            line.cut()
        });
        unlocks.answer().await.ok();
        let answered = cut.await.unwrap();
        let holder = async || root.get(LOCK).await.ok()["lock"]["holder"]["owner_id"].clone();
        if answered.starts_with("HTTP/1.1 200") {
            assert_eq!(holder().await, "bob", "{round}: it has been told that it holds the lock");
            bob.delete(LOCK, json!({})).await.ok();
        } else {
            assert_eq!(answered, "", "{round}");
            until(json!(null), holder).await;
        }
        assert_eq!(root.get(LOCK).await.ok()["waiting"], 0, "{round}");
    }
}

#[tokio::test]
async fn a_time_to_wait_that_is_out_of_range_is_refused_and_0_is_not_to_wait() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({})).await.ok();
    for wait_ms in [json!(55_001), json!(-1), json!(1.5), json!("1000"), json!(4_294_967_296_i64)] {
        let refused = bob.post(LOCK, json!({"wait_ms": wait_ms})).await.problem(422, "INVALID_FIELD");
        assert_eq!(refused["field"], "wait_ms", "{wait_ms}");
    }
    assert_eq!(bob.post(LOCK, json!({"wait_ms": 0})).await.problem(409, "LOCK_HELD").get("position"), None);
    let keep = bob.post(LOCK, json!({"keep": "connection"})).await.problem(422, "INVALID_FIELD");
    assert_eq!(keep["field"], "keep", "it takes a socket");
    assert_eq!(bob.get(LOCK).await.ok()["waiting"], 0);
    server.viewer("eve").post(LOCK, json!({"wait_ms": 1000})).await.problem(403, "ROLE_FORBIDS");
}

#[tokio::test]
async fn an_owner_waits_no_more_often_at_once_than_allowed() {
    let server = TestServer::configured(|settings| settings.limits.waits_per_owner = 2).await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    let path = |document: &str| format!("/api/documents/room/{document}/lock");
    for document in ["a", "b", "c"] {
        alice.post(&path(document), json!({})).await.ok();
    }
    let first = bob.waits(&server, &path("a"), json!({}), 1).await;
    let second = bob.waits(&server, &path("a"), json!({"session_id": "other"}), 2).await;
    let wish = json!({"wait_ms": 1000, "session_id": "tab"});
    let refused = bob.post(&path("c"), wish.clone()).await.problem(429, "LIMIT_REACHED");
    assert_eq!((&refused["limit"], &refused["retryable"]), (&json!(2), &json!(true)));
    assert_eq!(bob.get(&path("c")).await.ok()["waiting"], 0);
    // Another owner may, and who waits already may ask again.
    let others = server.editor("carol").waits(&server, &path("c"), json!({}), 1).await;
    let again = bob.waits(&server, &path("a"), json!({}), 2).await;
    first.answer().await.problem(409, "LOCK_HELD");
    // One less is waited for as soon as it is granted.
    alice.delete(&path("a"), json!({})).await.ok();
    again.answer().await.ok();
    let third = bob.waits(&server, &path("c"), json!({}), 2).await;
    for (document, poll) in [("a", second), ("c", others)] {
        server.admin().post("/api/admin/locks/unlock", json!({"filter": {"document": document}})).await.ok();
        poll.answer().await.ok();
    }
    server.editor("carol").delete(&path("c"), json!({"session_id": "tab"})).await.ok();
    third.answer().await.ok();
}
