//! LS-EXP-001: expiry is idempotent, announced once and in time, and correctness never waits for it.

use std::time::Duration;

use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use crate::support::{TestServer, millis, reasons};

const LOCK: &str = "/api/documents/room/lock";

fn path(document: &str) -> String {
    format!("/api/documents/room/{document}/lock")
}

/// The end of the document's lock, when the workers have got to it. The clock stands still meanwhile, so how long
/// that takes changes nothing.
async fn end_of(server: &TestServer, document: &str) -> Value {
    let found = async {
        loop {
            let events = server.events().await;
            let is_end = |event: &&Value| event["document"] == document && event["reason"].is_string();
            if let Some(event) = events.iter().find(is_end) {
                return event.clone();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.unwrap()
}

#[tokio::test]
async fn ls_exp_001_an_overdue_lock_is_free_before_any_sweep() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(LOCK, json!({"ttl_seconds": 2})).await.ok();
    server.pass(Duration::from_millis(1999)).await;
    assert_eq!(bob.get(LOCK).await.ok()["lock"]["expires_in_ms"], 1);
    bob.post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
    server.pass(Duration::from_millis(1)).await;
    assert_eq!(bob.get(LOCK).await.ok()["lock"], json!(null));
    assert_eq!(bob.get("/api/rooms/room/locks").await.ok()["items"], json!([]));
    assert_eq!(server.locks().await.len(), 0);
    assert_eq!(reasons(&server.events().await), [""; 0], "nobody has met it yet");
    bob.post(LOCK, json!({})).await.ok();
}

#[tokio::test]
async fn ls_exp_001_expiry_is_announced_once_however_often_it_is_swept() {
    let server = TestServer::start().await;
    let lock = server.editor("alice").post(LOCK, json!({"session_id": "tab"})).await.ok();
    server.pass_seconds(30).await;
    for _ in 0..3 {
        server.sweep().await;
    }
    let server = server.restart().await;
    server.sweep().await;
    let events = server.events().await;
    assert_eq!(reasons(&events), ["expired"]);
    assert_eq!(events[1]["lease_id"], lock["lease_id"]);
    assert_eq!(events[1]["by"], json!(null));
    assert_eq!(events[1]["held_ms"], 30_000);
}

#[tokio::test]
async fn ls_exp_001_whoever_meets_an_overdue_lock_first_announces_it_and_nobody_again() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    for (name, meets) in [("POST", json!({})), ("PUT", json!({})), ("DELETE", json!({}))] {
        let method = name.parse().unwrap();
        alice.post(&path(name), json!({"ttl_seconds": 1})).await.ok();
        server.pass_seconds(1).await;
        server.editor("bob").json(method, &path(name), meets).await;
        server.sweep().await;
        let events = server.events().await;
        let of_alice: Vec<_> = events.into_iter().filter(|event| event["document"] == name).collect();
        assert_eq!(reasons(&of_alice), ["expired"], "{name}");
    }
}

#[tokio::test]
async fn ls_exp_001_workers_announce_expiry_at_most_250_ms_late() {
    let server = TestServer::with_workers().await;
    let alice = server.editor("alice");
    alice.post(&path("first"), json!({"ttl_seconds": 1})).await.ok();
    server.clock.advance(Duration::from_millis(201));
    let lock = alice.post(&path("second"), json!({"ttl_seconds": 1})).await.ok();
    server.clock.advance(Duration::from_millis(999));
    // The workers have looked: the second lock is due a millisecond after that, the worst moment.
    end_of(&server, "first").await;
    server.clock.advance(Duration::from_millis(251));
    let end = end_of(&server, "second").await;
    assert_eq!(end["reason"], "expired");
    let late = millis(&end["at"]) - millis(&lock["expires_at"]);
    assert!((0..=250).contains(&late), "{late} ms late");
}

#[tokio::test]
async fn ls_exp_001_a_sweep_looks_at_each_extended_lock_once() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    // More than one look takes, so that a sweep which did not get on would not end.
    let parts = ["a", "b", "c"].map(|part| {
        let documents: Vec<_> = (0..80).map(|number| format!("{part}{number}")).collect();
        json!({"documents": documents, "ttl_seconds": 5})
    });
    for part in &parts {
        alice.post("/api/rooms/room/locks", part.clone()).await.ok();
    }
    server.pass_seconds(1).await;
    for part in parts {
        alice.put("/api/rooms/room/locks", part).await.ok();
    }
    server.pass_seconds(4).await;
    let database = server.database().await;
    let due = async || -> i64 {
        let query = "SELECT count(*) FROM document_locks WHERE due_at < expires_at";
        database
            .query_one_raw(Statement::from_string(database.get_database_backend(), query))
            .await
            .unwrap()
            .unwrap()
            .try_get_by_index(0)
            .unwrap()
    };
    assert_eq!(due().await, 240);
    tokio::time::timeout(Duration::from_secs(20), server.sweep()).await.unwrap();
    assert_eq!(due().await, 0);
    assert_eq!(reasons(&server.events().await), [""; 0]);
}

