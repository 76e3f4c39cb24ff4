//! A server that stands still while the others go on.

use std::time::Duration;

use sea_orm::sqlx::{PgConnection, query_scalar};

use crate::{
    caller::{eventually, lock_path},
    ledger::Ledger,
    postgres::new_database,
    process::Process,
    servers::{Servers, connect},
};

/// Stops the process at a moment when it has a transaction open.
async fn freeze_inside_a_transaction(process: &Process, database: &mut PgConnection) {
    eventually("a server is frozen inside a transaction", async || {
        process.signal("STOP");
        // What it had sent before is done by now.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let is_open: bool = query_scalar(
            "SELECT count(*) > 0 FROM pg_stat_activity
             WHERE state = 'idle in transaction' AND state_change < clock_timestamp() - interval '10 ms'
               AND application_name = 'doclock' AND datname = current_database()",
        )
        .fetch_one(&mut *database)
        .await
        .unwrap();
        if !is_open {
            process.signal("CONT");
        }
        is_open.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_frozen_inside_a_transaction_does_not_stop_the_others() {
    const ROUNDS: usize = 3;
    const A_FEW_SECONDS: Duration = Duration::from_secs(10);
    let servers = Servers::start(new_database(), 2);
    let mut database = connect(&servers.url).await;
    let (frozen, other) = (&servers.processes[0], &servers.processes[1]);
    let alice = other.editor("alice");
    let mut ledger = Ledger::expecting_outages();
    for round in 0..ROUNDS {
        let document = format!("free-{round}");
        let during = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            freeze_inside_a_transaction(frozen, &mut database).await;
            let goes_on =
                eventually("the other one goes on", async || alice.lock(&document, 60).await.is_ok().then_some(()));
            tokio::time::timeout(A_FEW_SECONDS, goes_on).await.expect("the other one stands still too");
            alice.send(reqwest::Method::DELETE, &lock_path(&document), serde_json::json!({})).await.ok();
            frozen.signal("CONT");
        };
        ledger = ledger.load_all(&servers.all(), during).await;
    }
    ledger.check(other).await;
    eventually("the frozen one serves again", async || frozen.admin().get("/readyz").await.is_ok().then_some(())).await;
    ledger.check(frozen).await;
}

#[tokio::test]
async fn a_server_cut_off_alone_earns_no_grace() {
    let servers = Servers::start(new_database(), 2);
    let alice = servers.processes[0].editor("alice");
    let bob = servers.processes[1].editor("bob");
    let lease_id = alice.lock("document", 4).await.ok()["lease_id"].clone();
    assert_eq!(alice.extend("document").await.ok()["lease_id"], lease_id);
    servers.processes[0].signal("STOP");
    assert_eq!(bob.lock("document", 60).await.body["code"], "LOCK_HELD");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let taken = bob.lock("document", 60).await.ok();
    assert_eq!(taken["fencing_token"], 2);
    servers.processes[0].signal("CONT");
    // Over a new connection: the old one was idle for too long.
    let alice = servers.processes[0].editor("alice");
    let named = serde_json::json!({ "lease_id": lease_id });
    let late = alice.send(reqwest::Method::PUT, &lock_path("document"), named).await;
    assert_eq!((late.status, late.body["code"].as_str()), (409, Some("LEASE_EXPIRED")), "{:#}", late.body);
    assert_eq!(alice.read("document").await["fencing_token"], 2);
}
