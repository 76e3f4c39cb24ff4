//! `/api/rooms/{room}/locks`: a room's locks, and several at once.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, TestServer};

const ROOM: &str = "/api/rooms/room/locks";

fn documents(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["document"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_room_lists_its_live_locks_page_by_page() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    assert_eq!(alice.get(ROOM).await.ok()["items"], json!([]));
    alice.post(ROOM, json!({"documents": ["e", "c", "a", "d", "b"]})).await.ok();
    alice.post("/api/documents/elsewhere/lock", json!({})).await.ok();
    alice.post("/api/documents/room/short/lock", json!({"ttl_seconds": 1})).await.ok();
    server.pass_seconds(1).await;
    let all = alice.get(ROOM).await.ok();
    assert_eq!(documents(&all["items"]), ["a", "b", "c", "d", "e"], "overdue ones are not listed, swept or not");
    assert_eq!(all["next_cursor"], json!(null));
    let mut found = Vec::new();
    let mut path = format!("{ROOM}?limit=2");
    let mut sizes = Vec::new();
    loop {
        let page = alice.get(&path).await.ok();
        sizes.push(page["items"].as_array().unwrap().len());
        found.extend(page["items"].as_array().unwrap().clone());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("{ROOM}?limit=2&cursor={cursor}");
    }
    assert_eq!(sizes, [2, 2, 1]);
    assert_eq!(json!(found), all["items"]);
}

#[tokio::test]
async fn a_page_that_ends_with_the_list_is_the_last() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(ROOM, json!({"documents": ["a", "b"]})).await.ok();
    assert_eq!(alice.get(&format!("{ROOM}?limit=2")).await.ok()["next_cursor"], json!(null));
}

#[tokio::test]
async fn pages_are_asked_for_within_limits() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("limit=-1", "limit"),
        ("cursor=x", "cursor"),
        // ["\u0000","\u0000",1], which PostgreSQL could not even compare.
        ("cursor=WyJcdTAwMDAiLCJcdTAwMDAiLDFd", "cursor"),
    ] {
        let problem = alice.get(&format!("{ROOM}?{query}")).await.problem(422, "INVALID_FIELD");
        assert_eq!(problem["field"], field, "{query}");
    }
    alice.get(&format!("{ROOM}?page=2")).await.problem(422, "UNKNOWN_FIELD");
    alice.get(&format!("{ROOM}?limit=1000")).await.ok();
}

#[tokio::test]
async fn several_documents_are_locked_in_the_order_asked() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let body = json!({"documents": ["b", "a"], "ttl_seconds": 20, "session_id": "tab", "metadata": {"m": 1}});
    let locked = alice.post(ROOM, body).await.ok();
    assert_eq!(documents(&locked["items"]), ["b", "a"]);
    for item in locked["items"].as_array().unwrap() {
        assert_eq!((&item["expires_in_ms"], &item["metadata"]), (&json!(20_000), &json!({"m": 1})));
        assert_eq!((&item["holder"]["session_id"], &item["resumed"]), (&json!("tab"), &json!(false)));
    }
}

#[tokio::test]
async fn several_documents_are_locked_all_or_nothing() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(ROOM, json!({"documents": ["c", "e"]})).await.ok();
    let before = (server.events().await, server.locks().await);
    let problem = bob.post(ROOM, json!({"documents": ["a", "e", "b", "c"]})).await.problem(409, "LOCK_HELD");
    assert_eq!(documents(&problem["failed"]), ["e", "c"]);
    for failed in problem["failed"].as_array().unwrap() {
        assert_eq!((&failed["code"], &failed["is_you"]), (&json!("LOCK_HELD"), &json!(false)));
        assert_eq!(failed["lock"]["holder"]["owner_id"], "alice");
    }
    assert_eq!(problem["items"], json!([]));
    assert_eq!((server.events().await, server.locks().await), before);
    assert_eq!(bob.get("/api/documents/room/a/lock").await.ok()["last_token"], 0);
}

