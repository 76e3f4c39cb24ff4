//! LS-CC-001 and the acceptance rules LS-ACC-01 to 04: many at once, over HTTP.

use std::collections::HashSet;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Answer, Caller, TestServer, reasons};

const LOCK: &str = "/api/documents/room/lock";

fn callers(server: &TestServer, count: usize) -> Vec<Caller> {
    (0..count).map(|number| server.editor(&format!("owner {number}")).connected()).collect()
}

/// All of them send the same, at once; the answers with who got them.
async fn race(callers: &[Caller], method: Method, path: &str, body: &Value) -> Vec<(usize, Answer)> {
    let mut tasks = JoinSet::new();
    for (number, caller) in callers.iter().cloned().enumerate() {
        let (method, path, body) = (method.clone(), path.to_owned(), body.clone());
        tasks.spawn(async move { (number, caller.json(method, &path, body).await) });
    }
    tasks.join_all().await
}

/// The one who got 200, and what; everyone else must have been told that the document is held.
#[track_caller]
fn only_winner(answers: Vec<(usize, Answer)>) -> (usize, Value) {
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, answer)| answer.status == 200);
    assert_eq!(won.len(), 1, "{won:?}");
    for (_, answer) in lost {
        answer.problem(409, "LOCK_HELD");
    }
    let (number, answer) = won.into_iter().next().unwrap();
    (number, answer.ok())
}

#[tokio::test]
async fn ls_cc_001_of_64_callers_racing_for_a_document_exactly_one_wins_each_of_200_rounds() {
    let server = TestServer::start().await;
    let callers = callers(&server, 64);
    for round in 1..=200 {
        let (winner, lock) = only_winner(race(&callers, Method::POST, LOCK, &json!({})).await);
        assert_eq!(lock["fencing_token"], round);
        assert_eq!(lock["holder"]["owner_id"], format!("owner {winner}"));
        callers[winner].delete(LOCK, json!({})).await.ok();
    }
}

#[tokio::test]
async fn ls_acc_01_no_document_is_granted_twice_by_any_mix_of_calls() {
    let server = TestServer::start().await;
    let callers = callers(&server, 24);
    for round in 0..20 {
        let mut tasks = JoinSet::new();
        for (number, caller) in callers.iter().cloned().enumerate() {
            tasks.spawn(async move {
                let (path, body) = match number % 3 {
                    0 => (LOCK, json!({})),
                    1 => ("/api/documents/room/main/lock", json!({})),
                    // In either order: locks on several documents must not block each other for good.
                    _ if number % 2 == 0 => ("/api/rooms/room/locks", json!({"documents": ["main", "other"]})),
                    _ => ("/api/rooms/room/locks", json!({"documents": ["other", "main"]})),
                };
                (number, caller.post(path, body).await)
            });
        }
        let (winner, _) = only_winner(tasks.join_all().await);
        let live = server.locks().await;
        assert_eq!(live.len(), if winner % 3 == 2 { 2 } else { 1 }, "round {round}: {live:?}");
        for lock in live {
            assert_eq!(lock["holder"]["owner_id"], format!("owner {winner}"));
            let document = lock["document"].as_str().unwrap();
            callers[winner].delete(&format!("/api/documents/room/{document}/lock"), json!({})).await.ok();
        }
    }
}

#[tokio::test]
async fn ls_acc_01_a_semaphore_lets_exactly_its_capacity_in() {
    let server = TestServer::start().await;
    let callers = callers(&server, 32);
    let answers = race(&callers, Method::POST, LOCK, &json!({"capacity": 5})).await;
    let won: Vec<_> = answers.into_iter().filter(|(_, answer)| answer.status == 200).collect();
    let tokens: HashSet<_> = won.iter().map(|(_, answer)| answer.body["fencing_token"].as_i64().unwrap()).collect();
    assert_eq!(won.len(), 5);
    assert_eq!(tokens, HashSet::from([1, 2, 3, 4, 5]));
}

#[tokio::test]
async fn ls_acc_02_owner_and_time_are_checked_at_every_step() {
    let server = TestServer::start().await;
    let callers = callers(&server, 16);
    callers[0].post(LOCK, json!({"ttl_seconds": 10})).await.ok();
    server.pass_seconds(9).await;
    for (number, answer) in race(&callers, Method::PUT, LOCK, &json!({})).await {
        assert_eq!(answer.status, if number == 0 { 200 } else { 403 }, "{}", answer.body);
    }
    server.pass_seconds(10).await;
    for (number, answer) in race(&callers, Method::PUT, LOCK, &json!({})).await {
        answer
            .problem(if number == 0 { 409 } else { 404 }, if number == 0 { "LEASE_EXPIRED" } else { "LOCK_NOT_FOUND" });
    }
    let (winner, lock) = only_winner(race(&callers, Method::POST, LOCK, &json!({})).await);
    assert_eq!(lock["fencing_token"], 2);
    for (number, answer) in race(&callers, Method::DELETE, LOCK, &json!({})).await {
        // Who unlocks after the winner has, finds nothing; the loser of the first lock hears how that ended.
        assert!(answer.status == 200 && number == winner || matches!(answer.status, 403 | 404 | 409), "{answer:?}");
    }
    assert_eq!(reasons(&server.events().await), ["expired", "released"]);
}

#[tokio::test]
async fn ls_acc_03_tokens_rise_with_every_grant_in_the_order_of_the_log() {
    let server = TestServer::start().await;
    let callers = callers(&server, 8);
    for _ in 0..10 {
        let (winner, _) = only_winner(race(&callers, Method::POST, LOCK, &json!({"ttl_seconds": 1})).await);
        if winner % 2 == 0 {
            callers[winner].delete(LOCK, json!({})).await.ok();
        } else {
            server.pass_seconds(1).await;
        }
    }
    let events = server.events().await;
    let tokens: Vec<_> = events.iter().filter(|event| event["type"] == "DocumentLocked").collect();
    let tokens: Vec<_> = tokens.iter().map(|event| event["fencing_token"].as_i64().unwrap()).collect();
    assert_eq!(tokens, (1..=10).collect::<Vec<_>>());
    let sequences: Vec<_> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>(), "gap-free");
}

#[tokio::test]
async fn ls_acc_04_a_request_sent_twice_at_once_acts_once() {
    let server = TestServer::start().await;
    let twins = vec![server.editor("alice").connected(); 16];
    for round in 1..=10 {
        let locked = race(&twins, Method::POST, LOCK, &json!({"request_id": format!("lock {round}")})).await;
        for (_, answer) in locked {
            assert_eq!(answer.ok()["fencing_token"], round);
        }
        let ended = race(&twins, Method::DELETE, LOCK, &json!({"request_id": format!("unlock {round}")})).await;
        for (_, answer) in ended {
            assert_eq!(answer.ok()["fencing_token"], round);
        }
    }
    assert_eq!(server.events().await.len(), 20);
}
