//! The wall clock is stepped, by libfaketime; the monotonic clock goes on.

use std::{fs, process::Command};

use crate::{
    caller::{Caller, eventually},
    process::Home,
};

/// A home whose wall clock is off by what [`step`] says.
fn home() -> Home {
    let home = Home::new();
    let file = home.path().join("offset").display().to_string();
    step(&home, "+0");
    home.set("LD_PRELOAD", library())
        .set("FAKETIME_TIMESTAMP_FILE", file)
        .set("FAKETIME_NO_CACHE", "1")
        .set("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .set("DONT_FAKE_MONOTONIC", "1")
}

fn step(home: &Home, offset: &str) {
    // Renamed into place: the process must never read half of it.
    let (file, new) = (home.path().join("offset"), home.path().join("offset.new"));
    fs::write(&new, format!("{offset}\n")).unwrap();
    fs::rename(new, file).unwrap();
}

/// Returns where the library is, by asking libfaketime's own program.
fn library() -> String {
    let output = Command::new("faketime").args(["-m", "-f", "+0", "env"]).env_remove("LD_PRELOAD").output();
    let output = output.unwrap_or_else(|error| panic!("faketime is needed (apt-get install faketime): {error}"));
    let text = String::from_utf8(output.stdout).unwrap();
    let library = text.lines().find_map(|line| line.strip_prefix("LD_PRELOAD="));
    library.unwrap_or_else(|| panic!("faketime does not name its library")).to_owned()
}

async fn server_time(caller: &Caller) -> String {
    caller.get("/healthz").await.ok()["server_time"].as_str().unwrap().to_owned()
}

async fn has_expired(caller: &Caller, document: &str) {
    eventually("the lock expires and is announced", async || {
        let events = caller.events().await;
        events.iter().any(|event| event["document"] == document && event["reason"] == "expired").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_stepped_wall_clock_loses_no_lock_and_freezes_none() {
    let home = home();
    let process = home.start();
    let (alice, admin) = (process.editor("alice"), process.admin());
    let lease_id = alice.lock("kept", 60).await.ok()["lease_id"].clone();
    let mut last = server_time(&alice).await;
    for (document, offset) in [("ahead", "+3600"), ("back", "-3600"), ("again", "+0")] {
        step(&home, offset);
        alice.lock(document, 1).await.ok();
        has_expired(&admin, document).await;
        assert_eq!(alice.read("kept").await["lease_id"], lease_id, "{offset}");
        assert_eq!(alice.extend("kept").await.ok()["lease_id"], lease_id, "{offset}");
        let now = server_time(&alice).await;
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
}

#[tokio::test]
async fn time_does_not_run_backwards_over_a_restart_with_the_clock_an_hour_back() {
    let home = home();
    let process = home.start();
    let alice = process.editor("alice");
    let lease_id = alice.lock("kept", 60).await.ok()["lease_id"].clone();
    let last_event = process.admin().events().await.last().unwrap()["at"].clone();
    process.stop();

    step(&home, "-3600");
    let process = home.start();
    let (alice, admin) = (process.editor("alice"), process.admin());
    assert!(server_time(&alice).await.as_str() >= last_event.as_str().unwrap());
    assert_eq!(alice.read("kept").await["lease_id"], lease_id);
    alice.lock("short", 1).await.ok();
    has_expired(&admin, "short").await;
    let events = admin.events().await;
    let times: Vec<_> = events.iter().map(|event| event["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    process.stop();

    // Ahead is an outage: who was alive keeps the lock.
    step(&home, "+3600");
    let process = home.start();
    assert_eq!(process.editor("alice").read("kept").await["lease_id"], lease_id);
}

#[tokio::test]
async fn the_test_clock_really_steps() {
    let home = home();
    step(&home, "+3600");
    let process = home.start();
    let ahead = server_time(&process.editor("alice")).await;
    let now = server_time(&Home::new().start().editor("alice")).await;
    assert!(ahead > now, "{ahead} {now}");
}
