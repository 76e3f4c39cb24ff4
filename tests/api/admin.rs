//! `/api/admin/…`: the lock table, force-unlock on the record, the audit trail, figures.

use doclock::auth::{Claims, Role};
use serde_json::{Value, json};

use crate::support::{TestServer, claims, reasons};

const LOCKS: &str = "/api/admin/locks";
const EVENTS: &str = "/api/admin/events";

/// alice and bob in rooms `a` and `b`, on documents `main` and `x`.
async fn inhabited() -> TestServer {
    let server = TestServer::start().await;
    for (owner, room, document) in
        [("alice", "a", "main"), ("alice", "a", "x"), ("bob", "b", "main"), ("alice", "b", "x"), ("bob", "a", "y")]
    {
        let path = format!("/api/documents/{room}/{document}/lock");
        server.editor(owner).post(&path, json!({"session_id": "tab"})).await.ok();
    }
    server
}

fn names(items: &Value) -> Vec<String> {
    let name = |item: &Value| format!("{}/{}", item["room"].as_str().unwrap(), item["document"].as_str().unwrap());
    items.as_array().unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn the_lock_table_is_filtered_and_paged_with_a_total() {
    let server = inhabited().await;
    let root = server.admin();
    for (query, expected) in [
        ("", vec!["a/main", "a/x", "a/y", "b/main", "b/x"]),
        ("?room=a", vec!["a/main", "a/x", "a/y"]),
        ("?owner=bob", vec!["a/y", "b/main"]),
        ("?document=x", vec!["a/x", "b/x"]),
        ("?room=b&owner=alice", vec!["b/x"]),
        ("?room=b&owner=alice&document=main", vec![]),
        ("?room=A", vec![]),
    ] {
        let table = root.get(&format!("{LOCKS}{query}")).await.ok();
        assert_eq!(names(&table["items"]), expected, "{query}");
        assert_eq!(table["total"], expected.len(), "{query}");
        assert_eq!(table["next_cursor"], json!(null), "{query}");
    }
    let first = root.get(&format!("{LOCKS}?owner=alice&limit=2")).await.ok();
    assert_eq!((names(&first["items"]), &first["total"]), (vec!["a/main".to_owned(), "a/x".to_owned()], &json!(3)));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = root.get(&format!("{LOCKS}?owner=alice&limit=2&cursor={cursor}")).await.ok();
    assert_eq!((names(&second["items"]), &second["total"]), (vec!["b/x".to_owned()], &json!(3)));
    assert_eq!(second["next_cursor"], json!(null));
    assert_eq!(
        second["items"][0]["holder"],
        json!({"owner_id": "alice", "session_id": "tab", "name": null, "kind": "person"})
    );
    server.pass_seconds(30).await;
    assert_eq!(root.get(LOCKS).await.ok()["total"], 0, "overdue ones do not count, swept or not");
    root.get(&format!("{LOCKS}?who=alice")).await.problem(422, "UNKNOWN_FIELD");
    root.get(&format!("{LOCKS}?limit=0")).await.problem(422, "INVALID_FIELD");
}

#[tokio::test]
async fn a_force_unlock_of_one_lock_is_audited() {
    let server = inhabited().await;
    let root = server.admin();
    let lock = root.get(&format!("{LOCKS}?room=b&owner=bob")).await.ok()["items"][0].clone();
    let path = format!("{LOCKS}/{}", lock["lease_id"].as_str().unwrap());
    let ended = root.delete(&path, json!({"reason": "left for lunch"})).await.ok();
    assert_eq!((&ended["released"], &ended["fencing_token"]), (&json!(true), &json!(1)));
    let event = server.events().await.pop().unwrap();
    let expected = json!({
        "type": "DocumentUnlocked", "reason": "revoked", "by": "root", "note": "left for lunch", "owner_id": "bob",
        "room": "b", "document": "main", "lease_id": lock["lease_id"], "fencing_token": 1, "session_id": "tab",
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&event[field], value, "{field}");
    }
    root.delete(&path, json!({})).await.problem(404, "LOCK_NOT_FOUND");
    root.delete(&format!("{LOCKS}/nonsense"), json!({})).await.problem(422, "INVALID_FIELD");
    for reason in ["x".repeat(501), "a\nb".to_owned()] {
        root.delete(&path, json!({"reason": reason})).await.problem(422, "INVALID_FIELD");
    }
}

#[tokio::test]
async fn an_overdue_lock_cannot_be_ended_again() {
    let server = inhabited().await;
    let lease = server.locks().await[0]["lease_id"].clone();
    server.pass_seconds(30).await;
    let path = format!("{LOCKS}/{}", lease.as_str().unwrap());
    server.admin().delete(&path, json!({})).await.problem(404, "LOCK_NOT_FOUND");
    server.sweep().await;
    assert_eq!(reasons(&server.events().await), ["expired"; 5]);
}

#[tokio::test]
async fn a_force_unlock_of_all_that_match_is_audited() {
    let server = inhabited().await;
    let root = server.admin();
    let unlock = format!("{LOCKS}/unlock");
    let body = json!({"filter": {"owner": "alice", "room": "a"}, "reason": "moving house"});
    assert_eq!(root.post(&unlock, body.clone()).await.ok()["unlocked"], 2);
    assert_eq!(root.post(&unlock, body).await.ok()["unlocked"], 0);
    assert_eq!(names(&json!(server.locks().await)), ["a/y", "b/main", "b/x"]);
    for event in &server.events().await[5..] {
        assert_eq!((&event["reason"], &event["by"]), (&json!("revoked"), &json!("root")));
        assert_eq!((&event["note"], &event["owner_id"]), (&json!("moving house"), &json!("alice")));
    }
    for body in [json!({}), json!({"filter": {}}), json!({"filter": {"room": ""}}), json!({"filter": "a"})] {
        root.post(&unlock, body).await.problem(422, "INVALID_FIELD");
    }
    root.post(&unlock, json!({"filter": {"rooms": "a"}})).await.problem(422, "UNKNOWN_FIELD");
    assert_eq!(server.locks().await.len(), 3);
    assert_eq!(root.post(&unlock, json!({"filter": {"document": "x"}})).await.ok()["unlocked"], 1);
}

#[tokio::test]
async fn a_force_unlock_ends_more_locks_than_fit_one_step() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    for step in 0..3 {
        let documents: Vec<_> = (0..90).map(|number| format!("{step} {number}")).collect();
        alice.post("/api/rooms/room/locks", json!({"documents": documents})).await.ok();
    }
    let body = json!({"filter": {"owner": "alice"}});
    assert_eq!(server.admin().post(&format!("{LOCKS}/unlock"), body).await.ok()["unlocked"], 270);
    assert_eq!(server.locks().await.len(), 0);
}

