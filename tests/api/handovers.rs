//! "May I have it?": asking the holder for a lock, over HTTP.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    polls::{holder, until},
    raw::Line,
    support::{Answer, Caller, TestServer, reasons},
};

const LOCK: &str = "/api/documents/room/lock";
const HANDOVERS: &str = "/api/documents/room/lock/handovers";

fn handover(ask: &Value) -> String {
    format!("{HANDOVERS}/{}", ask["handover_id"].as_str().unwrap())
}

fn outcome(ask: &Value) -> String {
    format!("{}?wait_ms=55000", handover(ask))
}

impl Caller {
    async fn asks(&self, fields: Value) -> Value {
        self.post(HANDOVERS, fields).await.ok()
    }

    async fn answers(&self, ask: &Value, fields: Value) -> Answer {
        self.post(&format!("{}/answer", handover(ask)), fields).await
    }
}

/// Alice holds the lock, and bob has asked for it.
async fn asked() -> (TestServer, Caller, Caller, Value) {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    let ask = bob.asks(json!({"message": "typo in §2", "session_id": "desk"})).await;
    (server, alice, bob, ask)
}

#[tokio::test]
async fn the_holder_sees_an_ask_in_the_answers_to_its_heartbeats() {
    let (server, alice, bob, ask) = asked().await;
    let id = ask["handover_id"].as_str().unwrap();
    assert!(uuid::Uuid::parse_str(id).is_ok());
    let expected = json!({
        "handover_id": id, "room": "room", "document": "main", "message": "typo in §2", "outcome": "open", "answer": null,
        "by": {"owner_id": "bob", "session_id": "desk", "name": null, "kind": "person"}, "expires_in_ms": 30_000,
        "server_time": server.clock.now().to_string(),
    });
    assert_eq!(ask, expected);
    server.pass_seconds(10).await;
    let seen = alice.put(LOCK, json!({"session_id": "tab"})).await.ok()["handovers"].clone();
    let by = json!({"owner_id": "bob", "name": null, "kind": "person"});
    let expected = json!([{"handover_id": id, "room": "room", "document": "main", "message": "typo in §2", "by": by,
        "outcome": "open", "answer": null, "expires_in_ms": 20_000}]);
    assert_eq!(seen, expected);
    assert_eq!(alice.post(LOCK, json!({"session_id": "tab"})).await.ok()["handovers"], expected, "a page that is back");
    assert_eq!(alice.get(&handover(&ask)).await.ok()["outcome"], "open");
    assert_eq!(bob.get(&handover(&ask)).await.ok()["expires_in_ms"], 20_000);
}

#[tokio::test]
async fn a_grant_moves_the_lock_and_the_version_to_the_asker_who_waits_for_the_answer() {
    let (server, alice, bob, ask) = asked().await;
    let poll = bob.poll(Method::GET, &outcome(&ask), json!({}));
    server.pass_seconds(3).await;
    let answered =
        alice.answers(&ask, json!({"grant": true, "document_version": "v3", "message": "it is saved"})).await;
    assert_eq!(answered.ok()["outcome"], "granted");
    let told = poll.answer().await.ok();
    assert_eq!((&told["outcome"], &told["answer"]), (&json!("granted"), &json!("it is saved")));
    let lock = &told["lock"];
    assert_eq!(lock["holder"], json!({"owner_id": "bob", "session_id": "desk", "name": null, "kind": "person"}));
    assert_eq!((&lock["fencing_token"], &lock["document_version"]), (&json!(2), &json!("v3")));
    assert_eq!((&lock["hold"], &lock["expires_in_ms"]), (&json!(1), &json!(30_000)), "its whole ttl");
    assert_eq!(bob.put(LOCK, json!({"lease_id": lock["lease_id"], "hold": 1})).await.ok()["fencing_token"], 2);
    alice.put(LOCK, json!({"session_id": "tab"})).await.problem(409, "LEASE_RELEASED");
    // An answer that is sent again changes nothing.
    assert_eq!(alice.answers(&ask, json!({"grant": true})).await.ok()["outcome"], "granted");
    assert_eq!(alice.answers(&ask, json!({"grant": false})).await.ok()["outcome"], "granted");
    assert_eq!(holder(&server, LOCK).await, "bob");
}

