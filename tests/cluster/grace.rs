//! Grace is given to any number of locks, and never because a server itself was slow.

use std::time::Duration;

use sea_orm::sqlx::{Connection as _, Executor as _, query_scalar};

use crate::{
    caller::eventually,
    postgres::{Cluster, new_database},
    servers::{Servers, connect},
};

/// SQL that inserts locks of an owner who never extends them, as if they had been taken a second ago.
pub fn locks(count: usize, ttl_seconds: u32, ends_in_ms: i64) -> String {
    format!(
        "WITH now AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint + clock_offset AS at FROM server_life),
         numbers AS (SELECT n, 'd' || lpad(n::text, 8, '0') AS document FROM generate_series(1, {count}) AS n),
         documented AS (INSERT INTO documents (tenant, room, document, fencing_token, capacity)
            SELECT 'default', 'many', document, 1, 1 FROM numbers)
         INSERT INTO document_locks (tenant, room, document, slot, lease_id, hold, fencing_token, owner_id, acquired_at,
            expires_at, due_at, ttl_seconds)
         SELECT 'default', 'many', document, 0, gen_random_uuid(), 1, 1, 'owner', now.at - 1000, now.at + {ends_in_ms},
            now.at + {ends_in_ms}, {ttl_seconds} FROM numbers, now"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grace_for_a_hundred_thousand_locks_writes_one_row_once() {
    const LOCKS: usize = 100_000;
    let mut cluster = Cluster::start(100);
    let servers = Servers::start(cluster.new_database(), 2);
    servers.sql(&locks(LOCKS, 300, 299_000)).await;
    tokio::task::block_in_place(|| cluster.order("stop"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    tokio::task::block_in_place(|| cluster.order("start"));
    let alice = servers.processes[0].editor("alice");
    eventually("it grants again", async || alice.lock("first", 300).await.is_ok().then_some(())).await;

    let mut connection = connect(&servers.url).await;
    let outages: i64 = query_scalar("SELECT count(*) FROM outages").fetch_one(&mut connection).await.unwrap();
    assert_eq!(outages, 1);
    let written_since = "SELECT count(*) FROM document_locks WHERE room = 'many'
        AND expires_at - ttl_seconds * 1000 >= (SELECT back_at FROM outages)";
    let written_since: i64 = query_scalar(written_since).fetch_one(&mut connection).await.unwrap();
    assert_eq!(written_since, 0, "no lock's own row is written for it");
    for process in servers.all() {
        let page = process.admin().get("/api/admin/locks?room=many&limit=1000").await.ok();
        assert_eq!(page["total"], LOCKS);
        for lock in page["items"].as_array().unwrap() {
            // A whole ttl from the end of the outage: more than it had left when that began.
            assert!(lock["expires_in_ms"].as_i64() > Some(270_000), "{lock:#}");
        }
    }
}

#[tokio::test]
async fn a_batch_that_waits_for_a_lock_of_the_database_is_no_outage() {
    let servers = Servers::start(new_database(), 1);
    let alice = servers.processes[0].editor("alice");
    let before = alice.lock("kept", 60).await.ok();
    let mut connection = connect(&servers.url).await;
    let mut held = connection.begin().await.unwrap();
    held.execute("LOCK TABLE documents IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut refused = 0;
    let mut observer = connect(&servers.url).await;
    // Wait for longer than what counts as an outage, measured by the signs of life themselves.
    let first: i64 = query_scalar("SELECT last_alive FROM server_life").fetch_one(&mut observer).await.unwrap();
    eventually("signs of life go on", async || {
        refused += usize::from(!alice.lock("other", 60).await.is_ok());
        let last: i64 = query_scalar("SELECT last_alive FROM server_life").fetch_one(&mut observer).await.unwrap();
        (last > first + 5000).then_some(())
    })
    .await;
    held.rollback().await.unwrap();
    assert!(refused > 0, "nothing had to wait");
    let outages: i64 = query_scalar("SELECT count(*) FROM outages").fetch_one(&mut observer).await.unwrap();
    assert_eq!(outages, 0);
    assert_eq!(alice.read("kept").await["expires_at"], before["expires_at"]);
}
