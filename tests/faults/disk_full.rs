//! The disk is full: the write-ahead log cannot grow.

use crate::{
    caller::eventually,
    process::{Home, size},
};

#[tokio::test]
async fn a_full_disk_answers_503_does_nothing_half_and_service_resumes_by_itself() {
    let home = Home::new().ignoring_file_limit();
    let process = home.start();
    let (alice, admin) = (process.editor("alice"), process.admin());
    let mut answered = Vec::new();
    for index in 0..20 {
        answered.push(alice.lock(&format!("before-{index}"), 300).await.ok()["lease_id"].clone());
    }

    let [database, log, _] = home.files();
    process.limit_file_size(Some(size(&database).max(size(&log)) + 20_000));
    let mut refused = 0;
    for index in 0..60 {
        let answer = alice.lock(&format!("full-{index}"), 300).await;
        if answer.is_ok() {
            answered.push(answer.body["lease_id"].clone());
        } else {
            answer.is_unavailable(&["OUTCOME_UNKNOWN", "OVERLOADED"]);
            refused += 1;
        }
    }
    assert!(refused > 0, "the disk was never full");
    // Reading needs no room.
    assert_eq!(alice.read("before-0").await["lease_id"], answered[0]);
    eventually("not ready", async || (!admin.get("/readyz").await.is_ok()).then_some(())).await;

    process.limit_file_size(None);
    eventually("service resumes", async || alice.lock("after", 300).await.is_ok().then_some(())).await;
    assert!(admin.get("/readyz").await.is_ok());
    whole(&home, &admin, &answered).await;
    process.stop();
    whole(&home, &home.start().admin(), &answered).await;
}

/// Checks that every answered lock is there, and each lock has exactly one event.
async fn whole(home: &Home, admin: &crate::caller::Caller, answered: &[serde_json::Value]) {
    let (locks, events) = (admin.locks().await, admin.events().await);
    for lease_id in answered {
        assert!(locks.iter().any(|lock| lock["lease_id"] == *lease_id), "{lease_id} is lost");
    }
    assert_eq!(locks.len(), events.len());
    for (expected, event) in (1_i64..).zip(&events) {
        assert_eq!(event["sequence"], expected);
        assert!(locks.iter().any(|lock| lock["lease_id"] == event["lease_id"]), "{event:#}");
    }
    let found: String = rusqlite::Connection::open(home.database())
        .unwrap()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(found, "ok");
}