#[tokio::test]
async fn a_handover_is_one_step_of_the_log() {
    let (server, alice, _, ask) = asked().await;
    server.editor("eve").post("/api/documents/other/lock", json!({})).await.ok();
    alice.answers(&ask, json!({"grant": true, "document_version": "v3"})).await.ok();
    let events = server.events().await;
    let told: Vec<_> = events.iter().map(|event| (event["type"].as_str().unwrap(), &event["sequence"])).collect();
    let expected = [
        ("DocumentLocked", &json!(1)),
        ("HandoverAsked", &json!(2)),
        ("DocumentLocked", &json!(3)),
        ("DocumentSaved", &json!(4)),
        ("DocumentUnlocked", &json!(5)),
        ("DocumentLocked", &json!(6)),
        ("HandoverAnswered", &json!(7)),
    ];
    assert_eq!(told, expected);
    assert_eq!(reasons(&events), ["handed_over"]);
    assert_eq!((&events[4]["by"], &events[4]["document_version"]), (&json!("alice"), &json!("v3")));
    assert_eq!((&events[5]["owner_id"], &events[5]["document_version"]), (&json!("bob"), &json!("v3")));
}

#[tokio::test]
async fn an_asker_that_comes_for_the_answer_within_5_s_has_the_lock() {
    let (server, alice, bob, ask) = asked().await;
    alice.answers(&ask, json!({"grant": true})).await.ok();
    server.pass(Duration::from_millis(4999)).await;
    let told = bob.get(&handover(&ask)).await.ok();
    assert_eq!((&told["lock"]["fencing_token"], &told["lock"]["expires_in_ms"]), (&json!(2), &json!(30_000)));
    // An answer that was lost is told again, and extends nothing.
    server.pass_seconds(1).await;
    let again = bob.get(&outcome(&ask)).await.ok();
    assert_eq!(
        (&again["lock"]["lease_id"], &again["lock"]["expires_in_ms"]),
        (&told["lock"]["lease_id"], &json!(29_000))
    );
    assert_eq!(alice.get(&handover(&ask)).await.ok().get("lock"), None, "it is the asker's");
    bob.delete(LOCK, json!({"session_id": "desk"})).await.ok();
    assert_eq!(bob.get(&handover(&ask)).await.ok().get("lock"), None);
}

#[tokio::test]
async fn a_handover_that_nobody_comes_for_ends_after_5_s() {
    let (server, alice, bob, ask) = asked().await;
    alice.answers(&ask, json!({"grant": true})).await.ok();
    server.pass_seconds(5).await;
    server.sweep().await;
    assert_eq!(holder(&server, LOCK).await, json!(null));
    assert_eq!(bob.get(&handover(&ask)).await.ok().get("lock"), None);
    assert_eq!(reasons(&server.events().await), ["handed_over", "expired"]);
}

/// As for those who wait in line: no time passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handover_that_nobody_received_is_unlocked_at_once() {
    let server = TestServer::start().await;
    let alice = server.editor("alice").connected();
    let root = server.admin().connected();
    for round in 0..30 {
        alice.post(LOCK, json!({})).await.ok();
        // One owner may ask every 10 s only.
        let bob = server.editor(&format!("bob {round}"));
        let ask = bob.asks(json!({})).await;
        let line = Line::get(&bob, &outcome(&ask));
        let (caller, answered) = (alice.clone(), ask.clone());
        let grants = tokio::spawn(async move { caller.answers(&answered, json!({"grant": true})).await.ok() });
        let cut = tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_micros(round * 200));
            line.cut()
        });
        grants.await.unwrap();
        let heard = cut.await.unwrap();
        let lock = async || root.get(LOCK).await.ok()["lock"].clone();
        if heard.contains("fencing_token") {
            assert_eq!(lock().await["holder"]["owner_id"], format!("bob {round}"));
        } else {
            // Who hung up before the answer may still come for it: that grant ends by itself, and nobody has claimed it.
            until(true, async || lock().await.is_null() || lock().await["expires_in_ms"] == 5000).await;
        }
        server.admin().post("/api/admin/locks/unlock", json!({"filter": {"room": "room"}})).await.ok();
    }
}

