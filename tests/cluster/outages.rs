//! The database stops, hangs up, turns read-only or has no connection left; then it is back.

use std::{future::Future, time::Duration};

use sea_orm::sqlx::{Connection as _, PgConnection, query_scalar};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::{
    caller::{Caller, eventually, lock_path},
    ledger::Ledger,
    postgres::{Cluster, new_database},
    process::run,
    servers::{Servers, connect},
};

const AWAY: &[&str] = &["OUTCOME_UNKNOWN", "OVERLOADED"];

async fn are_ready(servers: &Servers) {
    for process in servers.all() {
        let admin = process.admin();
        eventually("it is ready", async || admin.get("/readyz").await.is_ok().then_some(())).await;
    }
}

async fn are_not_ready(servers: &Servers) {
    for process in servers.all() {
        let admin = process.admin();
        let answer = eventually("it is not ready", async || {
            let answer = admin.get("/readyz").await;
            (!answer.is_ok()).then_some(answer)
        })
        .await;
        answer.is_unavailable(AWAY);
    }
}

/// Runs the fault under load on all servers and checks that a lock that was live before it is live after it, although
/// nobody extends it.
async fn under_load(servers: &Servers, trouble: impl Future<Output = ()>) -> Ledger {
    let alice = servers.processes[0].editor("alice");
    let mut lease_id = Value::Null;
    let during = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        lease_id = alice.lock("kept", 30).await.ok()["lease_id"].clone();
        trouble.await;
        are_ready(servers).await;
    };
    let mut ledger = Ledger::expecting_outages().load_all(&servers.all(), during).await;
    for caller in servers.editors("alice") {
        assert_eq!(caller.extend("kept").await.ok()["lease_id"], lease_id);
    }
    ledger.check(&servers.processes[0]).await;
    ledger.check(&servers.processes[1]).await;
    assert!(ledger.granted() > 20, "hardly any load: {} grants", ledger.granted());
    ledger
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_stopped_for_forty_seconds_is_served_again_and_no_lock_is_lost() {
    let mut cluster = Cluster::start(100);
    let servers = Servers::start(cluster.new_database(), 2);
    let alice = servers.processes[0].editor("alice");
    let ledger = under_load(&servers, async {
        tokio::task::block_in_place(|| cluster.order("stop"));
        are_not_ready(&servers).await;
        alice.lock("other", 10).await.is_unavailable(AWAY);
        alice.get(&lock_path("kept")).await.is_unavailable(AWAY);
        tokio::time::sleep(Duration::from_secs(40)).await;
        tokio::task::block_in_place(|| cluster.order("start"));
    })
    .await;
    assert!(ledger.unavailable() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_ended_in_a_storm_lose_nothing() {
    const TIMES: usize = 60;
    let servers = Servers::start(new_database(), 2);
    under_load(&servers, async {
        for _ in 0..TIMES {
            servers.terminate_connections().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

/// The database neither answers nor hangs up: its processes are stopped, maybe while they hold row locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_while_the_database_hangs_and_served_again_afterwards() {
    let servers = Servers::start(new_database(), 2);
    let ledger = under_load(&servers, async {
        let mut connection = connect(&servers.url).await;
        let backends = query_scalar(
            "SELECT pid::text FROM pg_stat_activity
             WHERE application_name = 'doclock' AND datname = current_database()",
        );
        let backends: Vec<String> = backends.fetch_all(&mut connection).await.unwrap();
        let signal = |name: &str| backends.iter().for_each(|pid| drop(run("kill", &[name, pid])));
        signal("-STOP");
        let mut asked = JoinSet::new();
        for caller in servers.editors("alice") {
            asked.spawn(async move { [caller.lock("other", 10).await, caller.get(&lock_path("kept")).await] });
        }
        for answer in asked.join_all().await.iter().flatten() {
            assert!([200, 409, 503].contains(&answer.status), "{:#}", answer.body);
        }
        signal("-CONT");
    })
    .await;
    assert!(ledger.unavailable() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_turns_read_only_answers_503_until_it_can_be_written_again() {
    let servers = Servers::start(new_database(), 2);
    let name = servers.url.rsplit('/').next().unwrap().to_owned();
    let alice = servers.processes[0].editor("alice");
    let ledger = under_load(&servers, async {
        servers.sql(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
        servers.terminate_connections().await;
        are_not_ready(&servers).await;
        alice.lock("other", 10).await.is_unavailable(AWAY);
        // Reads go on.
        assert!(alice.read("kept").await.is_object());
        servers
            .sql(&format!(
                "SET default_transaction_read_only = off; ALTER DATABASE {name} RESET default_transaction_read_only"
            ))
            .await;
    })
    .await;
    assert!(ledger.unavailable() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_answer_503_while_no_database_connection_is_free() {
    let cluster = Cluster::start(30);
    let servers = Servers::start(cluster.new_database(), 2);
    let alice = servers.processes[0].editor("alice");
    let ledger = under_load(&servers, async {
        let taken = take_all_connections(&servers).await;
        are_not_ready(&servers).await;
        is_away(&alice).await;
        drop(taken);
    })
    .await;
    assert!(ledger.unavailable() > 0);
}

async fn is_away(alice: &Caller) {
    alice.lock("other", 10).await.is_unavailable(AWAY);
    alice.get(&lock_path("kept")).await.is_unavailable(AWAY);
}

/// Takes every connection that the database allows. The servers are frozen meanwhile, or they would take them first.
async fn take_all_connections(servers: &Servers) -> Vec<PgConnection> {
    servers.all().iter().for_each(|process| process.signal("STOP"));
    servers.terminate_connections().await;
    let mut taken = vec![connect(&servers.url).await];
    eventually("the servers have no connection", async || {
        while let Ok(connection) = Box::pin(PgConnection::connect(&servers.url)).await {
            taken.push(connection);
        }
        let theirs = query_scalar("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'doclock'");
        let theirs: i64 = theirs.fetch_one(&mut taken[0]).await.unwrap();
        (theirs == 0).then_some(())
    })
    .await;
    servers.all().iter().for_each(|process| process.signal("CONT"));
    taken
}
