//! The lock table in SQL.
//!
//! Writing: the committer hands batches of commands to a home of storage (a [`Writer`]: `sqlite` or `postgres`),
//! which loads what they need, has [`batch::Batch`] decide them, saves what changed, appends the events and commits.
//! Reading: [`queries`], over a pool of its own, sees what is committed and nothing else.
//! What may be forgotten, and goes past the committer: [`soft_state`].

pub mod batch;
mod entities;
pub mod event_log;
pub mod lines;
mod look;
mod memo;
mod new_epoch;
mod postgres;
pub mod queries;
pub mod soft_state;
mod sqlite;
pub mod stats;
pub mod tail;

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use sea_orm::{DatabaseConnection, DbErr, EntityTrait, QueryOrder, sqlx::postgres::PgConnectOptions};

use crate::{
    locking::{Command, LeaseId, Policy, Timestamp},
    settings::DatabaseUrl,
    time::{clock::Clock, liveness::Life},
};
use batch::{Committed, Expired};
use entities::{event, server_life};
pub use look::{DatabaseLook, look};
pub use new_epoch::{NewEpoch, NewEpochError, new_epoch};
pub use postgres::notify::Tail;
pub use queries::{Dialect, Queries};
pub use soft_state::SoftState;
pub use sqlite::backup::{BackupError, backup};

/// So many of an owner's last ends on one document are searched for a session: what one heartbeat may cost everyone is
/// bounded (docs/decisions/0004).
const ENDINGS_SEARCHED: i64 = 100;
/// No lock has a longer ttl, whatever the settings.
const LONGEST_TTL_MS: i64 = 86_400_000;

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
    /// The database has lost what this process has seen in it: to go on would give out its tokens again.
    #[error(
        "the log ends at {found}, but this server has seen {known}: the database was restored or failed over. \
         Stop all servers, run `doclock new-epoch`, start them again"
    )]
    Rewound { known: String, found: String },
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
    Create { path: PathBuf, reason: io::Error },
    #[error("{} is in use by another doclock", path.display())]
    InUse { path: PathBuf },
    #[error("cannot open {}: {reason}", path.display())]
    Open { path: PathBuf, reason: String },
    #[error("cannot open the PostgreSQL database: {0}")]
    Postgres(String),
}

/// To read with: for those who ask, and for the server's own work.
struct Pools {
    reads: DatabaseConnection,
    own: DatabaseConnection,
}

/// An opened database: how to read it, how to write it, and how far its time has come.
#[derive(Debug)]
pub struct Storage {
    pub queries: Queries,
    /// For the server's own work, which does not wait for what others read.
    pub own: Queries,
    /// No moment before it may be told: the last sign of life, or the last event.
    pub latest: Timestamp,
    home: Home,
}

#[derive(Debug)]
enum Home {
    /// The file is held as long as the server runs. There is one writer, and it knows what it wrote.
    Sqlite {
        path: PathBuf,
        _in_use: File,
    },
    Postgres {
        options: Box<PgConnectOptions>,
        now: Timestamp,
    },
}

impl Storage {
    /// Opens the database, creating the SQLite file if need be, and brings its schema up to date.
    pub async fn open(url: &DatabaseUrl) -> Result<Self, OpenError> {
        match url {
            DatabaseUrl::Sqlite(path) => Self::open_sqlite(path).await,
            DatabaseUrl::Postgres(url) => {
                Self::open_postgres(url).await.map_err(|error| OpenError::Postgres(error.to_string()))
            }
        }
    }

    async fn open_sqlite(path: &Path) -> Result<Self, OpenError> {
        let (Pools { reads, own }, in_use) = sqlite::open(path).await?;
        let open = |error: DbErr| OpenError::Open { path: path.to_owned(), reason: error.to_string() };
        let latest = latest(&reads).await.map_err(open)?;
        let home = Home::Sqlite { path: path.to_owned(), _in_use: in_use };
        Ok(Self {
            queries: Queries::new(reads, Dialect::Sqlite),
            own: Queries::new(own, Dialect::Sqlite),
            latest,
            home,
        })
    }

    async fn open_postgres(url: &str) -> Result<Self, DbErr> {
        let (Pools { reads, own }, options, now) = postgres::open(url).await?;
        let latest = latest(&reads).await?;
        let home = Home::Postgres { options: Box::new(options), now: now.max(latest) };
        Ok(Self {
            queries: Queries::new(reads, Dialect::Postgres),
            own: Queries::new(own, Dialect::Postgres),
            latest,
            home,
        })
    }

    /// The time this database goes by.
    pub fn clock(&self) -> Clock {
        match &self.home {
            Home::Sqlite { .. } => Clock::system(self.latest),
            Home::Postgres { now, .. } => Clock::database(*now),
        }
    }

