//! The waiting line: who is served when, whatever frees the document.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    polls::{holder, until_waiting},
    support::{TestServer, reasons},
};

const LOCK: &str = "/api/documents/room/lock";
const RELEASE: &str = "/api/documents/room/lock/release";

#[tokio::test]
async fn those_who_wait_are_served_first_come_first_served() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    let mut polls = Vec::new();
    for (name, place) in ["bob", "carol", "dave", "erin"].into_iter().zip(1..) {
        polls.push((name, server.editor(name).waits(&server, LOCK, json!({}), place).await));
    }
    let mut before = alice;
    for ((name, poll), token) in polls.into_iter().zip(2..) {
        before.delete(LOCK, json!({"session_id": "tab"})).await.ok();
        assert_eq!(poll.answer().await.ok()["fencing_token"], token, "{name}");
        before = server.editor(name);
    }
    assert_eq!(before.get(LOCK).await.ok()["waiting"], 0);
}

#[tokio::test]
async fn a_newcomer_never_gets_in_before_those_who_wait() {
    let server = TestServer::start().await;
    let (alice, bob, eve) = (server.editor("alice"), server.editor("bob"), server.editor("eve"));
    // Freed by its holder, or overdue and met by the newcomer first.
    for overdue in [false, true] {
        alice.post(LOCK, json!({"ttl_seconds": 5})).await.ok();
        let poll = bob.waits(&server, LOCK, json!({}), 1).await;
        if overdue {
            server.pass_seconds(5).await;
        } else {
            alice.delete(LOCK, json!({})).await.ok();
        }
        for body in [json!({}), json!({"session_id": "tab"}), json!({"takeover": true, "expected_token": 1})] {
            let refused = eve.post(LOCK, body).await.problem(409, "LOCK_HELD");
            assert_eq!(refused["lock"]["holder"]["owner_id"], "bob", "overdue: {overdue}");
        }
        poll.answer().await.ok();
        bob.delete(LOCK, json!({"session_id": "tab"})).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_tries_without_end_never_gets_in_before_the_line() {
    const WAITING: u64 = 10;
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    let mut polls = Vec::new();
    for place in 1..=WAITING {
        let name = format!("waiter {place}");
        polls.push((server.editor(&name), server.editor(&name).waits(&server, LOCK, json!({}), place).await));
    }
    let ends = Arc::new(AtomicBool::new(false));
    let eve = server.editor("eve").connected();
    let barges = tokio::spawn({
        let ends = Arc::clone(&ends);
        async move {
            let mut tries = 0;
            while !ends.load(Ordering::Acquire) {
                eve.post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
                tries += 1;
            }
            tries
        }
    });
    let mut before = alice;
    for ((waiter, poll), token) in polls.into_iter().zip(2..) {
        before.delete(LOCK, json!({"session_id": "tab"})).await.ok();
        assert_eq!(poll.answer().await.ok()["fencing_token"], token);
        before = waiter;
    }
    ends.store(true, Ordering::Release);
    assert!(barges.await.unwrap() > 0);
}

#[tokio::test]
async fn many_locks_at_once_do_not_jump_the_line() {
    let server = TestServer::start().await;
    let (alice, bob, eve) = (server.editor("alice"), server.editor("bob"), server.editor("eve"));
    alice.post(LOCK, json!({"ttl_seconds": 5})).await.ok();
    let poll = bob.waits(&server, LOCK, json!({}), 1).await;
    server.pass_seconds(5).await;
    let many = json!({"documents": ["free", "main"]});
    let refused = eve.post("/api/rooms/room/locks", many).await.problem(409, "LOCK_HELD");
    assert_eq!(refused["failed"].as_array().unwrap().len(), 1);
    assert_eq!(refused["failed"][0]["lock"]["holder"]["owner_id"], "bob");
    assert_eq!(holder(&server, "/api/documents/room/free/lock").await, json!(null), "all or nothing");
    poll.answer().await.ok();
}

#[tokio::test]
async fn an_overdue_lock_goes_to_the_line_when_nobody_meets_it() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({"ttl_seconds": 5})).await.ok();
    let poll = server.editor("bob").waits(&server, LOCK, json!({}), 1).await;
    server.pass_seconds(5).await;
    server.sweep().await;
    assert_eq!(poll.answer().await.ok()["fencing_token"], 2);
    assert_eq!(reasons(&server.events().await), ["expired"]);
    let types: Vec<_> = server.events().await.iter().map(|event| event["sequence"].clone()).collect();
    assert_eq!(types, [1, 2, 3], "the end and the grant are one step");
}

