//! `kill -9` of one of two servers in the middle of load.

use std::time::Duration;

use crate::{ledger::Ledger, postgres::new_database, servers::Servers};

const ROUNDS: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_of_either_server() {
    let mut servers = Servers::start(new_database(), 2);
    let mut ledger = Ledger::new();
    for round in 0..ROUNDS {
        let victim = usize::try_from(round % 2).unwrap();
        let during = async {
            tokio::time::sleep(Duration::from_millis(100 + 13 * round)).await;
            servers.processes[victim].signal("KILL");
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        ledger = ledger.load_all(&servers.all(), during).await;
        ledger.check(&servers.processes[1 - victim]).await;
        let next = servers.start_one();
        std::mem::replace(&mut servers.processes[victim], next).kill();
    }
    ledger.check(&servers.processes[0]).await;
    assert!(ledger.granted() > 100, "hardly any load: {} grants", ledger.granted());
}
