//! `kill -9` in the middle of load.

use std::time::Duration;

use crate::{ledger::Ledger, process::Home};

const ROUNDS: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_and_tokens_and_sequences_never_repeat() {
    let home = Home::new();
    let mut ledger = Ledger::new();
    for round in 0..ROUNDS {
        let process = home.start();
        ledger.check(&process).await;
        ledger = ledger.load(&process, kill_during(&process, round)).await;
        process.kill();
    }
    ledger.check(&home.start()).await;
    assert!(ledger.granted() > 100, "hardly any load: {} grants", ledger.granted());
}

/// The process is killed at a different moment in each round.
async fn kill_during(process: &crate::process::Process, round: u64) {
    tokio::time::sleep(Duration::from_millis(100 + 13 * round)).await;
    process.signal("KILL");
}
