//! SPEC section 2: one test per rule. Those on concurrency and expiry have files of their own.

use doclock::settings::DatabaseUrl;
use sea_orm::{ConnectionTrait, SqlErr};
use serde_json::json;

use crate::support::{TestServer, millis, reasons};

const LOCK: &str = "/api/documents/room/lock";

#[tokio::test]
async fn ls_inv_001_a_document_never_has_more_live_locks_than_its_capacity() {
    let server = TestServer::start().await;
    for (document, capacity) in [("plain", 1), ("semaphore", 3)] {
        let path = format!("/api/documents/room/{document}/lock");
        for owner in 0..capacity {
            server.editor(&format!("owner {owner}")).post(&path, json!({"capacity": capacity})).await.ok();
        }
        server.editor("one more").post(&path, json!({"capacity": capacity})).await.problem(409, "LOCK_HELD");
        server.editor("one more").post(&path, json!({})).await.problem(409, "LOCK_HELD");
        let live = server.locks().await.iter().filter(|lock| lock["document"] == document).count();
        assert_eq!(live, capacity);
    }
}

#[tokio::test]
async fn ls_inv_001_the_schema_itself_refuses_a_second_lock_in_the_same_slot() {
    let server = TestServer::start().await;
    server.editor("alice").post(LOCK, json!({})).await.ok();
    let database = server.database().await;
    let lease = match server.url {
        DatabaseUrl::Sqlite(_) => "randomblob(16)",
        DatabaseUrl::Postgres(_) => "gen_random_uuid()",
    };
    let insert = |slot: u32| {
        format!(
            "INSERT INTO document_locks (tenant, room, document, slot, lease_id, hold, fencing_token, owner_id,
                acquired_at, expires_at, due_at, ttl_seconds)
             SELECT tenant, room, document, {slot}, {lease}, 1, 2, 'mallory', acquired_at, expires_at, due_at, 30
             FROM document_locks"
        )
    };
    let error = database.execute_unprepared(&insert(0)).await.unwrap_err();
    assert!(matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))), "{error}");
    // The statement is a good one: only the slot was wrong.
    assert_eq!(database.execute_unprepared(&insert(1)).await.unwrap().rows_affected(), 1);
}

#[tokio::test]
async fn ls_inv_002_tokens_grow_by_one_and_survive_unlock_expiry_cleanup_and_restart() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    assert_eq!(alice.post(LOCK, json!({})).await.ok()["fencing_token"], 1);
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(alice.post(LOCK, json!({})).await.ok()["fencing_token"], 2);
    server.pass_seconds(30).await;
    assert_eq!(server.editor("bob").post(LOCK, json!({})).await.ok()["fencing_token"], 3);
    server.pass_seconds(30).await;
    server.sweep().await;
    let server = server.restart().await;
    assert_eq!(server.editor("carol").post(LOCK, json!({})).await.ok()["fencing_token"], 4);
}

#[tokio::test]
async fn ls_inv_003_only_the_holder_extends_or_unlocks() {
    let server = TestServer::start().await;
    let lock = server.editor("alice").post(LOCK, json!({"session_id": "tab"})).await.ok();
    server.pass_seconds(1).await;
    let bob = server.editor("bob");
    // Knowing the names of someone else's lock does not make it one's own.
    for named in [json!({}), json!({"lease_id": lock["lease_id"]}), json!({"session_id": "tab"})] {
        bob.put(LOCK, named.clone()).await.problem(403, "NOT_OWNER");
        bob.delete(LOCK, named).await.problem(403, "NOT_OWNER");
    }
    let goodbye = json!({"lease_id": lock["lease_id"], "hold": 1});
    bob.post(&format!("{LOCK}/release"), goodbye).await.problem(403, "NOT_OWNER");
    assert_eq!(server.locks().await[0]["expires_at"], lock["expires_at"]);
}

#[tokio::test]
async fn ls_inv_004_an_ended_lock_answers_409_and_stays_ended() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    server.pass_seconds(30).await;
    for named in [json!({"lease_id": lock["lease_id"]}), json!({"session_id": "tab"}), json!({})] {
        alice.put(LOCK, named.clone()).await.problem(409, "LEASE_EXPIRED");
        alice.delete(LOCK, named).await.problem(409, "LEASE_EXPIRED");
    }
    assert_eq!(server.locks().await.len(), 0);
}

