//! What those who run the server see: health, metrics, the description of the API and its page.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;

use crate::support::TestServer;

const LOCK: &str = "/api/documents/room/lock";

#[tokio::test]
async fn healthz_and_readyz_are_open_to_all() {
    let server = TestServer::start().await;
    let stranger = server.bearing(None);
    assert_eq!(stranger.get("/healthz").await.ok()["status"], "ok");
    assert_eq!(stranger.get("/readyz").await.ok()["status"], "ready");
}

#[tokio::test]
async fn readyz_says_when_the_database_has_not_been_reached() {
    let server = TestServer::start().await;
    let stranger = server.bearing(None);
    server.clock.advance(Duration::from_secs(3));
    stranger.get("/readyz").await.ok();
    server.clock.advance(Duration::from_millis(1));
    stranger.get("/readyz").await.problem(503, "OUTCOME_UNKNOWN");
    stranger.get("/healthz").await.ok();
}

#[tokio::test]
async fn metrics_show_what_the_contract_names() {
    let server = TestServer::start().await;
    let stranger = server.bearing(None);
    server.editor("alice").post(LOCK, json!({})).await.ok();
    server.editor("bob").post(LOCK, json!({})).await.problem(409, "LOCK_HELD");
    stranger.get("/some/path/nobody/made").await.problem(404, "NOT_FOUND");
    let answer = stranger.get("/metrics").await;
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    let text = answer.body.as_str().unwrap().to_owned();
    let lines: Vec<_> = text.lines().collect();
    let route = r#"route="/api/documents/{room}/lock""#;
    for line in [
        "doclock_locks 1",
        "doclock_events_total 1",
        "doclock_queue_depth 0",
        &format!(r#"doclock_http_requests_total{{method="POST",{route},status="200"}} 1"#),
        &format!(r#"doclock_http_requests_total{{method="POST",{route},status="409"}} 1"#),
        r#"doclock_http_requests_total{method="GET",route="unmatched",status="404"} 1"#,
    ] {
        assert!(lines.contains(&line), "{line} in\n{text}");
    }
    for histogram in ["doclock_commit_seconds", "doclock_commit_batch_size", "doclock_http_request_seconds"] {
        assert!(text.contains(&format!("{histogram}_count")), "{histogram}");
    }
    assert!(lines.iter().all(|line| line.starts_with('#') || line.starts_with("doclock_")), "{text}");
    assert!(!text.contains("nobody"), "paths that clients invent are no labels");
}

#[tokio::test]
async fn metrics_may_be_for_admins_only() {
    let server = TestServer::configured(|settings| settings.server.public_metrics = false).await;
    server.bearing(None).get("/metrics").await.problem(401, "TOKEN_MISSING");
    server.editor("alice").get("/metrics").await.problem(403, "ROLE_FORBIDS");
    assert_eq!(server.admin().get("/metrics").await.status, 200);
}

#[tokio::test]
async fn the_description_lists_both_families_of_paths_and_every_call() {
    let server = TestServer::start().await;
    let description = server.bearing(None).get("/openapi.json").await.ok();
    assert!(description["openapi"].as_str().unwrap().starts_with("3."));
    let paths = description["paths"].as_object().unwrap();
    let verbs = |path: &str| -> BTreeSet<&str> {
        let verbs = paths.get(path).unwrap_or_else(|| panic!("{path} is not described")).as_object().unwrap();
        let methods = ["get", "put", "post", "delete"];
        verbs.keys().map(String::as_str).filter(|key| methods.contains(key)).collect()
    };
    for family in ["/api/documents/{room}", "/api/documents/{room}/{document}"] {
        assert_eq!(verbs(&format!("{family}/lock")), BTreeSet::from(["get", "put", "post", "delete"]));
        assert_eq!(verbs(&format!("{family}/lock/release")), BTreeSet::from(["post"]));
        assert_eq!(verbs(&format!("{family}/lock/verify")), BTreeSet::from(["post"]));
    }
    assert_eq!(verbs("/api/rooms/{room}/locks"), BTreeSet::from(["get", "put", "post", "delete"]));
    assert_eq!(verbs("/api/admin/locks"), BTreeSet::from(["get"]));
    assert_eq!(verbs("/api/admin/locks/{lease_id}"), BTreeSet::from(["delete"]));
    assert_eq!(verbs("/api/admin/locks/unlock"), BTreeSet::from(["post"]));
    assert_eq!(verbs("/api/admin/events"), BTreeSet::from(["get"]));
    assert_eq!(verbs("/api/admin/stats"), BTreeSet::from(["get"]));
}

#[tokio::test]
async fn the_page_to_try_it_is_served() {
    let server = TestServer::start().await;
    let stranger = server.bearing(None);
    for (path, kind) in [
        ("/docs/", "text/html"),
        ("/docs", "text/html"),
        ("/", "text/html"),
        ("/docs/swagger-initializer.js", "text/javascript"),
    ] {
        let answer = stranger.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with(kind), "{path}");
    }
    stranger.get("/docs/../../Cargo.toml").await.problem(404, "NOT_FOUND");
    stranger.get("/docs/none.js").await.problem(404, "NOT_FOUND");
}