#[tokio::test]
async fn a_holder_that_denies_keeps_the_lock_and_says_why() {
    let (server, alice, bob, ask) = asked().await;
    let poll = bob.poll(Method::GET, &outcome(&ask), json!({}));
    assert_eq!(alice.answers(&ask, json!({"grant": false, "message": "in 5 minutes"})).await.ok()["outcome"], "denied");
    let told = poll.answer().await.ok();
    assert_eq!((&told["outcome"], &told["answer"], told.get("lock")), (&json!("denied"), &json!("in 5 minutes"), None));
    assert_eq!(alice.put(LOCK, json!({"session_id": "tab"})).await.ok()["handovers"], json!([]));
    assert_eq!(holder(&server, LOCK).await, "alice");
}

#[tokio::test]
async fn an_ask_that_nobody_answers_ends_after_30_s() {
    for swept in [false, true] {
        let (server, alice, bob, ask) = asked().await;
        let poll = bob.poll(Method::GET, &outcome(&ask), json!({}));
        server.pass_seconds(20).await;
        alice.put(LOCK, json!({"session_id": "tab"})).await.ok();
        server.pass(Duration::from_millis(9999)).await;
        assert_eq!(alice.put(LOCK, json!({"session_id": "tab"})).await.ok()["handovers"].as_array().unwrap().len(), 1);
        server.pass(Duration::from_millis(1)).await;
        if swept {
            server.sweep().await;
        } else {
            // Whoever meets it first.
            assert_eq!(alice.put(LOCK, json!({"session_id": "tab"})).await.ok()["handovers"], json!([]));
        }
        assert_eq!(poll.answer().await.ok()["outcome"], "unanswered", "swept: {swept}");
        assert_eq!(alice.answers(&ask, json!({"grant": true})).await.ok()["outcome"], "unanswered");
        assert_eq!(holder(&server, LOCK).await, "alice");
    }
}

#[tokio::test]
async fn a_late_answer_is_too_late_before_any_sweep() {
    let (server, alice, _, ask) = asked().await;
    server.pass_seconds(20).await;
    alice.put(LOCK, json!({"session_id": "tab"})).await.ok();
    server.pass_seconds(10).await;
    assert_eq!(alice.answers(&ask, json!({"grant": true})).await.ok()["outcome"], "unanswered");
    assert_eq!(holder(&server, LOCK).await, "alice");
}

#[tokio::test]
async fn an_ask_that_is_taken_back_moves_nothing() {
    let (server, alice, bob, ask) = asked().await;
    let poll = bob.poll(Method::GET, &outcome(&ask), json!({}));
    assert_eq!(bob.delete(&handover(&ask), json!({})).await.ok()["outcome"], "cancelled");
    assert_eq!(poll.answer().await.ok()["outcome"], "cancelled");
    assert_eq!(alice.put(LOCK, json!({"session_id": "tab"})).await.ok()["handovers"], json!([]));
    assert_eq!(alice.answers(&ask, json!({"grant": true})).await.ok()["outcome"], "cancelled");
    assert_eq!(bob.delete(&handover(&ask), json!({})).await.ok()["outcome"], "cancelled");
    assert_eq!(holder(&server, LOCK).await, "alice");
}

