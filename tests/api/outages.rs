//! Grace: who was alive when an outage began keeps the lock; who was not does not.

use std::time::Duration;

use sea_orm::{ConnectionTrait, Statement};
use serde_json::json;

use crate::support::{TestServer, reasons};

const LOCK: &str = "/api/documents/room/lock";

fn path(document: &str) -> String {
    format!("/api/documents/room/{document}/lock")
}

#[tokio::test]
async fn after_a_restart_live_locks_have_their_whole_ttl_again() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(&path("short"), json!({"ttl_seconds": 5, "session_id": "tab"})).await.ok();
    alice.post(&path("long"), json!({"ttl_seconds": 60})).await.ok();
    server.pass_seconds(4).await;
    let server = server.restart_after(Duration::from_secs(40)).await;
    let alice = server.editor("alice");
    assert_eq!(alice.get(&path("short")).await.ok()["lock"]["expires_in_ms"], 5_000);
    assert_eq!(alice.get(&path("long")).await.ok()["lock"]["expires_in_ms"], 60_000);
    server.sweep().await;
    server.editor("bob").post(&path("short"), json!({})).await.problem(409, "LOCK_HELD");
    alice.put(&path("short"), json!({"lease_id": lock["lease_id"]})).await.ok();
    assert_eq!(reasons(&server.events().await), [""; 0]);
    // And it ends as any other when nobody comes back.
    server.pass_seconds(5).await;
    server.sweep().await;
    assert_eq!(reasons(&server.events().await), ["expired"]);
}

#[tokio::test]
async fn what_had_expired_before_the_outage_stays_expired() {
    for swept in [false, true] {
        let server = TestServer::start().await;
        server.editor("alice").post(LOCK, json!({"ttl_seconds": 5})).await.ok();
        server.pass_seconds(5).await;
        if swept {
            server.sweep().await;
        }
        let server = server.restart_after(Duration::from_secs(40)).await;
        let alice = server.editor("alice");
        assert_eq!(alice.get(LOCK).await.ok()["lock"], json!(null), "swept: {swept}");
        alice.put(LOCK, json!({})).await.problem(409, "LEASE_EXPIRED");
        assert_eq!(server.editor("bob").post(LOCK, json!({})).await.ok()["fencing_token"], 2);
        assert_eq!(reasons(&server.events().await), ["expired"]);
    }
}

#[tokio::test]
async fn a_gap_while_the_server_runs_is_an_outage_too() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({"ttl_seconds": 5})).await.ok();
    server.pass_seconds(1).await;
    server.clock.advance(Duration::from_secs(40));
    // The first command after it, whatever it is, meets the lock alive.
    let refused = server.editor("bob").post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
    assert_eq!(refused["retry_after_ms"], 5_000);
    alice.put(LOCK, json!({})).await.ok();
    assert_eq!(reasons(&server.events().await), [""; 0]);
}

#[tokio::test]
async fn the_sweep_after_an_outage_gives_grace_before_it_expires() {
    let server = TestServer::start().await;
    server.editor("alice").post(&path("alive"), json!({"ttl_seconds": 5})).await.ok();
    server.editor("alice").post(&path("ended"), json!({"ttl_seconds": 1})).await.ok();
    server.pass_seconds(1).await;
    server.clock.advance(Duration::from_secs(40));
    server.sweep().await;
    let live = server.locks().await;
    assert_eq!((live.len(), &live[0]["document"]), (1, &json!("alive")));
}