#[tokio::test]
async fn a_session_resumes_the_documents_it_has_and_locks_the_rest() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(ROOM, json!({"documents": ["a"], "session_id": "tab"})).await.ok();
    let more = alice.post(ROOM, json!({"documents": ["a", "b"], "session_id": "tab"})).await.ok();
    let seen: Vec<_> = more["items"].as_array().unwrap().iter().map(|lock| (&lock["hold"], &lock["resumed"])).collect();
    assert_eq!(seen, [(&json!(2), &json!(true)), (&json!(1), &json!(false))]);
}

#[tokio::test]
async fn heartbeats_and_unlocks_of_several_documents_succeed_or_fail_one_by_one() {
    let server = TestServer::start().await;
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    alice.post(ROOM, json!({"documents": ["a", "b"], "session_id": "tab"})).await.ok();
    bob.post("/api/documents/room/bobs/lock", json!({})).await.ok();
    server.pass_seconds(10).await;
    let ok = json!({"documents": ["a", "b"], "session_id": "tab"});
    let extended = alice.put(ROOM, ok.clone()).await.ok();
    assert!(extended["items"].as_array().unwrap().iter().all(|lock| lock["expires_in_ms"] == 30_000));
    server.pass_seconds(1).await;
    let mixed = json!({"documents": ["a", "bobs", "none"], "session_id": "tab"});
    let problem = alice.put(ROOM, mixed.clone()).await.problem(409, "LEASE_MISMATCH");
    let codes: Vec<_> = problem["failed"].as_array().unwrap().iter().map(|failed| &failed["code"]).collect();
    assert_eq!(documents(&problem["failed"]), ["bobs", "none"]);
    assert_eq!(codes, ["NOT_OWNER", "LOCK_NOT_FOUND"]);
    assert_eq!(documents(&problem["items"]), ["a"]);
    assert_eq!(problem["items"][0]["expires_in_ms"], 30_000);
    let problem = alice.delete(ROOM, mixed).await.problem(409, "LEASE_MISMATCH");
    assert_eq!((documents(&problem["items"]), documents(&problem["failed"])), (vec!["a"], vec!["bobs", "none"]));
    let problem = alice.delete(ROOM, ok).await.problem(409, "LEASE_RELEASED");
    assert_eq!((documents(&problem["items"]), documents(&problem["failed"])), (vec!["b"], vec!["a"]));
    assert_eq!(documents(&json!(server.locks().await)), ["bobs"]);
}

#[tokio::test]
async fn several_documents_are_unlocked_by_query_too() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    alice.post(ROOM, json!({"documents": ["a", "b c"]})).await.ok();
    let request = alice.request(Method::DELETE, &format!("{ROOM}?documents=a&documents=b%20c"));
    let answer = Answer::of(request).await.ok();
    assert_eq!(documents(&answer["items"]), ["a", "b c"]);
    assert!(answer["items"].as_array().unwrap().iter().all(|item| item["released"] == true));
}

#[tokio::test]
async fn a_request_names_1_to_100_different_documents() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let hundred: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    let more: Vec<_> = (0..101).map(|number| number.to_string()).collect();
    for documents in [json!([]), json!(["a", "a"]), json!(more), json!(["a", ""]), json!("a"), json!([1]), json!(null)]
    {
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let answer = alice.json(method, ROOM, json!({"documents": documents})).await;
            let problem = answer.problem(422, "INVALID_FIELD");
            assert!(problem["field"].as_str().unwrap().starts_with("documents"), "{problem}");
        }
    }
    alice.post(ROOM, json!({})).await.problem(422, "INVALID_FIELD");
    assert_eq!(server.events().await.len(), 0);
    assert_eq!(alice.post(ROOM, json!({"documents": hundred})).await.ok()["items"].as_array().unwrap().len(), 100);
}
