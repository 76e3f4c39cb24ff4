//! `keep: "connection"`: the server extends a lock as long as its socket answers pings.

use std::time::Duration;

use sea_orm::ConnectionTrait as _;
use serde_json::{Value, json};

use crate::{
    hostile::sockets,
    polls::{holder, until_waiting},
    raw::Raw,
    support::{Caller, TestServer, reasons},
};

const LOCK: &str = "/api/documents/room/lock";
const HANDOVERS: &str = "/api/documents/room/lock/handovers";

fn lock(ttl_seconds: u32) -> Value {
    json!({"type": "lock", "room": "room", "session_id": "tab", "ttl_seconds": ttl_seconds, "keep": "connection"})
}

/// A socket of alice's that keeps a lock with a ttl of 30 s: it is pinged every 10 s.
async fn kept() -> (TestServer, Caller, Raw) {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let mut socket = alice.raw().await;
    let answer = socket.ask(&lock(30)).await;
    assert_eq!((&answer["type"], &answer["expires_in_ms"]), (&json!("ok"), &json!(30_000)));
    (server, alice, socket)
}

impl Raw {
    /// Answers the next ping, and is told of the renewal.
    async fn is_renewed(&mut self) -> Value {
        let ping = self.ping().await;
        self.pong(ping).await;
        let extended = self.said().await;
        assert_eq!(extended["type"], "extended", "{extended}");
        extended
    }

    /// Answers the next ping, and is told nothing for it.
    async fn is_not_renewed(&mut self) {
        let ping = self.ping().await;
        self.pong(ping).await;
        // Long enough for what should not happen to happen.
        tokio::time::sleep(Duration::from_millis(150)).await;
        self.say(&json!({"type": "ping"})).await;
        assert_eq!(self.said().await["type"], "pong");
    }
}

async fn left_ms(server: &TestServer) -> Value {
    server.admin().get(LOCK).await.ok()["lock"]["expires_in_ms"].clone()
}

#[tokio::test]
async fn a_client_that_sends_nothing_but_pongs_keeps_its_lock_and_is_told_of_each_renewal() {
    let (server, alice, mut socket) = kept().await;
    let lease = alice.get(LOCK).await.ok()["lock"]["lease_id"].clone();
    for _ in 0..10 {
        server.pass_seconds(10).await;
        let now = server.clock.now();
        let expected = json!({"type": "extended", "room": "room", "document": "main", "lease_id": lease,
            "expires_at": now.plus_seconds(30).to_string(), "expires_in_ms": 30_000, "server_time": now.to_string()});
        assert_eq!(socket.is_renewed().await, expected);
        server.sweep().await;
    }
    let lock = alice.get(LOCK).await.ok()["lock"].clone();
    assert_eq!((&lock["fencing_token"], &lock["hold"], &lock["lease_id"]), (&json!(1), &json!(1), &lease));
    assert_eq!(server.events().await.len(), 1);
}

#[tokio::test]
async fn a_lock_with_a_short_ttl_is_pinged_for_three_times_in_it() {
    let server = TestServer::start().await;
    let mut socket = server.editor("alice").raw().await;
    socket.ask(&lock(6)).await;
    for _ in 0..5 {
        server.pass_seconds(2).await;
        assert_eq!(socket.is_renewed().await["expires_in_ms"], 6000);
    }
    assert_eq!(holder(&server, LOCK).await, "alice");
}

#[tokio::test]
async fn a_lock_that_is_not_kept_is_not_extended_by_pongs() {
    let server = TestServer::start().await;
    let mut socket = server.editor("alice").raw().await;
    socket.ask(&json!({"type": "lock", "room": "room", "session_id": "tab"})).await;
    server.pass_seconds(10).await;
    socket.is_not_renewed().await;
    assert_eq!(left_ms(&server).await, 20_000);
    // A heartbeat may ask for it later.
    let extend = json!({"type": "extend", "room": "room", "session_id": "tab", "keep": "connection"});
    assert_eq!(socket.ask(&extend).await["expires_in_ms"], 30_000);
    server.pass_seconds(10).await;
    socket.is_renewed().await;
    assert_eq!(left_ms(&server).await, 30_000);
}

