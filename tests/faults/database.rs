//! The database is locked, away, or broken.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::task::JoinSet;

use crate::{
    caller::{Caller, eventually},
    process::{Home, Process, run, write_lock},
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

fn aside(path: &Path) -> PathBuf {
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

/// The server may still serve what is cached or in the log, but every answer must be true, before and after.
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

/// The queue holds 4096 commands and a batch 512. With more callers than that, who all try again when the database did
/// not answer, the queue is full at some time, and the next one is refused at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_while_the_database_is_locked_is_refused_as_overloaded() {
    const FLOOD: usize = 5000;
    // For its connections, here and, inherited, in the process; many systems give 1024 unless asked.
    run("prlimit", &["--pid", &std::process::id().to_string(), "--nofile=12000:"]);
    let home = Home::new();
    let (process, alice, lease_id) = with_a_lock(&home).await;
    let locked = write_lock(&home);
    let is_full = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for index in 0..FLOOD {
        callers.spawn(lock_until(alice.clone(), format!("flood-{index}"), Arc::clone(&is_full)));
    }
    eventually("the queue is full", async || is_full.load(Ordering::Acquire).then_some(())).await;
    drop(locked);
    let granted = callers.join_all().await.into_iter().filter(|granted| *granted).count();
    eventually("writes are served", async || alice.extend("kept").await.is_ok().then_some(())).await;
    assert_eq!(alice.read("kept").await["lease_id"], lease_id);
    // Nothing that was refused was done, and all that was answered is there.
    assert_eq!(process.admin().locks().await.len(), granted + 1);
}

/// Returns whether the lock was granted before any caller found the queue full.
async fn lock_until(caller: Caller, document: String, is_full: Arc<AtomicBool>) -> bool {
    loop {
        let answer = caller.lock(&document, 300).await;
        if answer.is_ok() {
            return true;
        }
        answer.is_unavailable(&["OVERLOADED", "OUTCOME_UNKNOWN"]);
        if answer.body["code"] == "OVERLOADED" {
            is_full.store(true, Ordering::Release);
        }
        if is_full.load(Ordering::Acquire) {
            return false;
        }
    }
}