#[tokio::test]
async fn an_ask_is_moot_when_the_lock_ends_first_or_goes_to_someone_else() {
    for end in ["unlock", "release", "expiry", "expiry met", "force-unlock", "take-over", "another asker"] {
        let (server, alice, bob, ask) = asked().await;
        let lease = alice.get(LOCK).await.ok()["lock"]["lease_id"].clone();
        let poll = bob.poll(Method::GET, &outcome(&ask), json!({}));
        match end {
            "unlock" => drop(alice.delete(LOCK, json!({"session_id": "tab"})).await.ok()),
            "release" => drop(alice.post(&format!("{LOCK}/release"), json!({"lease_id": lease, "hold": 1})).await.ok()),
            "force-unlock" => {
                server.admin().post("/api/admin/locks/unlock", json!({"filter": {"room": "room"}})).await.ok();
            }
            "take-over" => drop(server.admin().post(LOCK, json!({"takeover": true})).await.ok()),
            "another asker" => {
                let other = server.editor("carol").asks(json!({})).await;
                alice.answers(&other, json!({"grant": true})).await.ok();
            }
            _ => {
                let short = json!({"session_id": "tab", "ttl_seconds": 5});
                alice.put(LOCK, short).await.ok();
                server.pass_seconds(5).await;
                if end == "expiry met" {
                    server.editor("eve").post(LOCK, json!({})).await.ok();
                }
                server.sweep().await;
            }
        }
        assert_eq!(poll.answer().await.ok()["outcome"], "moot", "{end}");
        assert_eq!(alice.answers(&ask, json!({"grant": true})).await.ok()["outcome"], "moot", "{end}");
        assert_ne!(holder(&server, LOCK).await, "bob", "{end}");
    }
}

#[tokio::test]
async fn a_holder_is_rung_once_however_often_somebody_asks() {
    let (server, alice, bob, ask) = asked().await;
    server.pass_seconds(1).await;
    let again = bob.asks(json!({"message": "please", "session_id": "other"})).await;
    assert_eq!((&again["handover_id"], &again["message"]), (&ask["handover_id"], &json!("typo in §2")));
    assert_eq!(server.events().await.len(), 2);
    bob.delete(&handover(&ask), json!({})).await.ok();
    server.pass(Duration::from_millis(8999)).await;
    let answer = bob.post(HANDOVERS, json!({})).await;
    assert_eq!(answer.headers["retry-after"], "1");
    let refused = answer.problem(429, "RATE_LIMITED");
    assert_eq!((&refused["retry_after_ms"], &refused["retryable"]), (&json!(1), &json!(true)));
    // Others may, and bob for something else.
    server.editor("carol").asks(json!({})).await;
    alice.post("/api/documents/room/other/lock", json!({})).await.ok();
    bob.post("/api/documents/room/other/lock/handovers", json!({})).await.ok();
    server.pass(Duration::from_millis(1)).await;
    assert_ne!(bob.asks(json!({})).await["handover_id"], ask["handover_id"]);
}

#[tokio::test]
async fn only_the_holder_answers_only_the_asker_takes_back_and_strangers_know_of_nothing() {
    let (server, alice, bob, ask) = asked().await;
    let (eve, root, theirs) = (server.editor("eve"), server.admin(), server.editor_of("theirs", "bob"));
    let path = handover(&ask);
    for stranger in [&eve, &root, &theirs] {
        stranger.get(&path).await.problem(404, "NOT_FOUND");
        stranger.answers(&ask, json!({"grant": true})).await.problem(404, "NOT_FOUND");
        stranger.delete(&path, json!({})).await.problem(404, "NOT_FOUND");
    }
    bob.answers(&ask, json!({"grant": true})).await.problem(404, "NOT_FOUND");
    alice.delete(&path, json!({})).await.problem(404, "NOT_FOUND");
    let elsewhere = path.replace("/room/lock", "/room/other/lock");
    bob.get(&elsewhere).await.problem(404, "NOT_FOUND");
    alice.post(&format!("{elsewhere}/answer"), json!({"grant": true})).await.problem(404, "NOT_FOUND");
    // What the holder names must be its lock.
    let lease = uuid::Uuid::nil();
    alice.answers(&ask, json!({"grant": true, "lease_id": lease})).await.problem(409, "LEASE_MISMATCH");
    alice.answers(&ask, json!({"grant": true, "session_id": "other"})).await.problem(409, "LEASE_MISMATCH");
    assert_eq!(bob.get(&path).await.ok()["outcome"], "open");
    alice.answers(&ask, json!({"grant": true, "session_id": "tab"})).await.ok();
}