#[tokio::test]
async fn ls_acq_001_a_live_lock_refuses_others_and_says_who_has_it() {
    let server = TestServer::start().await;
    server.editor("alice").post(LOCK, json!({"ttl_seconds": 10})).await.ok();
    server.pass_seconds(9).await;
    let refused = server.editor("bob").post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
    assert_eq!(refused["lock"]["holder"]["owner_id"], "alice");
    assert_eq!(refused["is_you"], false);
    assert_eq!(refused["retryable"], true);
    assert_eq!(refused["retry_after_ms"], 1000);
    let own = server.editor("alice").post(LOCK, json!({"session_id": "another"})).await.problem(409, "LOCK_HELD");
    assert_eq!(own["is_you"], true);
    // No session equals no session.
    server.editor("alice").post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
}

#[tokio::test]
async fn ls_acq_002_a_free_or_overdue_document_grants() {
    let server = TestServer::start().await;
    let first = server.editor("alice").post(LOCK, json!({"ttl_seconds": 10})).await.ok();
    assert_eq!(first["resumed"], false);
    assert_eq!(first["hold"], 1);
    server.pass_seconds(10).await;
    // At `now >= expires_at`, with nobody having swept.
    let second = server.editor("bob").post(LOCK, json!({})).await.ok();
    assert_eq!(second["acquired_at"], first["expires_at"]);
    server.editor("bob").delete(LOCK, json!({})).await.ok();
    server.editor("carol").post(LOCK, json!({})).await.ok();
}

#[tokio::test]
async fn ls_acq_003_every_way_to_get_a_lock_takes_the_next_token() {
    let server = TestServer::start().await;
    let (alice, admin) = (server.editor("alice"), server.admin());
    assert_eq!(alice.post(LOCK, json!({"session_id": "a"})).await.ok()["fencing_token"], 1);
    // A resumed lock and a refused request are no grants.
    assert_eq!(alice.post(LOCK, json!({"session_id": "a"})).await.ok()["fencing_token"], 1);
    server.editor("bob").post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
    assert_eq!(admin.post(LOCK, json!({"takeover": true})).await.ok()["fencing_token"], 2);
    let lease = server.locks().await[0]["lease_id"].as_str().unwrap().to_owned();
    admin.delete(&format!("/api/admin/locks/{lease}"), json!({})).await.ok();
    let many = alice.post("/api/rooms/room/locks", json!({"documents": ["main", "other"]})).await.ok();
    assert_eq!((&many["items"][0]["fencing_token"], &many["items"][1]["fencing_token"]), (&json!(3), &json!(1)));
    assert_eq!(alice.get(LOCK).await.ok()["last_token"], 3);
}

#[tokio::test]
async fn ls_acq_004_a_lock_request_sent_again_grants_once() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let first = alice.post(LOCK, json!({"request_id": "r"})).await.ok();
    server.pass_seconds(1).await;
    let again = alice.post(LOCK, json!({"request_id": "r"})).await.ok();
    for field in ["lease_id", "fencing_token", "hold", "expires_at", "resumed"] {
        assert_eq!(first[field], again[field], "{field}");
    }
    assert_eq!(server.events().await.len(), 1);
}

#[tokio::test]
async fn ls_rnw_001_a_heartbeat_lets_the_lock_live_its_ttl_from_now() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({"ttl_seconds": 10})).await.ok();
    server.pass_seconds(9).await;
    let extended = alice.put(LOCK, json!({})).await.ok();
    assert_eq!(millis(&extended["expires_at"]), millis(&lock["expires_at"]) + 9_000);
    assert_eq!(extended["expires_in_ms"], 10_000);
    for same in ["lease_id", "fencing_token", "hold", "acquired_at"] {
        assert_eq!(extended[same], lock[same], "{same}");
    }
    server.pass_seconds(9).await;
    server.editor("bob").post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
}

#[tokio::test]
async fn ls_rnw_002_a_heartbeat_may_change_the_ttl_for_itself_and_those_after() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({"ttl_seconds": 10})).await.ok();
    // Longer, then shorter, then as it was last.
    for (sent, expected) in [(json!({"ttl_seconds": 60}), 60), (json!({"ttl_seconds": 5}), 5), (json!({}), 5)] {
        let extended = alice.put(LOCK, sent).await.ok();
        assert_eq!(extended["ttl_seconds"], expected);
        assert_eq!(extended["expires_in_ms"], expected * 1000);
    }
}