#[tokio::test]
async fn ls_exp_001_workers_leave_a_lock_that_was_extended() {
    let server = TestServer::with_workers().await;
    let alice = server.editor("alice");
    alice.post(&path("kept"), json!({"ttl_seconds": 5})).await.ok();
    alice.post(&path("left"), json!({"ttl_seconds": 5})).await.ok();
    server.pass_seconds(3).await;
    let kept = alice.put(&path("kept"), json!({})).await.ok();
    server.pass_seconds(2).await;
    server.clock.advance(Duration::from_millis(250));
    // Both were due at once: when one has been seen to, so has the other.
    end_of(&server, "left").await;
    assert_eq!(alice.get(&path("kept")).await.ok()["lock"]["expires_at"], kept["expires_at"]);
    assert_eq!(reasons(&server.events().await), ["expired"]);
    // Looked at once, it is looked at again when it ends by its last heartbeat.
    server.pass_seconds(3).await;
    assert_eq!(end_of(&server, "kept").await["reason"], "expired");
}

#[tokio::test]
async fn ls_exp_001_a_force_unlock_that_meets_an_overdue_lock_expires_it_once() {
    let server = TestServer::start().await;
    let shared = json!({"capacity": 3, "ttl_seconds": 60});
    server.editor("late").post(LOCK, json!({"capacity": 3, "ttl_seconds": 1})).await.ok();
    for owner in ["bob", "carol"] {
        server.editor(owner).post(LOCK, shared.clone()).await.ok();
    }
    server.pass_seconds(1).await;
    let answer = server.admin().post("/api/admin/locks/unlock", json!({"filter": {"room": "room"}})).await.ok();
    assert_eq!(answer["unlocked"], 2);
    assert_eq!(reasons(&server.events().await), ["expired", "revoked", "revoked"]);
    // Nobody's count of locks is off by it: three more may come.
    for owner in ["late", "bob", "carol"] {
        server.editor(owner).post(LOCK, shared.clone()).await.ok();
    }
}

#[tokio::test]
async fn ls_exp_001_one_sweep_ends_thousands() {
    const LOCKS: usize = 5000;
    let server = TestServer::start().await;
    let alice = server.editor("alice").connected();
    for page in 0..LOCKS / 100 {
        let documents: Vec<_> = (0..100).map(|index| format!("d-{page}-{index}")).collect();
        alice.post("/api/rooms/room/locks", json!({"documents": documents, "ttl_seconds": 60})).await.ok();
    }
    server.pass_seconds(30).await;
    let kept: Vec<_> = (0..100).map(|index| format!("d-0-{index}")).collect();
    alice.put("/api/rooms/room/locks", json!({ "documents": kept })).await.ok();
    server.pass_seconds(30).await;
    server.sweep().await;
    let table = server.admin().get("/api/admin/locks?limit=1000").await.ok();
    assert_eq!(table["total"], 100, "those that were extended live on");
    let after = format!("/api/admin/events?limit=1&after={}", 2 * LOCKS - 101);
    assert_eq!(server.admin().get(&after).await.ok()["items"][0]["reason"], "expired");
    server.pass_seconds(30).await;
    server.sweep().await;
    assert_eq!(server.locks().await.len(), 0);
}
