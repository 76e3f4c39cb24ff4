//! What is logged, and what never is.

use serde_json::{Value, json};

use crate::{
    caller::{Caller, lock_path},
    process::Home,
};

#[tokio::test]
async fn logs_are_json_lines_with_request_ids_and_never_a_token() {
    let home =
        Home::with_own_secret().set("DOCLOCK_LOG__LEVEL", "trace,hyper=trace").set("DOCLOCK_LOG__FORMAT", "json");
    let (_, token, _) = home.run(&["token", "--sub", "alice", "--role", "editor"]);
    let token = token.trim().to_owned();
    let mut process = home.start();
    let alice = Caller::new(&process.base, token.clone());
    alice.lock("document", 30).await.ok();
    let in_body = json!({ "access_token": token, "lease_id": alice.read("document").await["lease_id"], "hold": 1 });
    let release = format!("{}/release", lock_path("document"));
    alice.send(reqwest::Method::POST, &release, in_body).await.ok();
    let forged = format!("{token}x");
    assert_eq!(Caller::new(&process.base, forged.clone()).get("/api/admin/locks").await.status, 401);
    assert_eq!(alice.get(&format!("/nowhere?access_token={token}")).await.status, 404);
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));

    let secret = std::fs::read_to_string(home.path().join("data/doclock.secret")).unwrap();
    let signature = token.rsplit('.').next().unwrap();
    let mut requests = 0;
    for line in process.log() {
        assert!(!line.contains(signature) && !line.contains(secret.trim()), "{line}");
        let entry: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        assert!(entry["timestamp"].is_string() && entry["level"].is_string(), "{line}");
        if entry["message"] == "answered" {
            assert!(entry["request_id"].is_string() && entry["route"].is_string(), "{line}");
            requests += 1;
        }
    }
    assert_eq!(requests, 5, "{:?}", process.log());
}
