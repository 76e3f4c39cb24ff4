//! Reads that are abandoned halfway, as happens when their client disconnects.

use std::{sync::Arc, time::Duration};

use doclock::{
    locking::names::{RoomId, TenantId},
    settings::DatabaseUrl,
    storage::Storage,
};
use tokio::task::JoinSet;

use crate::postgres::new_database;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_read_does_not_fail_other_reads() {
    let storage = Arc::new(Storage::open(&DatabaseUrl::Postgres(new_database())).await.unwrap());
    // The first read is a single statement, the second a snapshot of several.
    let read = move || {
        let storage = Arc::clone(&storage);
        async move {
            let (tenant, room) = (TenantId::default_tenant(), RoomId::parse("room").unwrap());
            storage.queries.head().await?;
            storage.queries.start(&tenant, &room, None).await
        }
    };
    let mut readers = JoinSet::new();
    for reader in 0..20 {
        let read = read.clone();
        readers.spawn(async move {
            for round in 0..60 {
                let given_up = tokio::spawn(read());
                tokio::time::sleep(Duration::from_millis((reader + round) % 6)).await;
                given_up.abort();
                read().await.unwrap();
            }
        });
    }
    while let Some(reader) = readers.join_next().await {
        reader.unwrap();
    }
}
