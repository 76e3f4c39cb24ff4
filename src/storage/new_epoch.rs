//! After a restore or a lossy failover, with all servers stopped: what was granted and then lost must not be granted
//! again under the same token.
//!
//! One transaction ends every lock (its unlock is logged: `revoked`), empties the waiting lines, gives the log a new
//! name, so that subscribers start over, and lets tokens jump past every one that can have been given out. A server
//! that starts meanwhile has read the old name, under which the log can no longer be written.

use std::{path::PathBuf, time::Duration};

use sea_orm::{DbErr, EntityTrait as _, sqlx};
use uuid::Uuid;

use super::{Home, OpenError, Storage, entities::server_life, postgres, sqlite};
use crate::{
    locking::{EndReason, Event, EventKind, Lock, Timestamp},
    settings::DatabaseUrl,
    time::{clock::Clock, liveness::Life},
};

/// How far tokens jump: more grants than can have been lost on one document.
pub(super) const TOKEN_MARGIN: i64 = 1_000_000;
/// A server that runs gives a sign of life in this time.
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
    Read(#[from] DbErr),
    #[error("the database failed, nothing was changed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the database failed, nothing was changed: {0}")]
    Postgres(#[from] sqlx::Error),
}

/// What has begun, for the operator to read.
#[derive(Debug)]
pub struct NewEpoch {
    pub epoch: Uuid,
    pub ended_locks: i64,
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
    match &storage.home {
        Home::Sqlite { path, .. } => Ok(sqlite::epoch::begin(path, clock.now())?),
        Home::Postgres { options, .. } => {
            if is_running(&storage, &clock).await? {
                return Err(NewEpochError::InUse);
            }
            Ok(postgres::epoch::begin(options, clock.now()).await?)
        }
    }
}

/// Returns whether a server runs on the database. Needed only on PostgreSQL: on SQLite the claim to the file says so.
async fn is_running(storage: &Storage, clock: &Clock) -> Result<bool, DbErr> {
    let last_alive = async || {
        let life = server_life::Entity::find().one(storage.own.reads()).await?;
        Ok::<_, DbErr>(life.map_or(0, |life| life.last_alive))
    };
    let before = last_alive().await?;
    if Life::is_outage(Timestamp::from_millis(before), clock.now()) {
        return Ok(false);
    }
    clock.sleep(SILENCE).await;
    Ok(last_alive().await? != before)
}

/// Returns the event that ends a lock.
pub(super) fn revoked(lock: Lock, now: Timestamp) -> Event {
    let kind = EventKind::Unlocked { reason: EndReason::Revoked, by: None, note: Some("new epoch".into()) };
    Event { at: now, lock, kind }
}
