//! After a restore or a lossy failover, with all servers stopped: what was granted and then lost must not be granted
//! again under the same token.
//!
//! One transaction ends every lock (its unlock is logged: `revoked`), empties the waiting lines, gives the log a new
//! name, so that subscribers start over, and lets tokens jump past every one that can have been given out.

use std::{path::PathBuf, sync::Arc, time::Duration};

use sea_orm::{
    ActiveModelTrait as _, ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, DatabaseConnection,
    DatabaseTransaction, DbErr, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, TransactionTrait as _,
};
use uuid::Uuid;

use super::{
    Home, OpenError, Storage,
    entities::{document, document_lock, event, log_head, server_life},
    event_log::{Row, random_epoch},
    postgres, sqlite,
};
use crate::{
    clock::Clock,
    life::Life,
    locking::{EndReason, Event, EventKind, Lock, Timestamp},
    settings::DatabaseUrl,
};

/// More grants on one document than can have been lost.
const TOKEN_MARGIN: i64 = 1_000_000;
const PAGE: u64 = 500;
/// A server that runs would have given a sign of life.
const SILENCE: Duration = Duration::from_millis(3500);

#[derive(Debug, thiserror::Error)]
pub enum NewEpochError {
    #[error("there is no database {}", path.display())]
    Missing { path: PathBuf },
    #[error("a server is running on this database: stop all servers first")]
    InUse,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the database failed, nothing was changed: {0}")]
    Failed(#[from] DbErr),
}

/// What was begun.
#[derive(Debug)]
pub struct NewEpoch {
    pub epoch: Uuid,
    pub ended_locks: usize,
    /// New tokens are greater.
    pub token_floor: i64,
}

pub async fn new_epoch(url: &DatabaseUrl) -> Result<NewEpoch, NewEpochError> {
    if let DatabaseUrl::Sqlite(path) = url
        && !path.exists()
    {
        return Err(NewEpochError::Missing { path: path.clone() });
    }
    // Claims an SQLite file, and brings an old backup's schema up to date.
    let storage = Storage::open(url).await?;
    let clock = storage.clock();
    let database = match &storage.home {
        Home::Sqlite { path, .. } => sqlite::writable(path),
        Home::Postgres { options, .. } => {
            let database = postgres::pool((**options).clone(), 1);
            if is_running(&database, &clock).await? {
                return Err(NewEpochError::InUse);
            }
            database
        }
    };
    let begun = begin(&database, clock.now()).await?;
    database.close().await?;
    Ok(begun)
}

/// Only asked where no file can be claimed.
async fn is_running(database: &DatabaseConnection, clock: &Clock) -> Result<bool, DbErr> {
    let last_alive = async || Ok(server_life::Entity::find().one(database).await?.map_or(0, |life| life.last_alive));
    let before: i64 = last_alive().await?;
    if Life::is_outage(Timestamp::from_millis(before), clock.now()) {
        return Ok(false);
    }
    clock.sleep(SILENCE).await;
    let after: Result<i64, DbErr> = last_alive().await;
    Ok(after? != before)
}

async fn begin(database: &DatabaseConnection, now: Timestamp) -> Result<NewEpoch, DbErr> {
    let transaction = database.begin().await?;
    // Also keeps a server that starts meanwhile from writing the log.
    let head = log_head::Entity::find().lock_exclusive().one(&transaction).await?;
    let head = head.ok_or_else(|| DbErr::RecordNotFound("log_head".to_owned()))?;
    let ended_locks = end_locks(&transaction, head.sequence, now).await?;
    transaction.execute_unprepared("DELETE FROM lock_waiters").await?;
    transaction.execute_unprepared("DELETE FROM lock_handovers").await?;

    let highest = document::Entity::find().select_only().column_as(document::Column::FencingToken.max(), "highest");
    let highest: Option<Option<i64>> = highest.into_tuple().one(&transaction).await?;
    let (epoch, ended) = (random_epoch(), i64::try_from(ended_locks).unwrap_or(i64::MAX));
    let token_floor = head.token_floor.max(highest.flatten().unwrap_or_default()) + TOKEN_MARGIN;
    let sequence = head.sequence + ended;
    let mut head = head.into_active_model();
    head.epoch = Set(epoch);
    head.sequence = Set(sequence);
    head.token_floor = Set(token_floor);
    head.update(&transaction).await?;
    transaction.commit().await?;
    Ok(NewEpoch { epoch, ended_locks, token_floor })
}

/// Page by page: there may be a million.
async fn end_locks(transaction: &DatabaseTransaction, sequence: i64, now: Timestamp) -> Result<usize, DbErr> {
    let note: Arc<str> = "new epoch".into();
    let mut ended = 0;
    loop {
        let page = document_lock::Entity::find().order_by_asc(document_lock::Column::LeaseId).limit(PAGE);
        let page = page.all(transaction).await?;
        if page.is_empty() {
            return Ok(ended);
        }
        let leases: Vec<_> = page.iter().map(|lock| lock.lease_id).collect();
        let first = sequence + 1 + i64::try_from(ended).unwrap_or(i64::MAX);
        let kind = EventKind::Unlocked { reason: EndReason::Revoked, by: None, note: Some(Arc::clone(&note)) };
        let events = (first..)
            .zip(page)
            .map(|(sequence, lock)| row(sequence, &Event { at: now, lock: Lock::from(lock), kind: kind.clone() }));
        event::Entity::insert_many(events).exec_without_returning(transaction).await?;
        let delete = document_lock::Entity::delete_many().filter(document_lock::Column::LeaseId.is_in(leases.clone()));
        delete.exec(transaction).await?;
        ended += leases.len();
    }
}

fn row(sequence: i64, event: &Event) -> event::ActiveModel {
    let (lock, row) = (&event.lock, Row::of(event));
    event::Model {
        sequence,
        tenant: lock.key.tenant.as_str().to_owned(),
        room: lock.key.room.as_str().to_owned(),
        document: lock.key.document.as_str().to_owned(),
        at: event.at.millis(),
        kind: event.kind.name().to_owned(),
        lease_id: Some(lock.lease_id),
        fencing_token: lock.fencing_token,
        owner_id: lock.holder.owner.as_str().to_owned(),
        session_id: lock.holder.session.as_ref().map(|session| session.as_str().to_owned()),
        reason: row.reason.map(str::to_owned),
        by: row.by.map(str::to_owned),
        note: row.note.map(str::to_owned),
        recipient: None,
        held_ms: row.held_ms,
        waited_ms: None,
        body: row.body,
    }
    .into_active_model()
}
