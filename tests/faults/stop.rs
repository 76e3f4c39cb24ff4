//! SIGTERM.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use crate::{
    caller::{Caller, eventually},
    ledger::Ledger,
    process::{Home, write_lock},
};

const QUEUED: &str = "doclock_queue_depth";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_done_before_sigterm_is_answered() {
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
    const REQUESTS: usize = 20;
    let home = Home::new();
    let mut process = home.start();
    let (waiting, editor, admin) = (write_lock(&home), process.editor("alice"), process.admin());
    let lock = |index: usize| {
        let editor = editor.clone();
        tokio::spawn(async move { editor.lock(&format!("document-{index}"), 300).await })
    };
    let mut requests = vec![lock(0)];
    // Time for it to reach the committer alone would be a guess: another one follows until one has to wait.
    while admin.metric(QUEUED).await < 1 {
        requests.push(lock(requests.len()));
    }
    let busy_with = requests.len();
    requests.extend((busy_with..busy_with + REQUESTS).map(lock));
    eventually("all that came later wait", async || {
        (admin.metric(QUEUED).await >= REQUESTS || requests[0].is_finished()).then_some(())
    })
    .await;
    process.signal("TERM");
    not_ready(&admin).await;
    drop(waiting);
    let mut granted = 0;
    for request in requests {
        let answer = request.await.unwrap();
        granted += usize::from(answer.is_ok());
        if !answer.is_ok() {
            answer.is_unavailable(&["OUTCOME_UNKNOWN"]);
        }
    }
    assert_eq!(process.wait().code(), Some(0), "{:?}", process.log());
    assert_eq!(home.start().admin().locks().await.len(), granted);
}

/// Waits until the server says that it is stopping, by an answer or by refusing the connection.
async fn not_ready(admin: &Caller) {
    eventually("not ready", async || match admin.try_send(Method::GET, "/readyz", &Value::Null).await {
        Some(answer) if answer.is_ok() => None,
        Some(answer) => {
            answer.is_unavailable(&["DRAINING", "OUTCOME_UNKNOWN"]);
            Some(())
        }
        None => Some(()),
    })
    .await;
}
