//! SIGTERM.

use std::time::Duration;

use crate::{
    caller::eventually,
    ledger::Ledger,
    process::{Home, write_lock},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_leaves_nothing_done_without_an_answer() {
    let home = Home::new();
    let mut process = home.start();
    let mut ledger = Ledger::new()
        .load(&process, async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            process.signal("TERM");
        })
        .await;
    assert_eq!(process.wait().code(), Some(0), "{:?}", process.log());
    let process = home.start();
    ledger.check(&process).await;
    assert!(ledger.granted() > 0);
    assert!(ledger.knows_the_whole_log(), "something was done that its caller was not told");
}

#[tokio::test]
async fn requests_that_wait_for_the_database_at_sigterm_are_answered() {
    let home = Home::new();
    let mut process = home.start();
    let (waiting, editor) = (write_lock(&home), process.editor("alice"));
    let requests: Vec<_> = (0..20)
        .map(|index| {
            let editor = editor.clone();
            tokio::spawn(async move { editor.lock(&format!("document-{index}"), 300).await })
        })
        .collect();
    eventually("all of them are queued", async || {
        let metrics = process.admin().get("/metrics").await.body;
        metrics.as_str()?.lines().find(|line| line.starts_with("doclock_queue_depth "))?.ends_with(" 20").then_some(())
    })
    .await;
    process.signal("TERM");
    drop(waiting);
    for request in requests {
        request.await.unwrap().ok();
    }
    assert_eq!(process.wait().code(), Some(0), "{:?}", process.log());
    assert_eq!(home.start().admin().locks().await.len(), 20);
}

#[tokio::test]
async fn a_stopping_server_is_not_ready() {
    let home = Home::new();
    let mut process = home.start();
    let (waiting, editor, admin) = (write_lock(&home), process.editor("alice"), process.admin());
    assert!(admin.get("/readyz").await.is_ok());
    let request = tokio::spawn(async move { editor.lock("document", 300).await });
    process.signal("TERM");
    // Over the connection it has, or not at all: a listener that is gone says the same.
    eventually("not ready", async || {
        match admin.try_send(reqwest::Method::GET, "/readyz", &serde_json::Value::Null).await {
            Some(answer) if answer.is_ok() => None,
            Some(answer) => Some(answer.is_unavailable(&["DRAINING"])),
            None => Some(()),
        }
    })
    .await;
    drop(waiting);
    request.await.unwrap().ok();
    assert_eq!(process.wait().code(), Some(0));
}