#[tokio::test]
async fn what_cannot_be_asked_or_answered_is_refused() {
    let (server, alice, bob, ask) = asked().await;
    bob.post("/api/documents/room/free/lock/handovers", json!({})).await.problem(404, "LOCK_NOT_FOUND");
    alice.post(HANDOVERS, json!({"session_id": "tab"})).await.problem(404, "LOCK_NOT_FOUND");
    server.viewer("eve").post(HANDOVERS, json!({})).await.problem(403, "ROLE_FORBIDS");
    let invalid = async |answer: Answer, field: &str| {
        assert_eq!(answer.problem(422, "INVALID_FIELD")["field"], field);
    };
    let carol = server.editor("carol");
    invalid(carol.post(HANDOVERS, json!({"message": "x".repeat(501)})).await, "message").await;
    invalid(carol.post(HANDOVERS, json!({"message": "two\nlines"})).await, "message").await;
    carol.post(HANDOVERS, json!({"note": "x"})).await.problem(422, "UNKNOWN_FIELD");
    invalid(bob.get(&format!("{}?wait_ms=55001", handover(&ask))).await, "wait_ms").await;
    invalid(bob.get(&format!("{HANDOVERS}/nonsense")).await, "handover_id").await;
    invalid(alice.answers(&ask, json!({})).await, "grant").await;
    invalid(alice.answers(&ask, json!({"grant": false, "document_version": "v"})).await, "document_version").await;
    assert_eq!(bob.get(&handover(&ask)).await.ok()["outcome"], "open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_tries_without_end_never_gets_in_between() {
    let server = TestServer::start().await;
    let first = server.editor("editor 0");
    first.post(LOCK, json!({"session_id": "tab"})).await.ok();
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
    let mut before = first;
    for round in 1..=20 {
        let next = server.editor(&format!("editor {round}"));
        let ask = next.asks(json!({"session_id": "tab"})).await;
        before.answers(&ask, json!({"grant": true})).await.ok();
        assert_eq!(next.get(&handover(&ask)).await.ok()["lock"]["fencing_token"], round + 1);
        before = next;
    }
    ends.store(true, Ordering::Release);
    assert!(barges.await.unwrap() > 0);
    let events = server.events().await;
    let grants = events.iter().filter(|event| event["type"] == "DocumentLocked");
    let tokens: Vec<_> = grants.map(|event| event["fencing_token"].as_i64().unwrap()).collect();
    assert_eq!(tokens, (1..=21).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_handover_passes_the_line_by_and_the_line_waits_on() {
    let (server, alice, bob, ask) = asked().await;
    let poll = server.editor("carol").waits(&server, LOCK, json!({}), 1).await;
    alice.answers(&ask, json!({"grant": true})).await.ok();
    assert_eq!(holder(&server, LOCK).await, "bob");
    assert_eq!(alice.get(LOCK).await.ok()["waiting"], 1);
    bob.get(&handover(&ask)).await.ok();
    bob.delete(LOCK, json!({"session_id": "desk"})).await.ok();
    assert_eq!(poll.answer().await.ok()["fencing_token"], 3);
}

#[tokio::test]
async fn an_ask_outlives_an_outage_with_its_whole_time_again() {
    let (server, _, _, ask) = asked().await;
    server.pass_seconds(20).await;
    let server = server.restart_after(Duration::from_secs(40)).await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    server.sweep().await;
    assert_eq!(bob.get(&handover(&ask)).await.ok()["expires_in_ms"], 30_000);
    let poll = bob.poll(Method::GET, &outcome(&ask), json!({}));
    alice.answers(&ask, json!({"grant": true})).await.ok();
    assert_eq!(poll.answer().await.ok()["lock"]["fencing_token"], 2);
}
