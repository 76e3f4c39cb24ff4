//! Limits per owner, and what browsers are allowed.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Caller, TestServer};

const LOCK: &str = "/api/documents/room/lock";

#[tokio::test]
async fn requests_over_the_rate_are_told_when_to_come_back() {
    let server = TestServer::configured(|settings| settings.limits.requests_per_second = 4).await;
    let alice = server.editor("alice");
    for _ in 0..4 {
        alice.get(LOCK).await.ok();
    }
    let answer = alice.post(LOCK, json!({})).await;
    assert_eq!(answer.headers["retry-after"], "1");
    let problem = answer.problem(429, "RATE_LIMITED");
    assert_eq!((&problem["retry_after_ms"], &problem["retryable"]), (&json!(250), &json!(true)));
    server.editor("bob").get(LOCK).await.ok();
    server.pass(Duration::from_millis(249)).await;
    alice.get(LOCK).await.problem(429, "RATE_LIMITED");
    server.pass(Duration::from_millis(1)).await;
    alice.get(LOCK).await.ok();
    alice.get(LOCK).await.problem(429, "RATE_LIMITED");
    // However long one was quiet, a second's worth is all one has saved.
    server.pass_seconds(10).await;
    for _ in 0..4 {
        alice.get(LOCK).await.ok();
    }
    alice.get(LOCK).await.problem(429, "RATE_LIMITED");
    assert_eq!(server.bearing(None).get("/healthz").await.status, 200);
}

#[tokio::test]
async fn an_owner_holds_no_more_locks_than_allowed() {
    let server = TestServer::configured(|settings| settings.limits.locks_per_owner = 2).await;
    let alice = server.editor("alice");
    let path = |document: &str| format!("/api/documents/room/{document}/lock");
    alice.post(&path("a"), json!({"session_id": "tab"})).await.ok();
    alice.post(&path("b"), json!({})).await.ok();
    let problem = alice.post(&path("c"), json!({})).await.problem(429, "LIMIT_REACHED");
    assert_eq!((&problem["limit"], &problem["retryable"]), (&json!(2), &json!(true)));
    assert_eq!(alice.get(&path("c")).await.ok()["last_token"], 0);
    // What one has may be kept, resumed and taken over from oneself.
    alice.post(&path("a"), json!({"session_id": "tab"})).await.ok();
    alice.post(&path("a"), json!({"session_id": "new", "takeover": true})).await.ok();
    server.editor("bob").post(&path("c"), json!({})).await.ok();
    server.editor("bob").delete(&path("c"), json!({})).await.ok();
    alice.delete(&path("b"), json!({})).await.ok();
    // All or nothing counts them together.
    let many = json!({"documents": ["c", "d"]});
    alice.post("/api/rooms/room/locks", many).await.problem(429, "LIMIT_REACHED");
    alice.post(&path("c"), json!({})).await.ok();
    alice.post(&path("d"), json!({})).await.problem(429, "LIMIT_REACHED");
    let server = server.restart().await;
    let alice = server.editor("alice");
    alice.post(&path("d"), json!({})).await.problem(429, "LIMIT_REACHED");
    server.pass_seconds(30).await;
    server.sweep().await;
    alice.post(&path("d"), json!({})).await.ok();
}

async fn from_page(caller: &Caller, method: Method, path: &str, origin: &str) -> Answer {
    Answer::of(caller.request(method, path).header("origin", origin)).await
}

async fn preflight(server: &TestServer, origin: &str, headers: &str) -> Answer {
    let request = server.bearing(None).request(Method::OPTIONS, LOCK).header("origin", origin);
    let request = request.header("access-control-request-method", "PUT");
    Answer::of(request.header("access-control-request-headers", headers)).await
}

const PAGE: &str = "http://localhost:5173";
const FOREIGN: &str = "https://evil.example";
const ALLOW_ORIGIN: &str = "access-control-allow-origin";

#[tokio::test]
async fn a_preflight_needs_no_token() {
    let server = TestServer::start().await;
    let answer = preflight(&server, PAGE, "authorization, content-type, idempotency-key").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers[ALLOW_ORIGIN], PAGE);
    let allowed = answer.headers["access-control-allow-headers"].to_str().unwrap().to_lowercase();
    for header in ["authorization", "content-type", "idempotency-key"] {
        assert!(allowed.contains(header), "{header} in {allowed}");
    }
    let methods = answer.headers["access-control-allow-methods"].to_str().unwrap().to_owned();
    for method in ["GET", "POST", "PUT", "DELETE"] {
        assert!(methods.contains(method), "{method} in {methods}");
    }
    let other = preflight(&server, PAGE, "x-other").await;
    assert!(other.status >= 400 || !other.headers.contains_key(ALLOW_ORIGIN), "{other:?}");
}

#[tokio::test]
async fn pages_of_allowed_origins_read_answers_and_errors() {
    let server = TestServer::start().await;
    let (alice, stranger) = (server.editor("alice"), server.bearing(None));
    for (caller, method, path, status) in [
        (&alice, Method::POST, LOCK, 200),
        (&alice, Method::POST, LOCK, 409),
        (&stranger, Method::GET, LOCK, 401),
        (&alice, Method::GET, "/api/admin/locks", 403),
        (&alice, Method::GET, "/nowhere", 404),
        (&alice, Method::PATCH, LOCK, 405),
    ] {
        let answer = from_page(caller, method, path, PAGE).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.headers[ALLOW_ORIGIN], PAGE, "{path}: {status}");
        assert!(answer.body["server_time"].is_string());
    }
}

#[tokio::test]
async fn pages_of_foreign_origins_may_not_read_answers() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    for origin in [FOREIGN, "http://localhost.evil.example", "null"] {
        assert!(!preflight(&server, origin, "authorization").await.headers.contains_key(ALLOW_ORIGIN), "{origin}");
        for path in [LOCK, "/healthz", "/nowhere"] {
            let answer = from_page(&alice, Method::GET, path, origin).await;
            assert!(!answer.headers.contains_key(ALLOW_ORIGIN), "{origin} {path}");
        }
    }
}

#[tokio::test]
async fn configured_origins_are_the_only_ones_allowed() {
    let server =
        TestServer::configured(|settings| settings.server.allowed_origins = vec!["https://app.example".to_owned()])
            .await;
    let alice = server.editor("alice");
    let answer = from_page(&alice, Method::GET, LOCK, "https://app.example").await;
    assert_eq!(answer.headers[ALLOW_ORIGIN], "https://app.example");
    for origin in [PAGE, FOREIGN, "https://app.example.evil.example", "http://app.example"] {
        let answer = from_page(&alice, Method::GET, LOCK, origin).await;
        assert!(!answer.headers.contains_key(ALLOW_ORIGIN), "{origin}");
    }
}