#[tokio::test]
async fn reads_in_the_gap_already_see_what_grace_will_make_true() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(&path("alive"), json!({"ttl_seconds": 5})).await.ok();
    alice.post(&path("ended"), json!({"ttl_seconds": 1})).await.ok();
    server.pass_seconds(1).await;
    server.clock.advance(Duration::from_secs(40));
    let seen = bob.get(&path("alive")).await.ok();
    assert_eq!(seen["lock"]["holder"]["owner_id"], "alice");
    assert_eq!(bob.get(&path("ended")).await.ok()["lock"], json!(null));
    assert_eq!(bob.get("/api/rooms/room/locks").await.ok()["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.locks().await.len(), 1);
    let verify = bob.post(&format!("{}/verify", path("alive")), json!({"fencing_token": 1})).await.ok();
    assert_eq!(verify["valid"], true);
    assert_eq!(server.admin().get("/api/admin/stats").await.ok()["locks"], 1);
}

#[tokio::test]
async fn a_gap_of_3_seconds_is_no_outage_and_one_longer_is() {
    for (gap_ms, is_outage) in [(3000, false), (3001, true)] {
        let server = TestServer::start().await;
        let (alice, bob) = (server.editor("alice"), server.editor("bob"));
        alice.post(LOCK, json!({"ttl_seconds": 2})).await.ok();
        server.clock.advance(Duration::from_millis(gap_ms));
        assert_eq!(bob.get(LOCK).await.ok()["lock"].is_object(), is_outage, "{gap_ms}");
        let answer = alice.put(LOCK, json!({})).await;
        assert_eq!(answer.status, if is_outage { 200 } else { 409 }, "{gap_ms}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_short_restart_gives_no_grace() {
    let server = TestServer::start().await;
    server.editor("alice").post(LOCK, json!({"ttl_seconds": 2})).await.ok();
    let server = server.restart_after(Duration::from_secs(3)).await;
    server.editor("alice").put(LOCK, json!({})).await.problem(409, "LEASE_EXPIRED");
}

#[tokio::test]
async fn a_second_outage_gives_grace_again_to_those_still_alive() {
    let server = TestServer::start().await;
    server.editor("alice").post(&path("a"), json!({"ttl_seconds": 10})).await.ok();
    let server = server.restart_after(Duration::from_secs(40)).await;
    server.editor("bob").post(&path("b"), json!({"ttl_seconds": 2})).await.ok();
    server.pass_seconds(2).await;
    let server = server.restart_after(Duration::from_secs(40)).await;
    let live = server.locks().await;
    assert_eq!((live.len(), &live[0]["document"]), (1, &json!("a")));
    assert_eq!(live[0]["expires_in_ms"], 10_000);
}

#[tokio::test]
async fn workers_do_not_expire_in_an_outage_what_grace_keeps() {
    let server = TestServer::with_workers().await;
    server.editor("alice").post(LOCK, json!({"ttl_seconds": 5})).await.ok();
    let server = server.restart_after(Duration::from_secs(40)).await;
    server.sweep().await;
    assert_eq!(server.locks().await.len(), 1);
    assert_eq!(reasons(&server.events().await), [""; 0]);
}

#[tokio::test]
async fn a_lingering_lock_gets_its_linger_again_and_not_a_whole_ttl() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({"session_id": "tab", "ttl_seconds": 300})).await.ok();
    let goodbye = json!({"lease_id": lock["lease_id"], "hold": 1, "linger_ms": 3000});
    alice.post(&format!("{LOCK}/release"), goodbye).await.ok();
    let server = server.restart_after(Duration::from_secs(40)).await;
    assert_eq!(server.editor("bob").get(LOCK).await.ok()["lock"]["expires_in_ms"], 3000);
    server.pass_seconds(3).await;
    server.editor("bob").post(LOCK, json!({})).await.ok();
    assert_eq!(reasons(&server.events().await), ["released"]);
}

#[tokio::test]
async fn grace_is_one_row_and_expiry_writes_it_into_the_locks_that_nobody_extends() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    for document in ["a", "b", "c"] {
        alice.post(&path(document), json!({"ttl_seconds": 10})).await.ok();
    }
    let database = server.database().await;
    let expires = async || {
        let statement = "SELECT DISTINCT expires_at FROM document_locks ORDER BY expires_at";
        let rows = database.query_all_raw(Statement::from_string(database.get_database_backend(), statement)).await;
        rows.unwrap().iter().map(|row| row.try_get_by_index::<i64>(0).unwrap()).collect::<Vec<_>>()
    };
    let before = expires().await;
    server.clock.advance(Duration::from_hours(1));
    alice.post(&path("other"), json!({"ttl_seconds": 60})).await.ok();
    assert_eq!(expires().await[0], before[0], "no lock is touched");
    assert_eq!(alice.get(&path("a")).await.ok()["lock"]["expires_in_ms"], 10_000);
    alice.put(&path("a"), json!({})).await.ok();
    server.sweep().await;
    let now = server.clock.now().millis();
    assert_eq!(expires().await, [now + 10_000, now + 60_000]);
    server.pass_seconds(10).await;
    server.sweep().await;
    assert_eq!(server.locks().await.len(), 1);
    assert_eq!(reasons(&server.events().await), ["expired"; 3]);
}

#[tokio::test]
async fn outages_are_forgotten_when_no_lock_can_be_from_before_them() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({})).await.ok();
    let database = server.database().await;
    let outages = async || {
        let statement = Statement::from_string(database.get_database_backend(), "SELECT back_at FROM outages");
        database.query_all_raw(statement).await.unwrap().len()
    };
    for _ in 0..3 {
        server.clock.advance(Duration::from_secs(20));
        alice.put(LOCK, json!({})).await.ok();
    }
    server.sweep().await;
    assert_eq!(outages().await, 3);
    server.skip_hours(25).await;
    // The one of this gap, until a day has passed after it.
    server.sweep().await;
    assert_eq!(outages().await, 1);
}