#[tokio::test]
async fn a_socket_that_answers_no_ping_is_not_renewed_past_the_last_one_it_answered() {
    let (server, _, mut socket) = kept().await;
    server.pass_seconds(10).await;
    socket.is_renewed().await;
    // Its peer is gone, and nobody has said so.
    server.pass_seconds(10).await;
    socket.ping().await;
    server.pass(Duration::from_millis(19_999)).await;
    assert_eq!(left_ms(&server).await, 1);
    server.pass(Duration::from_millis(1)).await;
    server.sweep().await;
    assert_eq!(holder(&server, LOCK).await, json!(null));
    assert_eq!(reasons(&server.events().await), ["expired"]);
    assert!(matches!(socket.next_with_pongs().await, Some(crate::raw::Frame::Close(4409))));
}

#[tokio::test]
async fn only_the_pong_to_the_outstanding_ping_renews() {
    let (server, _, mut socket) = kept().await;
    server.pass_seconds(10).await;
    let ping = socket.ping().await;
    socket.pong([0xFF; 8]).await;
    socket.is_heard().await;
    assert_eq!(left_ms(&server).await, 20_000);
    socket.pong(ping).await;
    assert_eq!(socket.said().await["type"], "extended");
    server.pass_seconds(1).await;
    // Once is enough.
    socket.pong(ping).await;
    socket.is_heard().await;
    assert_eq!(left_ms(&server).await, 29_000);
}

#[tokio::test]
async fn a_lock_whose_socket_is_cut_ends_after_its_ttl() {
    let (server, _, mut socket) = kept().await;
    server.pass_seconds(10).await;
    socket.is_renewed().await;
    drop(socket);
    sockets(&server, 0).await;
    server.pass(Duration::from_millis(29_999)).await;
    assert_eq!(holder(&server, LOCK).await, "alice");
    server.pass(Duration::from_millis(1)).await;
    server.sweep().await;
    assert_eq!(holder(&server, LOCK).await, json!(null));
    assert_eq!(reasons(&server.events().await), ["expired"]);
}

#[tokio::test]
async fn the_same_session_that_is_back_in_time_has_the_same_lock() {
    let (server, alice, socket) = kept().await;
    drop(socket);
    sockets(&server, 0).await;
    server.pass_seconds(29).await;
    let mut socket = alice.raw().await;
    let back = socket.ask(&lock(30)).await;
    assert_eq!((&back["fencing_token"], &back["hold"], &back["resumed"]), (&json!(1), &json!(2), &json!(true)));
    server.pass_seconds(10).await;
    assert_eq!(socket.is_renewed().await["expires_in_ms"], 30_000);
}

#[tokio::test]
async fn the_older_of_two_tabs_with_one_session_learns_of_the_other() {
    let (_server, alice, mut older) = kept().await;
    let mut newer = alice.raw().await;
    assert_eq!(newer.ask(&lock(30)).await["hold"], 2);
    let extend = |hold: u32| json!({"type": "extend", "room": "room", "session_id": "tab", "hold": hold});
    assert_eq!(older.ask(&extend(1)).await["code"], "LEASE_MISMATCH");
    assert_eq!(newer.ask(&extend(2)).await["type"], "ok");
}

#[tokio::test]
async fn a_lock_that_has_ended_is_kept_no_more() {
    for end in ["unlock", "unlock over HTTP", "take-over", "force-unlock"] {
        let (server, alice, mut socket) = kept().await;
        match end {
            "unlock" => {
                let unlock = json!({"type": "unlock", "room": "room", "session_id": "tab"});
                assert_eq!(socket.ask(&unlock).await["released"], true);
            }
            "unlock over HTTP" => drop(alice.delete(LOCK, json!({"session_id": "tab"})).await.ok()),
            "take-over" => drop(server.admin().post(LOCK, json!({"takeover": true})).await.ok()),
            _ => {
                server.admin().post("/api/admin/locks/unlock", json!({"filter": {"room": "room"}})).await.ok();
            }
        }
        let before = server.events().await.len();
        server.pass_seconds(10).await;
        socket.is_not_renewed().await;
        assert_ne!(holder(&server, LOCK).await, "alice", "{end}");
        assert_eq!(server.events().await.len(), before, "{end}");
    }
}

