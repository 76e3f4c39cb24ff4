//! Asking for a lock over sockets: who is told what, and when again.

use doclock::auth::Role;
use serde_json::{Value, json};

use crate::{
    client::Socket,
    pair::{Pair, token},
    polls::{holder, until_waiting},
    support::{Answer, Caller, TestServer, claims},
};

const LOCK: &str = "/api/documents/room/lock";
const HANDOVERS: &str = "/api/documents/room/lock/handovers";

/// Alice holds the lock.
async fn held() -> (TestServer, Caller, Caller) {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    (server, alice, bob)
}

fn ask() -> Value {
    json!({"type": "ask_handover", "id": "ask", "room": "room", "session_id": "desk", "message": "typo in §2"})
}

fn answer(asked: &Value, grant: bool) -> Value {
    json!({"type": "answer_handover", "id": "answer", "room": "room", "handover_id": asked["handover_id"], "grant": grant})
}

/// The answers come among notices.
async fn done(socket: &mut Socket, message: Value) -> Value {
    socket.say(message).await;
    socket.next_of("ok").await
}

#[tokio::test]
async fn an_ask_is_told_to_the_holder_and_to_nobody_else() {
    let (server, alice, bob) = held().await;
    let (mut holder, mut tab) = (alice.in_room("room").await.0, alice.in_room("room").await.0);
    let mut others = [
        bob.in_room("room").await.0,
        server.editor("carol").in_room("room").await.0,
        server.admin().in_room("room").await.0,
        server.editor_of("theirs", "alice").in_room("room").await.0,
        alice.in_room("another").await.0,
    ];
    let asked = bob.post(HANDOVERS, json!({"message": "typo in §2", "session_id": "desk"})).await.ok();
    let expected = json!({"type": "HandoverAsked", "handover_id": asked["handover_id"], "room": "room", "document": "main",
        "by": {"owner_id": "bob", "name": null, "kind": "person"}, "message": "typo in §2", "expires_in_ms": 30_000});
    assert_eq!(holder.next().await, expected);
    assert_eq!(tab.next().await, expected);
    for socket in &mut others {
        socket.is_quiet().await;
    }
}

#[tokio::test]
async fn an_open_ask_is_told_again_to_a_holder_that_comes_back() {
    let (server, alice, bob) = held().await;
    let (socket, told) = alice.in_room("room").await;
    socket.close().await;
    let asked = bob.post(HANDOVERS, json!({})).await.ok();
    server.pass_seconds(10).await;
    for after in [None, Some(told.after())] {
        let mut socket = alice.socket("/ws").await;
        let told = socket.subscribe("room", after).await;
        assert!(told.events.is_empty(), "{:?}", told.events);
        let again = socket.next().await;
        assert_eq!((&again["type"], &again["handover_id"]), (&json!("HandoverAsked"), &asked["handover_id"]));
        assert_eq!(again["expires_in_ms"], 20_000);
        socket.is_quiet().await;
    }
    let mut asker = bob.in_room("room").await.0;
    asker.is_quiet().await;
    bob.delete(&format!("{HANDOVERS}/{}", asked["handover_id"].as_str().unwrap()), json!({})).await.ok();
    alice.in_room("room").await.0.is_quiet().await;
}

#[tokio::test]
async fn the_outcome_is_told_to_the_asker_and_to_nobody_else() {
    let (server, alice, bob) = held().await;
    let mut asker = bob.in_room("room").await.0;
    let mut others = [
        alice.in_room("room").await.0,
        server.editor("carol").in_room("room").await.0,
        server.admin().in_room("room").await.0,
    ];
    let asked = bob.post(HANDOVERS, json!({})).await.ok();
    let path = format!("{HANDOVERS}/{}/answer", asked["handover_id"].as_str().unwrap());
    alice.post(&path, json!({"grant": false, "message": "in 5 minutes"})).await.ok();
    let expected = json!({"type": "HandoverAnswered", "handover_id": asked["handover_id"], "room": "room",
        "document": "main", "outcome": "denied", "message": "in 5 minutes"});
    assert_eq!(asker.next().await, expected);
    assert_eq!(others[0].next().await["type"], "HandoverAsked");
    for socket in &mut others {
        socket.is_quiet().await;
    }
}

#[tokio::test]
async fn every_outcome_is_told() {
    for outcome in ["granted", "denied", "unanswered", "moot", "cancelled"] {
        let (server, alice, bob) = held().await;
        let (mut holder, mut asker) = (alice.in_room("room").await.0, bob.in_room("room").await.0);
        let asked = done(&mut asker, ask()).await;
        assert_eq!((&asked["id"], &asked["outcome"]), (&json!("ask"), &json!("open")));
        let asked = holder.next_of("HandoverAsked").await;
        match outcome {
            "granted" => drop(done(&mut holder, answer(&asked, true)).await),
            "denied" => drop(done(&mut holder, answer(&asked, false)).await),
            "moot" => drop(alice.delete(LOCK, json!({"session_id": "tab"})).await.ok()),
            "cancelled" => {
                let cancel = json!({"type": "cancel_handover", "room": "room", "handover_id": asked["handover_id"]});
                assert_eq!(done(&mut asker, cancel).await["outcome"], "cancelled");
            }
            _ => {
                server.pass_seconds(15).await;
                alice.put(LOCK, json!({"session_id": "tab"})).await.ok();
                // Both are pinged, and answer as they read.
                holder.is_quiet().await;
                asker.is_quiet().await;
                server.pass_seconds(15).await;
                server.sweep().await;
            }
        }
        // Who takes an ask back knows: the holder is told that there is nothing to answer any more.
        let told = if outcome == "cancelled" { &mut holder } else { &mut asker };
        let told = told.next_of("HandoverAnswered").await;
        assert_eq!((&told["handover_id"], &told["outcome"]), (&asked["handover_id"], &json!(outcome)));
    }
}

