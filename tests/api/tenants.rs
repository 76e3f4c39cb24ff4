//! Tenants share a server and nothing else: the same names in two of them never meet.

use doclock::auth::{Claims, Role};
use reqwest::Method;
use serde_json::json;

use crate::support::{Caller, TestServer, claims, reasons};

const LOCK: &str = "/api/documents/room/lock";

/// The same people, room and document in two tenants; the one of `one` is locked a second time.
async fn two() -> (TestServer, Caller, Caller) {
    let server = TestServer::start().await;
    let (one, two) = (server.editor_of("one", "alice"), server.editor_of("two", "alice"));
    one.post(LOCK, json!({"session_id": "tab"})).await.ok();
    one.delete(LOCK, json!({"session_id": "tab"})).await.ok();
    one.post(LOCK, json!({"session_id": "tab", "metadata": {"secret": "of one"}})).await.ok();
    (server, one, two)
}

#[tokio::test]
async fn the_same_document_in_two_tenants_is_two_documents() {
    let (_server, one, two) = two().await;
    let free = two.get(LOCK).await.ok();
    assert_eq!((&free["lock"], &free["last_token"]), (&json!(null), &json!(0)));
    assert_eq!(two.post(LOCK, json!({"session_id": "tab"})).await.ok()["fencing_token"], 1);
    let lock = one.post(LOCK, json!({"session_id": "tab"})).await.ok();
    assert_eq!((&lock["fencing_token"], &lock["hold"]), (&json!(2), &json!(2)));
    two.delete(LOCK, json!({"session_id": "tab"})).await.ok();
    assert!(one.get(LOCK).await.ok()["lock"].is_object());
}

#[tokio::test]
async fn no_answer_of_one_tenant_speaks_of_another() {
    let (server, one, two) = two().await;
    let root = server.admin_of("two");
    let lease = one.get(LOCK).await.ok()["lock"]["lease_id"].clone();
    let named = json!({"lease_id": lease});
    let answers = [
        two.get(LOCK).await,
        two.get("/api/rooms/room/locks").await,
        two.put(LOCK, named.clone()).await,
        two.put(LOCK, json!({"session_id": "tab"})).await,
        two.delete(LOCK, named.clone()).await,
        two.post("/api/documents/room/lock/release", json!({"lease_id": lease, "hold": 1})).await,
        two.post("/api/documents/room/lock/verify", json!({"fencing_token": 2})).await,
        root.get("/api/admin/locks").await,
        root.get("/api/admin/events").await,
        root.get("/api/admin/stats").await,
        root.delete(&format!("/api/admin/locks/{}", lease.as_str().unwrap()), json!({})).await,
        root.post("/api/admin/locks/unlock", json!({"filter": {"room": "room"}})).await,
    ];
    for answer in &answers {
        let text = answer.body.to_string();
        assert!(!text.contains("of one") && !text.contains(lease.as_str().unwrap()), "{text}");
        assert!(!text.contains("alice"), "{text}");
    }
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 404, 404, 404, 404, 200, 200, 200, 200, 404, 200]);
    assert_eq!(answers[6].body["valid"], false);
    assert_eq!((&answers[7].body["items"], &answers[7].body["total"]), (&json!([]), &json!(0)));
    assert_eq!(answers[8].body["items"], json!([]));
    assert_eq!((&answers[9].body["locks"], &answers[9].body["grants"]), (&json!(0), &json!(0)));
    assert_eq!(answers[11].body["unlocked"], 0);
    assert!(one.get(LOCK).await.ok()["lock"].is_object(), "and none of it has touched the lock");
}

#[tokio::test]
async fn an_admin_ends_locks_of_the_own_tenant_only() {
    let (server, one, two) = two().await;
    two.post(LOCK, json!({})).await.ok();
    let root = server.admin_of("two");
    let filter = json!({"filter": {"owner": "alice", "room": "room"}, "reason": "only here"});
    assert_eq!(root.post("/api/admin/locks/unlock", filter).await.ok()["unlocked"], 1);
    let lease = one.get(LOCK).await.ok()["lock"]["lease_id"].clone();
    let path = format!("/api/admin/locks/{}", lease.as_str().unwrap());
    root.delete(&path, json!({})).await.problem(404, "LOCK_NOT_FOUND");
    server.admin().delete(&path, json!({})).await.problem(404, "LOCK_NOT_FOUND");
    server.admin_of("one").delete(&path, json!({})).await.ok();
    let of_one = server.admin_of("one").get("/api/admin/events").await.ok()["items"].as_array().unwrap().clone();
    let of_two = root.get("/api/admin/events").await.ok()["items"].as_array().unwrap().clone();
    assert_eq!((reasons(&of_one), reasons(&of_two)), (vec!["released", "revoked"], vec!["revoked"]));
    // One log for all: numbers jump, what happened elsewhere does not show.
    let numbers = |events: &[serde_json::Value]| -> Vec<u64> {
        events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect()
    };
    assert_eq!((numbers(&of_one), numbers(&of_two)), (vec![1, 2, 3, 6], vec![4, 5]));
}

#[tokio::test]
async fn a_token_without_tenant_is_of_the_default_one() {
    let server = TestServer::start().await;
    server.editor("alice").post(LOCK, json!({})).await.ok();
    server.editor_of("default", "bob").post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
    server.editor_of("Default", "bob").post(LOCK, json!({})).await.ok();
}

#[tokio::test]
async fn names_of_tenants_and_rooms_do_not_run_together() {
    let server = TestServer::start().await;
    let places = [("a", "b/c"), ("a/b", "c"), ("a", "b"), ("ab", "c")];
    for (tenant, room) in places {
        let path = format!("/api/documents/{}/lock", room.replace('/', "%2F"));
        assert_eq!(server.editor_of(tenant, "alice").post(&path, json!({})).await.ok()["fencing_token"], 1);
    }
}

#[tokio::test]
async fn limits_are_counted_per_tenant() {
    let server = TestServer::configured(|settings| {
        settings.limits.locks_per_owner = 1;
        settings.limits.requests_per_second = 2;
    })
    .await;
    for tenant in ["one", "two"] {
        let alice = server.caller(Claims { tenant: Some(tenant.to_owned()), ..claims("alice", Role::Editor) });
        alice.post(LOCK, json!({})).await.ok();
        alice.post("/api/documents/other/lock", json!({})).await.problem(429, "LIMIT_REACHED");
        alice.json(Method::GET, LOCK, json!({})).await.problem(429, "RATE_LIMITED");
    }
}
