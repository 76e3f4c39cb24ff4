//! A new epoch on PostgreSQL, by one transaction.

use sea_orm::sqlx::{self, Connection as _, Executor as _, PgConnection, Row as _, postgres::PgConnectOptions};
use uuid::Uuid;

use super::{load::lock, save, time};
use crate::{
    locking::{DocumentKey, Lock, Timestamp},
    storage::{
        new_epoch::{NewEpoch, TOKEN_MARGIN, revoked},
        queries::key,
    },
    time::liveness::Outages,
};

const PAGE: i64 = 2000;

pub async fn begin(options: &PgConnectOptions, now: Timestamp) -> Result<NewEpoch, sqlx::Error> {
    let mut connection = PgConnection::connect_with(options).await?;
    connection.execute("BEGIN").await?;
    // There may be a million locks.
    connection.execute("SET LOCAL statement_timeout = 0").await?;
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0").await?;
    // Also keeps a server that starts meanwhile from writing the log.
    let head = sqlx::query("SELECT epoch, token_floor FROM log_head FOR UPDATE").fetch_one(&mut connection).await?;
    let ended_locks = end_locks(&mut connection, head.try_get("epoch")?, now).await?;
    connection.execute("DELETE FROM lock_waiters; DELETE FROM lock_handovers").await?;
    let highest: Option<i64> =
        sqlx::query_scalar("SELECT max(fencing_token) FROM documents").fetch_one(&mut connection).await?;
    let floor: i64 = head.try_get("token_floor")?;
    let (epoch, token_floor) = (Uuid::new_v4(), floor.max(highest.unwrap_or_default()) + TOKEN_MARGIN);
    sqlx::query("UPDATE log_head SET epoch = $1, token_floor = $2")
        .bind(epoch)
        .bind(token_floor)
        .execute(&mut connection)
        .await?;
    connection.execute("COMMIT").await?;
    connection.close().await?;
    Ok(NewEpoch { epoch, ended_locks, token_floor })
}

/// Logs the end of all locks, page by page in the order of their keys, and returns how many there were. They are
/// deleted together at the end: deleted rows stay in the index until the transaction is over, and each page would have
/// to pass all of them.
async fn end_locks(connection: &mut PgConnection, epoch: Uuid, now: Timestamp) -> Result<i64, sqlx::Error> {
    let outages = time::read(connection, None, None).await?.outages;
    // This is before the first lock, because no name is empty.
    let (mut ended, mut last) = (0, (key("", "", ""), 0));
    loop {
        let page = page(connection, &last, &outages).await?;
        let Some(lock) = page.last() else { break };
        last = (lock.key.clone(), lock.slot);
        ended += i64::try_from(page.len()).unwrap_or_default();
        let events: Vec<_> = page.into_iter().map(|lock| revoked(lock, now)).collect();
        save::append(connection, &events, epoch).await?;
    }
    connection.execute("DELETE FROM document_locks").await?;
    Ok(ended)
}

async fn page(
    connection: &mut PgConnection,
    (after, slot): &(DocumentKey, u32),
    outages: &Outages,
) -> Result<Vec<Lock>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT * FROM document_locks WHERE (tenant, room, document, slot) > ($1, $2, $3, $4)
         ORDER BY tenant, room, document, slot LIMIT $5",
    )
    .bind(after.tenant.as_str())
    .bind(after.room.as_str())
    .bind(after.document.as_str())
    .bind(i32::try_from(*slot).unwrap_or(i32::MAX))
    .bind(PAGE)
    .fetch_all(connection)
    .await?;
    rows.iter().map(|row| lock(row, "kind", outages)).collect()
}
