//! Backup, restore, and a new epoch after it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use reqwest::Method;
use serde_json::json;

use crate::{
    caller::lock_path,
    ledger::Ledger,
    process::{Home, Process},
};

/// Restores the backup as an administrator would, leaving nothing of the old files.
fn restore(home: &Home, backup: &Path) {
    for file in home.files() {
        let _ = fs::remove_file(file);
    }
    fs::copy(backup, home.database()).unwrap();
}

fn backup(home: &Home, name: &str) -> std::path::PathBuf {
    let (code, output, error) = home.run(&["backup", name]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{output}");
    home.path().join(name)
}

/// Waits until the process has ended by itself, with the exit code that says not to start it again.
fn last_words(process: &mut Process) -> String {
    assert_eq!(process.wait().code(), Some(65), "{:?}", process.log());
    process.log().into_iter().find(|line| line.starts_with("doclock: ")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_whole_and_loses_nothing_answered_before_it() {
    let home = Home::new();
    let process = home.start();
    let before = process.editor("alice").lock("before", 300).await.ok();
    Ledger::new().load(&process, async { drop(backup(&home, "copy.db")) }).await;
    process.stop();

    let restored = Home::new();
    fs::create_dir(restored.path().join("data")).unwrap();
    restore(&restored, &home.path().join("copy.db"));
    let process = restored.start();
    assert_eq!(process.editor("alice").read("before").await["lease_id"], before["lease_id"]);
    // A log without gap that tells the same as the lock table.
    Ledger::new().check(&process).await;
}

#[test]
fn a_backup_writes_over_nothing_and_needs_a_database() {
    let home = Home::new();
    let (code, _, error) = home.run(&["backup", "copy.db"]);
    assert_eq!((code, error.as_str()), (Some(1), "doclock: there is no database data/doclock.db\n"));
    home.start().stop();
    let copy = backup(&home, "copy.db");
    assert_eq!(fs::metadata(copy).unwrap().permissions().mode() & 0o777, 0o600);
    let (code, _, error) = home.run(&["backup", "copy.db"]);
    assert_eq!((code, error.as_str()), (Some(1), "doclock: copy.db exists already\n"));
    let (code, _, error) = home.run(&["backup", "nowhere/copy.db"]);
    assert!(code == Some(1) && error.lines().count() == 1, "{error}");
}

#[tokio::test]
async fn a_new_epoch_after_a_restore_ends_all_locks_and_repeats_no_token() {
    let home = Home::new();
    let process = home.start();
    let alice = process.editor("alice");
    let kept = alice.lock("kept", 300).await.ok();
    let copy = backup(&home, "copy.db");
    // Granted after the backup, so that the restored database knows nothing of it.
    let lost = alice.lock("lost", 300).await.ok()["fencing_token"].as_i64().unwrap();
    let epoch = process.admin().get("/api/admin/events").await.ok()["epoch"].clone();
    let (code, _, error) = home.run(&["new-epoch"]);
    assert_eq!((code, error.contains("is in use by another doclock")), (Some(1), true), "{error}");
    process.stop();

    restore(&home, &copy);
    let (code, output, error) = home.run(&["new-epoch"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(output.contains("1 locks ended"), "{output}");
    let process = home.start();
    let (alice, admin) = (process.editor("alice"), process.admin());
    assert_eq!(admin.locks().await.len(), 0);
    let named = json!({ "lease_id": kept["lease_id"] });
    assert_eq!(alice.send(Method::PUT, &lock_path("kept"), named).await.body["code"], "LEASE_REVOKED");
    assert_ne!(admin.get("/api/admin/events").await.ok()["epoch"], epoch);
    let events = admin.events().await;
    let last = events.last().unwrap();
    assert_eq!(
        (&last["sequence"], &last["reason"], &last["note"]),
        (&json!(2), &json!("revoked"), &json!("new epoch"))
    );
    for document in ["kept", "lost"] {
        let token = alice.lock(document, 300).await.ok()["fencing_token"].as_i64().unwrap();
        assert!(token > lost + 1000, "{document}: {token}");
    }
}

#[tokio::test]
async fn a_server_whose_database_is_put_back_in_time_stops_and_says_why() {
    let home = Home::new();
    let mut process = home.start();
    let alice = process.editor("alice");
    alice.lock("one", 300).await.ok();
    let copy = backup(&home, "copy.db");
    alice.lock("two", 300).await.ok();
    restore(&home, &copy);
    let line = last_words(&mut process);
    assert!(line.contains("but this server has seen") && line.contains("doclock new-epoch"), "{line}");
}

#[test]
fn a_new_epoch_needs_a_database() {
    let home = Home::new();
    let (code, _, error) = home.run(&["new-epoch"]);
    assert_eq!((code, error.as_str()), (Some(1), "doclock: there is no database data/doclock.db\n"));
    assert!(!home.database().exists());
}

/// The log is as long as before, but has another event in the place of one that this server has seen.
#[tokio::test]
async fn a_server_whose_database_was_put_back_and_has_grown_again_stops() {
    let (home, elsewhere) = (Home::new(), Home::new());
    let mut process = home.start();
    process.editor("alice").lock("one", 300).await.ok();
    let copy = backup(&home, "copy.db");
    process.editor("alice").lock("two", 300).await.ok();
    fs::create_dir(elsewhere.path().join("data")).unwrap();
    restore(&elsewhere, &copy);
    let other = elsewhere.start();
    other.editor("bob").lock("two", 300).await.ok();
    let grown = backup(&elsewhere, "grown.db");
    restore(&home, &grown);
    let line = last_words(&mut process);
    assert!(line.contains("with another event there") && line.contains("doclock new-epoch"), "{line}");
}