#[tokio::test]
async fn a_granted_ask_is_told_with_the_lock_and_claimed_by_the_pong() {
    let (server, alice, bob) = held().await;
    let mut holder = alice.in_room("room").await.0;
    let mut asker = bob.raw().await;
    asker.ask(&ask()).await;
    let asked = holder.next_of("HandoverAsked").await;
    let mut grants = answer(&asked, true);
    grants["document_version"] = json!("v3");
    assert_eq!(done(&mut holder, grants).await["outcome"], "granted");
    let granted = asker.said().await;
    assert_eq!(granted["type"], "granted", "{granted}");
    let lock = &granted["lock"];
    assert_eq!((&lock["fencing_token"], &lock["document_version"]), (&json!(2), &json!("v3")));
    assert_eq!((&lock["holder"]["session_id"], &lock["expires_in_ms"]), (&json!("desk"), &json!(5000)));
    let ping = asker.ping().await;
    asker.pong(ping).await;
    let extended = asker.said().await;
    assert_eq!((&extended["type"], &extended["expires_in_ms"]), (&json!("extended"), &json!(30_000)));
    server.pass_seconds(6).await;
    server.sweep().await;
    assert_eq!(crate::polls::holder(&server, LOCK).await, "bob");
}

#[tokio::test]
async fn a_handover_is_told_to_the_room_as_an_end_and_a_grant() {
    let (server, alice, bob) = held().await;
    let mut eve = server.viewer("eve").in_room("room").await.0;
    let asked = bob.post(HANDOVERS, json!({})).await.ok();
    let path = format!("{HANDOVERS}/{}/answer", asked["handover_id"].as_str().unwrap());
    alice.post(&path, json!({"grant": true, "document_version": "v3"})).await.ok();
    assert_eq!(eve.next().await["type"], "DocumentSaved");
    let ended = eve.next().await;
    let expected = json!({"type": "DocumentUnlocked", "sequence": 4, "room": "room", "document": "main",
        "fencing_token": 1, "reason": "handed_over", "by": "alice", "document_version": "v3"});
    assert_eq!(ended, expected);
    let locked = eve.next().await;
    assert_eq!((&locked["sequence"], &locked["lock"]["holder"]["owner_id"]), (&json!(5), &json!("bob")));
    eve.is_quiet().await;
}

#[tokio::test]
async fn a_granted_ask_that_is_not_claimed_ends_after_5_s() {
    let (server, alice, bob) = held().await;
    let mut asker = bob.raw().await;
    let asked = asker.ask(&ask()).await;
    let path = format!("{HANDOVERS}/{}/answer", asked["handover_id"].as_str().unwrap());
    alice.post(&path, json!({"grant": true})).await.ok();
    assert_eq!(asker.said().await["type"], "granted");
    server.pass_seconds(5).await;
    server.sweep().await;
    assert_eq!(holder(&server, LOCK).await, json!(null));
}

#[tokio::test]
async fn who_waits_and_asks_does_not_wait_any_more_once_the_ask_is_granted() {
    let (server, alice, bob) = held().await;
    let mut asker = bob.raw().await;
    let wait = json!({"type": "wait", "room": "room", "session_id": "desk", "keep": "connection"});
    assert_eq!(asker.ask(&wait).await["position"], 1);
    let asked = asker.ask(&ask()).await;
    let path = format!("{HANDOVERS}/{}/answer", asked["handover_id"].as_str().unwrap());
    alice.post(&path, json!({"grant": true})).await.ok();
    assert_eq!(asker.said().await["type"], "granted");
    until_waiting(&server, LOCK, 0).await;
    let ping = asker.ping().await;
    asker.pong(ping).await;
    assert_eq!(asker.said().await["type"], "extended");
    let unlock = json!({"type": "unlock", "room": "room", "session_id": "desk"});
    assert_eq!(asker.ask(&unlock).await["released"], true);
    assert_eq!(holder(&server, LOCK).await, json!(null), "its own place in line does not bring it back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asker_and_holder_may_be_on_different_servers() {
    let pair = Pair::start().await;
    let mut holder = pair.first.in_room_as(claims("alice", Role::Editor), "room").await.0;
    let mut asker = pair.second.in_room_as(claims("bob", Role::Editor), "room").await.0;
    done(&mut holder, json!({"type": "lock", "room": "room", "session_id": "tab"})).await;
    done(&mut asker, ask()).await;
    let asked = holder.next_of("HandoverAsked").await;
    assert_eq!(done(&mut holder, answer(&asked, true)).await["outcome"], "granted");
    assert_eq!(asker.next_of("granted").await["lock"]["fencing_token"], 2);
    assert_eq!(asker.next_of("extended").await["expires_in_ms"], 30_000);
    // Over HTTP, the other way.
    let http = reqwest::Client::new();
    let url = format!("{}{HANDOVERS}", pair.first.base);
    let alice = token(claims("alice", Role::Editor));
    let asked = Answer::of(http.post(&url).bearer_auth(&alice).json(&json!({}))).await.ok();
    let outcome = format!("{url}/{}?wait_ms=55000", asked["handover_id"].as_str().unwrap());
    let poll = tokio::spawn(Answer::of(http.get(outcome).bearer_auth(&alice)));
    let asked = asker.next_of("HandoverAsked").await;
    done(&mut asker, answer(&asked, true)).await;
    let told = poll.await.unwrap().ok();
    assert_eq!((&told["outcome"], &told["lock"]["fencing_token"]), (&json!("granted"), &json!(3)));
}