#[tokio::test]
async fn a_take_over_passes_the_line_by_and_the_line_waits_on() {
    let server = TestServer::start().await;
    let (alice, root) = (server.editor("alice"), server.admin());
    alice.post(LOCK, json!({})).await.ok();
    let poll = server.editor("bob").waits(&server, LOCK, json!({}), 1).await;
    root.post(LOCK, json!({"takeover": true})).await.ok();
    assert_eq!(holder(&server, LOCK).await, "root");
    assert_eq!(root.get(LOCK).await.ok()["waiting"], 1);
    root.delete(LOCK, json!({})).await.ok();
    assert_eq!(poll.answer().await.ok()["fencing_token"], 3);
    assert_eq!(reasons(&server.events().await), ["taken_over", "released"]);
}

#[tokio::test]
async fn what_an_admin_unlocks_goes_to_the_line() {
    let server = TestServer::start().await;
    let root = server.admin();
    let lock = server.editor("alice").post(LOCK, json!({})).await.ok();
    let first = server.editor("bob").waits(&server, LOCK, json!({}), 1).await;
    let second = server.editor("carol").waits(&server, LOCK, json!({}), 2).await;
    root.delete(&format!("/api/admin/locks/{}", lock["lease_id"].as_str().unwrap()), json!({})).await.ok();
    assert_eq!(first.answer().await.ok()["fencing_token"], 2);
    let all = json!({"filter": {"room": "room"}});
    assert_eq!(root.post("/api/admin/locks/unlock", all).await.ok()["unlocked"], 1);
    assert_eq!(second.answer().await.ok()["fencing_token"], 3);
    assert_eq!(reasons(&server.events().await), ["revoked", "revoked"]);
}

#[tokio::test]
async fn a_page_that_lingers_may_come_back_and_then_the_line_has_its_turn() {
    let server = TestServer::start().await;
    let (alice, eve) = (server.editor("alice"), server.editor("eve"));
    let goodbye = |lock: &Value| json!({"lease_id": lock["lease_id"], "hold": lock["hold"], "linger_ms": 3000});
    let lock = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    let first = server.editor("bob").waits(&server, LOCK, json!({}), 1).await;
    alice.post(RELEASE, goodbye(&lock)).await.ok();
    server.pass_seconds(2).await;
    let back = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    assert_eq!((&back["fencing_token"], &back["hold"]), (&json!(1), &json!(2)), "the line does not keep it out");
    // Not back this time: whoever looks first finds it to be the line's.
    alice.post(RELEASE, goodbye(&back)).await.ok();
    server.pass_seconds(3).await;
    assert_eq!(eve.post(LOCK, json!({})).await.problem(409, "LOCK_HELD")["lock"]["holder"]["owner_id"], "bob");
    let lock = first.answer().await.ok();
    // Without linger it is its turn at once.
    let second = eve.waits(&server, LOCK, json!({}), 1).await;
    let bye = json!({"lease_id": lock["lease_id"], "hold": 1});
    server.editor("bob").post(RELEASE, bye).await.ok();
    assert_eq!(second.answer().await.ok()["fencing_token"], 3);
    assert_eq!(reasons(&server.events().await), ["released", "released"]);
}

#[tokio::test]
async fn tickets_outlive_an_outage_as_locks_do() {
    for restarts in [false, true] {
        let server = TestServer::start().await;
        let bob = server.editor("bob");
        server.editor("alice").post(LOCK, json!({})).await.ok();
        let poll = bob.waits(&server, LOCK, json!({"wait_ms": 1000}), 1).await;
        server.pass_seconds(1).await;
        poll.answer().await.problem(409, "LOCK_HELD");
        server.pass_seconds(13).await;
        let server = if restarts {
            server.restart_after(Duration::from_secs(40)).await
        } else {
            server.clock.advance(Duration::from_secs(40));
            server
        };
        let poll = server.editor("carol").waits(&server, LOCK, json!({}), 2).await;
        server.pass_seconds(14).await;
        server.editor("alice").delete(LOCK, json!({})).await.ok();
        assert_eq!(holder(&server, LOCK).await, "bob", "restarts: {restarts}");
        server.editor("bob").delete(LOCK, json!({"session_id": "tab"})).await.ok();
        poll.answer().await.ok();
    }
}

