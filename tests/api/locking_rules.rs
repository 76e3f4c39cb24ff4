//! SPEC section 2: one test per rule.

use serde_json::json;

use crate::support::TestServer;

const LOCK: &str = "/api/documents/room/lock";

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