#[tokio::test]
async fn the_audit_trail_is_filtered_and_read_on_from_where_one_was() {
    let server = inhabited().await;
    let root = server.admin();
    server.pass_seconds(1).await;
    server.editor("bob").delete("/api/documents/b/lock", json!({"session_id": "tab"})).await.ok();
    let sequences = async |query: &str| -> Vec<u64> {
        let page = root.get(&format!("{EVENTS}?{query}")).await.ok();
        page["items"].as_array().unwrap().iter().map(|event| event["sequence"].as_u64().unwrap()).collect()
    };
    assert_eq!(sequences("").await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(sequences("room=b").await, [3, 4, 6]);
    assert_eq!(sequences("owner=bob").await, [3, 5, 6]);
    assert_eq!(sequences("type=DocumentUnlocked").await, [6]);
    assert_eq!(sequences("type=DocumentLocked&room=b&owner=bob").await, [3]);
    assert_eq!(sequences("after=4").await, [5, 6]);
    assert_eq!(sequences("after=6").await, [0; 0]);
    let page = root.get(&format!("{EVENTS}?limit=4")).await.ok();
    assert_eq!(page["next_after"], 4);
    assert!(page["epoch"].is_string());
    let rest = root.get(&format!("{EVENTS}?limit=4&after=4")).await.ok();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_after"]), (2, &json!(null)));
    assert_eq!(rest["epoch"], page["epoch"]);
    let end = &rest["items"][1];
    assert_eq!((&end["reason"], &end["by"], &end["held_ms"]), (&json!("released"), &json!("bob"), &json!(1000)));
    for query in ["type=Nonsense", "after=-1", "after=x", "limit=1001"] {
        root.get(&format!("{EVENTS}?{query}")).await.problem(422, "INVALID_FIELD");
    }
    root.get(&format!("{EVENTS}?colour=x")).await.problem(422, "UNKNOWN_FIELD");
}

#[tokio::test]
async fn the_log_keeps_its_epoch_and_goes_on_over_a_restart() {
    let server = inhabited().await;
    let epoch = server.admin().get(EVENTS).await.ok()["epoch"].clone();
    let server = server.restart().await;
    server.editor("carol").post("/api/documents/c/lock", json!({})).await.ok();
    let page = server.admin().get(&format!("{EVENTS}?after=5")).await.ok();
    assert_eq!((&page["epoch"], &page["items"][0]["sequence"]), (&epoch, &json!(6)));
}

#[tokio::test]
async fn events_are_kept_for_their_retention_and_pruned_by_the_sweep() {
    let server = TestServer::configured(|settings| settings.events.retention_days = 1).await;
    server.editor("alice").post("/api/documents/a/lock", json!({})).await.ok();
    server.editor("alice").delete("/api/documents/a/lock", json!({})).await.ok();
    server.skip_hours(23).await;
    server.editor("alice").post("/api/documents/b/lock", json!({})).await.ok();
    server.sweep().await;
    assert_eq!(server.events().await.len(), 3);
    server.skip_hours(1).await;
    server.sweep().await;
    let events = server.events().await;
    assert!(events.iter().all(|event| event["room"] == "b"), "{events:?}");
    assert_eq!(events[0]["sequence"], 3, "numbers are not used again");
}

#[tokio::test]
async fn stats_tell_how_busy_it_is_and_where() {
    let server = TestServer::start().await;
    let (alice, bob, root) = (server.editor("alice"), server.editor("bob"), server.admin());
    alice.post("/api/documents/old/lock", json!({})).await.ok();
    alice.delete("/api/documents/old/lock", json!({})).await.ok();
    server.skip_hours(2).await;
    let hot = "/api/documents/hot/lock";
    for seconds in [1, 3, 9] {
        alice.post(hot, json!({})).await.ok();
        bob.post(hot, json!({})).await.problem(409, "LOCK_HELD");
        server.pass_seconds(seconds).await;
        alice.delete(hot, json!({})).await.ok();
    }
    alice.post("/api/documents/cold/lock", json!({"ttl_seconds": 1})).await.ok();
    server.pass_seconds(1).await;
    server.sweep().await;
    alice.post("/api/documents/cold/lock", json!({})).await.ok();
    root.post("/api/documents/cold/lock", json!({"takeover": true})).await.ok();
    let stats = root.get("/api/admin/stats").await.ok();
    assert_eq!((&stats["locks"], &stats["grants"], &stats["window_seconds"]), (&json!(1), &json!(6), &json!(3600)));
    assert_eq!(stats["grants_per_minute"], 0.1);
    let ends = json!({"released": 3, "expired": 1, "taken_over": 1, "revoked": 0, "handed_over": 0});
    assert_eq!(stats["ends"], ends);
    let hold = &stats["hold_ms"];
    assert_eq!((&hold["count"], &hold["p50"], &hold["max"]), (&json!(5), &json!(1000), &json!(9000)));
    assert_eq!(stats["wait_ms"], json!({"count": 0, "p50": null, "p95": null, "max": null}));
    assert_eq!(stats["contention"]["refused"], 3);
    let elsewhere = server.caller(Claims { rooms: Some(vec!["cold".to_owned()]), ..claims("boss", Role::Admin) });
    assert_eq!(elsewhere.get("/api/admin/stats").await.ok()["contention"]["refused"], 0);
    let hottest = json!([
        {"room": "cold", "document": "main", "grants": 3, "refused": 0},
        {"room": "hot", "document": "main", "grants": 3, "refused": 3},
    ]);
    assert_eq!(stats["hottest"], hottest);
}
