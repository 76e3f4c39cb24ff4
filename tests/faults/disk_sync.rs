//! The disk takes what is written but cannot sync it. strace makes the call fail.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use crate::{
    caller::eventually,
    process::{Home, Process},
};

/// Makes syncs fail from when this returns until it is dropped.
struct FailingSync(Child);

impl FailingSync {
    fn of(process: &Process) -> Self {
        let id = process.id().to_string();
        let arguments = ["-f", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO", "-p", &id];
        let strace = Command::new("strace").args(arguments).stderr(Stdio::piped()).spawn();
        let mut strace = strace.unwrap_or_else(|error| panic!("strace is needed (apt-get install strace): {error}"));
        let first = BufReader::new(strace.stderr.take().unwrap()).lines().next();
        let first = first.unwrap().unwrap();
        assert!(first.contains("attached"), "{first}");
        Self(strace)
    }
}

impl Drop for FailingSync {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_disk_that_cannot_sync_answers_503_and_nothing_answered_is_lost() {
    let home = Home::new();
    let process = home.start();
    let (alice, admin) = (process.editor("alice"), process.admin());
    let mut answered = vec![alice.lock("before", 300).await.ok()["lease_id"].clone()];
    let failing = FailingSync::of(&process);
    alice.lock("meanwhile", 300).await.is_unavailable(&["OUTCOME_UNKNOWN"]);
    drop(failing);
    eventually("service resumes", async || alice.lock("after", 300).await.is_ok().then_some(())).await;
    answered.push(alice.read("after").await["lease_id"].clone());
    let events = admin.events().await;
    for (expected, event) in (1_i64..).zip(&events) {
        assert_eq!(event["sequence"], expected);
    }
    process.signal("KILL");
    drop(process);
    let locks = home.start().admin().locks().await;
    for lease_id in answered {
        assert!(locks.iter().any(|lock| lock["lease_id"] == lease_id), "{locks:?}");
    }
}
