//! The lock table in SQL.
//!
//! Writing: the committer hands batches of commands to a home of storage ([`sqlite::Writer`]), which loads what they
//! need, has [`batch::Batch`] decide them, saves what changed, appends the events and commits.
//! Reading: [`queries`], over a pool of its own, sees what is committed and nothing else. Connections to a file that
//! is no longer at its path are closed rather than read.

pub mod batch;
mod entities;
pub mod event_log;
mod file;
pub mod queries;
pub mod sqlite;
pub mod stats;

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    time::Duration,
};

use migration::{Migrator, MigratorTrait as _};
use sea_orm::{
    DatabaseConnection, DbErr, EntityTrait, QueryOrder, SqlxSqliteConnector,
    sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions},
};

use crate::locking::Timestamp;
use entities::{event, server_life};
use file::Watch;
pub use queries::Queries;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The statements of one command do not fit the rows; its neighbours in the batch are not to blame.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The commit may or may not have happened.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// Nothing happened, and nothing will until the database is back.
    #[error("database unavailable: {0}")]
    Unavailable(String),
}

impl From<DbErr> for StorageError {
    fn from(error: DbErr) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Why storage could not be opened: one line for the person who starts the server.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot create {}: {reason}", path.display())]
    Create { path: PathBuf, reason: std::io::Error },
    #[error("{} is in use by another doclock", path.display())]
    InUse { path: PathBuf },
    #[error("cannot open {}: {reason}", path.display())]
    Open { path: PathBuf, reason: String },
}

/// An opened database: where it is, how to read it, and how far its time has come.
#[derive(Debug)]
pub struct Storage {
    pub path: PathBuf,
    pub queries: Queries,
    /// No moment before it may be told: the last sign of life, or the last event.
    pub latest: Timestamp,
    /// Held as long as the server runs. There is one writer, and it knows what it wrote.
    _in_use: File,
}

impl Storage {
    /// Opens or creates the SQLite file and brings its schema up to date.
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        let in_use = claim(path)?;
        let open = |error: DbErr| OpenError::Open { path: path.to_owned(), reason: error.to_string() };
        let unusable = |error: rusqlite::Error| OpenError::Open { path: path.to_owned(), reason: error.to_string() };
        sqlite::check(path).map_err(unusable)?;
        let options = SqliteConnectOptions::new().filename(path).busy_timeout(Duration::from_secs(2));

        let create = options.clone().create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
        let setup = connector(pool(1).connect_lazy_with(create));
        Migrator::up(&setup, None).await.map_err(open)?;
        setup.close().await.map_err(open)?;
        sqlite::seed(path).map_err(unusable)?;

        let watch = Watch::new(path);
        let current = pool(4).before_acquire(move |_, connection| {
            let is_current = watch.is_current(connection.age);
            Box::pin(async move { Ok(is_current) })
        });
        let reads = connector(current.connect_lazy_with(options.read_only(true)));
        let latest = latest(&reads).await.map_err(open)?;
        Ok(Self { path: path.to_owned(), queries: Queries::new(reads), latest, _in_use: in_use })
    }
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new().max_connections(connections).acquire_timeout(Duration::from_secs(5))
}

fn connector(pool: SqlitePool) -> DatabaseConnection {
    SqlxSqliteConnector::from_sqlx_sqlite_pool(pool)
}

fn claim(path: &Path) -> Result<File, OpenError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|reason| OpenError::Create { path: folder.to_owned(), reason })?;
    }
    let lock_path = path.with_added_extension("lock");
    let file = File::create(&lock_path).map_err(|reason| OpenError::Create { path: lock_path.clone(), reason })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(reason)) => Err(OpenError::Create { path: lock_path, reason }),
    }
}

async fn latest(reads: &DatabaseConnection) -> Result<Timestamp, DbErr> {
    let alive = server_life::Entity::find().one(reads).await?.map_or(0, |life| life.last_alive);
    let last_event = event::Entity::find().order_by_desc(event::Column::Sequence).one(reads).await?;
    Ok(Timestamp::from_millis(alive.max(last_event.map_or(0, |event| event.at))))
}