#[tokio::test]
async fn an_ask_that_is_left_unanswered_ends_keep() {
    let (server, _, mut socket) = kept().await;
    let bob = server.editor("bob");
    let ask = bob.post(HANDOVERS, json!({})).await.ok();
    for _ in 0..3 {
        server.pass_seconds(10).await;
        socket.is_renewed().await;
    }
    server.sweep().await;
    let ask = bob.get(&format!("{HANDOVERS}/{}", ask["handover_id"].as_str().unwrap())).await.ok();
    assert_eq!(ask["outcome"], "unanswered");
    let poll = bob.waits(&server, LOCK, json!({}), 1).await;
    for _ in 0..2 {
        server.pass_seconds(10).await;
        socket.is_not_renewed().await;
    }
    server.pass_seconds(10).await;
    server.sweep().await;
    assert_eq!(poll.answer().await.ok()["fencing_token"], 2, "whoever is not there lets others have it");
}

#[tokio::test]
async fn an_ask_that_is_answered_does_not_end_keep() {
    let (server, alice, mut socket) = kept().await;
    let ask = server.editor("bob").post(HANDOVERS, json!({})).await.ok();
    let path = format!("{HANDOVERS}/{}/answer", ask["handover_id"].as_str().unwrap());
    alice.post(&path, json!({"grant": false})).await.ok();
    for _ in 0..4 {
        server.pass_seconds(10).await;
        server.sweep().await;
        socket.is_renewed().await;
    }
}

#[tokio::test]
async fn a_socket_that_came_back_before_the_old_one_was_given_up_is_told_the_end_of_keep_too() {
    let (server, alice, old) = kept().await;
    let mut new = alice.raw().await;
    new.ask(&lock(30)).await;
    drop(old);
    sockets(&server, 1).await;
    server.editor("bob").post(HANDOVERS, json!({})).await.ok();
    for _ in 0..3 {
        server.pass_seconds(10).await;
        new.is_renewed().await;
    }
    server.sweep().await;
    server.pass_seconds(10).await;
    new.is_not_renewed().await;
    assert_eq!(left_ms(&server).await, 20_000);
}

#[tokio::test]
async fn a_renewal_is_told_when_it_is_committed_and_not_before() {
    let server = TestServer::start().await;
    let mut socket = server.editor("alice").raw().await;
    socket.ask(&lock(6)).await;
    let database = server.database().await;
    // Nobody else can write meanwhile.
    database.execute_unprepared("BEGIN IMMEDIATE").await.unwrap();
    server.clock.advance(Duration::from_secs(2));
    let ping = socket.ping().await;
    socket.pong(ping).await;
    // Two answers, and a moment for what should not come.
    socket.is_heard().await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    socket.say(&json!({"type": "ping"})).await;
    assert_eq!(socket.said().await["type"], "pong");
    database.execute_unprepared("ROLLBACK").await.unwrap();
    assert_eq!(socket.said().await["type"], "extended");
}

#[tokio::test]
async fn a_lock_that_was_waited_for_or_handed_over_is_kept_if_that_was_asked_for() {
    for handed_over in [false, true] {
        let server = TestServer::start().await;
        let alice = server.editor("alice");
        alice.post(LOCK, json!({})).await.ok();
        let mut bob = server.editor("bob").raw().await;
        let kind = if handed_over { "ask_handover" } else { "wait" };
        let message = json!({"type": kind, "room": "room", "session_id": "tab", "keep": "connection"});
        let answer = bob.ask(&message).await;
        assert_eq!(answer["type"], "ok", "{answer}");
        if handed_over {
            let path = format!("{HANDOVERS}/{}/answer", answer["handover_id"].as_str().unwrap());
            alice.post(&path, json!({"grant": true})).await.ok();
        } else {
            until_waiting(&server, LOCK, 1).await;
            alice.delete(LOCK, json!({})).await.ok();
        }
        assert_eq!(bob.said().await["type"], "granted");
        // The claim, then what it is kept by.
        assert_eq!(bob.is_renewed().await["expires_in_ms"], 30_000);
        for _ in 0..4 {
            server.pass_seconds(10).await;
            server.sweep().await;
            bob.is_renewed().await;
        }
        assert_eq!(holder(&server, LOCK).await, "bob", "handed over: {handed_over}");
    }
}