    /// How to connect to a database that other servers write too.
    pub fn shared(&self) -> Option<PgConnectOptions> {
        match &self.home {
            Home::Sqlite { .. } => None,
            Home::Postgres { options, .. } => Some((**options).clone()),
        }
    }

    /// What servers on a database that others write too tell each other.
    pub fn soft_state(&self) -> Option<SoftState> {
        match &self.home {
            Home::Sqlite { .. } => None,
            Home::Postgres { .. } => Some(SoftState::new(self.queries.clone())),
        }
    }

    /// SQLite has one writer, for everything. PostgreSQL has several, which it keeps apart as it does those of different
    /// servers: while one waits for its commit, another locks and reads what it needs; and one of its own for chores.
    pub fn writers(&self, policy: Policy, clock: &Clock, life: &Arc<Life>) -> io::Result<Writers> {
        match &self.home {
            Home::Sqlite { path, .. } => {
                let writer = sqlite::Writer::new(path.clone(), policy, clock.clone(), Arc::clone(life));
                Ok(Writers { requests: vec![Writer::Sqlite(Box::new(writer))], chores: None })
            }
            Home::Postgres { options, .. } => {
                let writers = postgres::Writer::several(options, policy, clock, life)?;
                let mut writers = writers.into_iter().map(|writer| Writer::Postgres(Box::new(writer)));
                let chores = writers.next();
                Ok(Writers { requests: writers.collect(), chores })
            }
        }
    }
}

/// Who writes requests, and who does the chores (signs of life, expiry, pruning) if it is somebody else.
#[derive(Debug)]
pub struct Writers {
    pub requests: Vec<Writer>,
    pub chores: Option<Writer>,
}

/// Writes batches, on a thread of its own.
#[derive(Debug)]
pub enum Writer {
    Sqlite(Box<sqlite::Writer>),
    Postgres(Box<postgres::Writer>),
}

impl Writer {
    /// All commands in one transaction, or none.
    pub fn commit(&mut self, commands: &[Command]) -> Result<Committed, StorageError> {
        match self {
            Self::Sqlite(writer) => writer.commit(commands),
            Self::Postgres(writer) => writer.commit(commands),
        }
    }

    /// A sign of life, if the last one was a second ago; after an outage, grace.
    pub fn beat(&mut self) -> Result<(), StorageError> {
        match self {
            Self::Sqlite(writer) => writer.commit(&[]).map(drop),
            Self::Postgres(writer) => writer.beat(),
        }
    }

    /// Looks at up to `limit` locks whose time to be looked at has come, and ends those that are overdue. Other servers
    /// that do the same get other locks.
    pub fn expire(&mut self, limit: u32) -> Result<Expired, StorageError> {
        match self {
            Self::Sqlite(writer) => writer.expire(limit),
            Self::Postgres(writer) => writer.expire(limit),
        }
    }

    /// Gives tickets another life. Returns those that are not there any more.
    pub fn renew_tickets(&mut self, tickets: &[LeaseId]) -> Result<Vec<LeaseId>, StorageError> {
        match self {
            Self::Sqlite(writer) => writer.renew_tickets(tickets),
            Self::Postgres(writer) => writer.renew_tickets(tickets),
        }
    }

    /// Deletes up to `limit` tickets that nobody has renewed; returns how many there were.
    pub fn delete_dead_tickets(&mut self, limit: u32) -> Result<usize, StorageError> {
        match self {
            Self::Sqlite(writer) => writer.delete_dead_tickets(limit),
            Self::Postgres(writer) => writer.delete_dead_tickets(limit),
        }
    }

    /// Deletes up to `limit` rows of each kind that are older than their retention; answers how many there were.
    pub fn prune(&mut self, limit: u32) -> Result<usize, StorageError> {
        match self {
            Self::Sqlite(writer) => writer.prune(limit),
            Self::Postgres(writer) => writer.prune(limit),
        }
    }
}

async fn latest(reads: &DatabaseConnection) -> Result<Timestamp, DbErr> {
    let alive = server_life::Entity::find().one(reads).await?.map_or(0, |life| life.last_alive);
    let last_event = event::Entity::find().order_by_desc(event::Column::Sequence).one(reads).await?;
    Ok(Timestamp::from_millis(alive.max(last_event.map_or(0, |event| event.at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_servers_own_reads_wait_for_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(&DatabaseUrl::Sqlite(folder.path().join("doclock.db"))).await.unwrap();
        let mut others = Vec::new();
        for _ in 0..sqlite::READERS {
            others.push(storage.queries.snapshot().await.unwrap());
        }
        assert_eq!(storage.own.head().await.unwrap().sequence, 0);
    }
}
