//! Databases that earlier versions have made are served on: `first_version/*.sql` and `second_version/*.sql` are dumps of them.

use serde_json::json;

use crate::support::{TestServer, reasons};

fn path(document: &str) -> String {
    format!("/api/documents/room/{document}/lock")
}

#[tokio::test]
async fn locks_tokens_versions_and_ids_of_the_first_version_are_kept() {
    let server = TestServer::on_dump(crate::FIRST_VERSION).await;
    everything_is_kept(&server).await;
    server.pass_seconds(300).await;
    server.sweep().await;
    assert_eq!(server.locks().await.len(), 0);
}

#[tokio::test]
async fn what_the_second_version_kept_is_kept_and_people_can_wait_for_it() {
    let server = TestServer::on_dump(crate::SECOND_VERSION).await;
    everything_is_kept(&server).await;
    let alice = server.editor("alice");
    let kept = alice.get(&path("kept")).await.ok()["lock"].clone();
    assert_eq!((&kept["holder"]["kind"], &kept["activity"]), (&json!("person"), &json!("active")));
    let bob = server.editor("bob");
    let kept_path = path("kept");
    let waiting = bob.post(&kept_path, json!({"session_id": "b", "wait_ms": 500}));
    let time_goes_on = async {
        while alice.get(&path("kept")).await.ok()["waiting"] != 1 {}
        server.pass_seconds(1).await;
    };
    let (waited, ()) = tokio::join!(waiting, time_goes_on);
    assert_eq!(waited.problem(409, "LOCK_HELD")["position"], 1);
    alice.delete(&path("kept"), json!({"session_id": "tab"})).await.ok();
    assert_eq!(alice.get(&path("kept")).await.ok()["lock"]["holder"]["owner_id"], "bob");
    server.pass_seconds(300).await;
    server.sweep().await;
    assert_eq!(server.locks().await.len(), 0);
}

async fn everything_is_kept(server: &TestServer) {
    let (alice, bob) = (server.editor("alice"), server.editor("bob"));
    let kept = alice.get(&path("kept")).await.ok()["lock"].clone();
    assert_eq!(kept["holder"]["session_id"], "tab");
    assert_eq!(kept["metadata"], json!({"cursor": "\u{0} \"quoted\""}));
    assert_eq!(kept["expires_in_ms"], 300_000, "a minute was an outage");
    bob.post(&path("kept"), json!({})).await.problem(409, "LOCK_HELD");

    let beat = json!({"session_id": "tab", "request_id": "beat-1"});
    server.pass_seconds(1).await;
    assert_eq!(alice.put(&path("kept"), beat.clone()).await.ok()["expires_at"], kept["expires_at"]);
    alice.put(&path("left"), beat).await.problem(422, "REQUEST_ID_REUSED");
    let wish = json!({"session_id": "tab", "ttl_seconds": 300, "metadata": kept["metadata"], "request_id": "lock-1"});
    assert_eq!(alice.post(&path("kept"), wish).await.ok()["lease_id"], kept["lease_id"]);

    assert_eq!(server.editor("carol").post(&path("shared"), json!({})).await.status, 409, "both slots are taken");
    let next = bob.post(&path("left"), json!({})).await.ok();
    assert_eq!((&next["fencing_token"], &next["document_version"]), (&json!(2), &json!("v7")));
    bob.put(&path("expired"), json!({})).await.problem(409, "LEASE_EXPIRED");
    alice.put(&path("left"), json!({})).await.problem(403, "NOT_OWNER");
    assert_eq!(reasons(&server.events().await), ["released", "expired"]);
}
