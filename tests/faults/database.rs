//! The database is locked, away, or broken.

use std::{fs, path::PathBuf, time::Duration};

use serde_json::Value;

use crate::{
    caller::{Caller, eventually},
    process::{Home, Process, write_lock},
};

const BROKEN: &[&str] = &["OUTCOME_UNKNOWN"];

async fn becomes_unavailable(caller: &Caller) {
    eventually("writes are refused", async || {
        let answer = caller.extend("kept").await;
        (!answer.is_ok()).then(|| answer.is_unavailable(BROKEN))
    })
    .await;
}

async fn resumes(process: &Process, caller: &Caller, lease_id: &Value) {
    eventually("writes are served", async || caller.extend("kept").await.is_ok().then_some(())).await;
    assert_eq!(caller.read("kept").await["lease_id"], *lease_id);
    caller.lock("new", 300).await.ok();
    assert_eq!(caller.read("new").await["fencing_token"], 1);
    assert!(process.admin().get("/readyz").await.is_ok());
    assert_eq!(process.admin().events().await.len(), 2);
}

/// A process with one lock.
async fn with_a_lock(home: &Home) -> (Process, Caller, Value) {
    let process = home.start();
    let alice = process.editor("alice");
    let lease_id = alice.lock("kept", 300).await.ok()["lease_id"].clone();
    (process, alice, lease_id)
}

fn aside(path: &PathBuf) -> PathBuf {
    path.with_added_extension("aside")
}

#[tokio::test]
async fn a_locked_database_answers_503_and_service_resumes_by_itself() {
    let home = Home::new();
    let (process, alice, lease_id) = with_a_lock(&home).await;
    let locked = write_lock(&home);
    becomes_unavailable(&alice).await;
    assert_eq!(alice.read("kept").await["lease_id"], lease_id, "reading needs no write lock");
    eventually("not ready", async || (!process.admin().get("/readyz").await.is_ok()).then_some(())).await;
    drop(locked);
    resumes(&process, &alice, &lease_id).await;
}

#[tokio::test]
async fn a_file_that_is_moved_away_and_back_is_served_again() {
    let home = Home::new();
    let (process, alice, lease_id) = with_a_lock(&home).await;
    fs::rename(home.database(), aside(&home.database())).unwrap();
    becomes_unavailable(&alice).await;
    alice.get("/api/documents/room/kept/lock").await.is_unavailable(BROKEN);
    assert!(!home.database().exists(), "an empty database must not take its place");
    fs::rename(aside(&home.database()), home.database()).unwrap();
    resumes(&process, &alice, &lease_id).await;
}

#[tokio::test]
async fn files_that_are_moved_away_and_restored_from_a_copy_are_served_again() {
    let home = Home::new();
    let (process, alice, lease_id) = with_a_lock(&home).await;
    for file in home.files() {
        fs::rename(&file, aside(&file)).unwrap();
    }
    becomes_unavailable(&alice).await;
    alice.get("/api/documents/room/kept/lock").await.is_unavailable(BROKEN);
    let [database, log, _] = home.files();
    fs::copy(aside(&log), &log).unwrap();
    fs::copy(aside(&database), aside(&log)).unwrap();
    fs::rename(aside(&log), &database).unwrap();
    resumes(&process, &alice, &lease_id).await;
}

#[tokio::test]
async fn garbage_in_place_of_the_file_answers_503_and_spoils_nothing() {
    let home = Home::new();
    let (mut process, alice, lease_id) = with_a_lock(&home).await;
    fs::rename(home.database(), aside(&home.database())).unwrap();
    fs::write(home.database(), vec![7; 100_000]).unwrap();
    becomes_unavailable(&alice).await;
    alice.get("/api/documents/room/kept/lock").await.is_unavailable(BROKEN);
    assert!(process.is_running());
    fs::rename(aside(&home.database()), home.database()).unwrap();
    resumes(&process, &alice, &lease_id).await;
}

/// What is cached or in the log can still be served; what is answered must be true, before and after.
#[tokio::test]
async fn garbage_inside_the_file_never_crashes_the_process_and_loses_nothing_that_was_answered() {
    let home = Home::new();
    let (mut process, alice, lease_id) = with_a_lock(&home).await;
    let whole = fs::read(home.database()).unwrap();
    fs::write(home.database(), vec![7; whole.len()]).unwrap();
    for _ in 0..20 {
        for answer in [alice.extend("kept").await, alice.get("/api/admin/stats").await, alice.lock("kept", 300).await] {
            if answer.status == 503 {
                answer.is_unavailable(BROKEN);
            } else {
                assert!([200, 403, 409].contains(&answer.status), "{:#}", answer.body);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(process.is_running());
    fs::write(home.database(), whole).unwrap();
    resumes(&process, &alice, &lease_id).await;
}

/// The queue holds 4096 and a batch 512: more requests than that at once, and the rest is refused at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_while_the_database_is_locked_is_refused_as_overloaded() {
    const FLOOD: usize = 5000;
    let home = Home::new();
    let (process, alice, lease_id) = with_a_lock(&home).await;
    let locked = write_lock(&home);
    let requests: Vec<_> = (0..FLOOD)
        .map(|index| {
            let alice = alice.clone();
            tokio::spawn(async move { alice.lock(&format!("flood-{index}"), 300).await })
        })
        .collect();
    eventually("some are refused", async || overloaded(&process).await).await;
    drop(locked);
    let (mut granted, mut overloaded) = (0, 0);
    for request in requests {
        let answer = request.await.unwrap();
        if answer.is_ok() {
            granted += 1;
            continue;
        }
        answer.is_unavailable(&["OVERLOADED", "OUTCOME_UNKNOWN"]);
        overloaded += usize::from(answer.body["code"] == "OVERLOADED");
    }
    assert!(overloaded > 0 && granted > 0, "{granted} granted, {overloaded} overloaded");
    assert_eq!(alice.read("kept").await["lease_id"], lease_id);
    // Nothing that was refused was done, and all that was answered is there.
    assert_eq!(process.admin().locks().await.len(), granted + 1);
}

async fn overloaded(process: &Process) -> Option<()> {
    let refused = process.log().iter().any(|line| line.contains("OVERLOADED"));
    refused.then_some(())
}