#[tokio::test]
async fn a_request_that_waits_through_an_outage_is_served_after_it() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({})).await.ok();
    let poll = server.editor("bob").waits(&server, LOCK, json!({}), 1).await;
    server.clock.advance(Duration::from_secs(40));
    server.tend_lines().await;
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(poll.answer().await.ok()["fencing_token"], 2);
}

#[tokio::test]
async fn a_place_that_was_lost_before_an_outage_stays_lost() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({"ttl_seconds": 60})).await.ok();
    let poll = server.editor("bob").waits(&server, LOCK, json!({"wait_ms": 1000}), 1).await;
    server.pass_seconds(1).await;
    // The place is kept for 15 s from here.
    poll.answer().await.problem(409, "LOCK_HELD");
    server.pass_seconds(15).await;
    server.clock.advance(Duration::from_secs(40));
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(holder(&server, LOCK).await, json!(null));
}

#[tokio::test]
async fn every_slot_that_gets_free_goes_to_the_next_in_line() {
    let server = TestServer::start().await;
    for (name, token) in [("alice", 1), ("anna", 2)] {
        let lock = server.editor(name).post(LOCK, json!({"capacity": 2})).await.ok();
        assert_eq!(lock["fencing_token"], token);
    }
    let mut polls = Vec::new();
    for (name, place) in ["bob", "carol", "dave"].into_iter().zip(1..) {
        polls.push(server.editor(name).waits(&server, LOCK, json!({}), place).await);
    }
    let [first, second, third] = polls.try_into().unwrap_or_else(|_| panic!("three wait"));
    server.editor("anna").delete(LOCK, json!({})).await.ok();
    assert_eq!(first.answer().await.ok()["holder"]["owner_id"], "bob");
    assert_eq!(server.admin().get(LOCK).await.ok()["waiting"], 2);
    // Both at once.
    let all = json!({"filter": {"room": "room"}});
    assert_eq!(server.admin().post("/api/admin/locks/unlock", all).await.ok()["unlocked"], 2);
    assert_eq!(second.answer().await.ok()["fencing_token"], 4);
    assert_eq!(third.answer().await.ok()["fencing_token"], 5);
}

#[tokio::test]
async fn the_capacity_is_fixed_while_anyone_waits() {
    let server = TestServer::start().await;
    let (alice, eve) = (server.editor("alice"), server.editor("eve"));
    alice.post(LOCK, json!({})).await.ok();
    let wish = json!({"capacity": 2, "wait_ms": 1000});
    assert_eq!(eve.post(LOCK, wish).await.problem(409, "CAPACITY_MISMATCH")["capacity"], 1);
    let poll = server.editor("bob").waits(&server, LOCK, json!({"capacity": 1}), 1).await;
    alice.delete(LOCK, json!({})).await.ok();
    eve.post(LOCK, json!({"capacity": 2})).await.problem(409, "CAPACITY_MISMATCH");
    poll.answer().await.ok();
}

#[tokio::test]
async fn everyone_who_may_see_a_document_sees_how_many_wait() {
    let server = TestServer::start().await;
    let eve = server.viewer("eve");
    server.editor("alice").post(LOCK, json!({})).await.ok();
    let polls = [
        server.editor("bob").waits(&server, LOCK, json!({}), 1).await,
        server.editor("carol").waits(&server, LOCK, json!({}), 2).await,
    ];
    assert_eq!(eve.get(LOCK).await.ok()["waiting"], 2);
    assert_eq!(eve.get("/api/documents/room/other/lock").await.ok()["waiting"], 0);
    server.editor("alice").delete(LOCK, json!({})).await.ok();
    assert_eq!(eve.get(LOCK).await.ok()["waiting"], 1);
    server.editor("bob").delete(LOCK, json!({"session_id": "tab"})).await.ok();
    until_waiting(&server, LOCK, 0).await;
    for poll in polls {
        poll.answer().await.ok();
    }
}
