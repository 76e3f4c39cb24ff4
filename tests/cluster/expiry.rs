//! Thousands of locks that end at the same moment, met by several servers at once.

use std::collections::HashSet;

use crate::{caller::eventually, grace::locks, postgres::new_database, servers::Servers};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ls_exp_001_ten_thousand_locks_that_expire_together_are_announced_once_each_by_two_servers() {
    const LOCKS: usize = 10_000;
    let servers = Servers::start(new_database(), 2);
    servers.sql(&locks(LOCKS, 2, 1000)).await;
    let admin = servers.processes[0].admin();
    eventually("all have ended", async || {
        let page = admin.get("/api/admin/locks?room=many&limit=1").await.ok();
        (page["total"] == 0 && admin.events().await.len() >= LOCKS).then_some(())
    })
    .await;
    let events = admin.events().await;
    assert_eq!(events.len(), LOCKS);
    assert!(events.iter().all(|event| event["reason"] == "expired"));
    let documents: HashSet<_> = events.iter().map(|event| event["document"].as_str().unwrap()).collect();
    assert_eq!(documents.len(), LOCKS, "none was told twice");
}