#[tokio::test]
async fn ls_rnw_003_a_heartbeat_sent_again_extends_once() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({})).await.ok();
    server.pass_seconds(1).await;
    let first = alice.put(LOCK, json!({"request_id": "beat"})).await.ok();
    server.pass_seconds(5).await;
    let again = alice.put(LOCK, json!({"request_id": "beat"})).await.ok();
    assert_eq!(first["expires_at"], again["expires_at"]);
}

#[tokio::test]
async fn ls_rel_001_after_an_unlock_the_document_is_free() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({})).await.ok();
    let released = alice.delete(LOCK, json!({})).await.ok();
    assert_eq!((&released["released"], &released["fencing_token"]), (&json!(true), &json!(1)));
    assert_eq!(alice.get(LOCK).await.ok()["lock"], json!(null));
    server.editor("bob").post(LOCK, json!({})).await.ok();
}

#[tokio::test]
async fn ls_rel_002_an_unlock_never_ends_the_next_holders_lock() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let lock = alice.post(LOCK, json!({"session_id": "tab"})).await.ok();
    alice.delete(LOCK, json!({"session_id": "tab"})).await.ok();
    server.editor("bob").post(LOCK, json!({"session_id": "tab"})).await.ok();
    alice.delete(LOCK, json!({"lease_id": lock["lease_id"]})).await.problem(409, "LEASE_RELEASED");
    alice.delete(LOCK, json!({"session_id": "tab"})).await.problem(409, "LEASE_RELEASED");
    alice.delete(LOCK, json!({})).await.problem(403, "NOT_OWNER");
    assert_eq!(server.locks().await[0]["holder"]["owner_id"], "bob");
}

#[tokio::test]
async fn ls_rel_003_an_unlock_sent_again_ends_once() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(LOCK, json!({})).await.ok();
    let first = alice.delete(LOCK, json!({"request_id": "bye"})).await.ok();
    // Meanwhile it is locked again, by the same owner and in the same way: the twin must not end that.
    alice.post(LOCK, json!({})).await.ok();
    let again = alice.delete(LOCK, json!({"request_id": "bye"})).await.ok();
    assert_eq!(first["fencing_token"], again["fencing_token"]);
    assert_eq!(again["released"], true);
    assert_eq!(server.locks().await.len(), 1);
    assert_eq!(reasons(&server.events().await), ["released"]);
}

#[tokio::test]
async fn ls_auth_001_the_owner_is_the_tokens_never_the_bodys() {
    let server = TestServer::start().await;
    let mallory = server.editor("mallory");
    for field in ["owner_id", "owner", "holder", "sub", "tenant"] {
        let problem = mallory.post(LOCK, json!({field: "alice"})).await.problem(422, "UNKNOWN_FIELD");
        assert_eq!(problem["field"], field);
    }
    let lock = mallory.post(LOCK, json!({"metadata": {"owner_id": "alice"}})).await.ok();
    assert_eq!(lock["holder"]["owner_id"], "mallory");
    assert_eq!(server.events().await[0]["owner_id"], "mallory");
}

#[tokio::test]
async fn ls_fence_001_a_stale_token_is_told_from_the_current_one() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    let verify = async |token: i64| {
        let answer = bob.post(&format!("{LOCK}/verify"), json!({"fencing_token": token})).await.ok();
        (answer["valid"].as_bool().unwrap(), answer["current_token"].as_i64().unwrap())
    };
    assert_eq!(verify(0).await, (false, 0));
    alice.post(LOCK, json!({"ttl_seconds": 10})).await.ok();
    assert_eq!(verify(1).await, (true, 1));
    assert_eq!(verify(2).await, (false, 1));
    server.pass_seconds(10).await;
    assert_eq!(verify(1).await, (false, 1), "overdue, though nobody has swept");
    bob.post(LOCK, json!({})).await.ok();
    assert_eq!(verify(1).await, (false, 2));
    assert_eq!(verify(2).await, (true, 2));
}

#[tokio::test]
async fn ls_inv_002_the_database_itself_refuses_a_token_that_does_not_grow() {
    let server = TestServer::start().await;
    server.editor("alice").post(LOCK, json!({})).await.ok();
    let database = server.database().await;
    for token in ["fencing_token", "fencing_token - 1", "0"] {
        let update = format!("UPDATE documents SET fencing_token = {token}");
        let error = database.execute_unprepared(&update).await.unwrap_err().to_string();
        assert!(error.contains("a fencing token must grow"), "{token}: {error}");
    }
    database.execute_unprepared("UPDATE documents SET fencing_token = fencing_token + 1").await.unwrap();
}
