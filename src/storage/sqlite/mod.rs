//! SQLite as a home of storage: one connection on a thread of its own, write-ahead log, `synchronous=FULL`.
//!
//! rusqlite with cached statements rather than sea-orm: half the time per command (docs/decisions).
//!
//! After an error that is not one command's own, the connection is dropped and the next batch opens a new one: a file
//! that was locked, full, broken or away is served again as soon as it is there. A file that is not where it was is
//! neither written nor read any more: what would be answered from it is gone once another one takes its place.

pub mod backup;
mod file;
mod load;
mod save;

use std::{
    collections::HashMap,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use migration::{Migrator, MigratorTrait as _};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig, params};
use sea_orm::{
    DatabaseConnection, SqlxSqliteConnector,
    sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions},
};
use uuid::Uuid;

use super::{
    OpenError, Pools, StorageError,
    batch::{Appended, Batch, Committed},
    event_log::{Head, KnownHead, random_epoch},
};
use crate::{
    clock::Clock,
    life::Life,
    locking::{
        Change, Command, Policy, Timestamp,
        names::{OwnerId, TenantId},
    },
};
use file::{FileId, Watch};

const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// The larger the log may grow before it is copied back, the fewer commits wait for that copy: at a million locks
/// p99 fell from 17.7 ms with the default 1,000 pages to 3.7 ms.
const CHECKPOINT_PAGES: u32 = 20_000;
const CACHE_KIB: u32 = 64 * 1024;
pub(super) const READERS: u32 = 4;
const OWN_READERS: u32 = 1;

/// Claims the file for this process, creates it if it is not there, brings its schema up to date. Answers what to read
/// with, and the claim.
pub(super) async fn open(path: &Path) -> Result<(Pools, File), OpenError> {
    let in_use = claim(path)?;
    let failed = |reason: &dyn std::fmt::Display| OpenError::Open { path: path.to_owned(), reason: reason.to_string() };
    check(path).map_err(|error| failed(&error))?;
    file::create_private(path).map_err(|reason| OpenError::Create { path: path.to_owned(), reason })?;
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_TIMEOUT);
    let create = options.clone().journal_mode(SqliteJournalMode::Wal);
    let setup = connector(pool(1).connect_lazy_with(create));
    Migrator::up(&setup, None).await.map_err(|error| failed(&error))?;
    setup.close().await.map_err(|error| failed(&error))?;
    seed(path).map_err(|error| failed(&error))?;

    let options = options.read_only(true);
    let reading = |connections| {
        let watch = Watch::new(path);
        let current = pool(connections).before_acquire(move |_, connection| {
            let is_current = watch.is_current(connection.age);
            Box::pin(async move { Ok(is_current) })
        });
        connector(current.connect_lazy_with(options.clone()))
    };
    Ok((Pools { reads: reading(READERS), own: reading(OWN_READERS) }, in_use))
}

/// For those who have the claim.
pub(super) fn writable(path: &Path) -> DatabaseConnection {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_TIMEOUT);
    connector(pool(1).connect_lazy_with(options))
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new().max_connections(connections).acquire_timeout(Duration::from_secs(5))
}

fn connector(pool: SqlitePool) -> DatabaseConnection {
    SqlxSqliteConnector::from_sqlx_sqlite_pool(pool)
}

/// Whether an existing file can be read, found out without touching it.
fn check(path: &Path) -> Result<(), rusqlite::Error> {
    if path.exists() { connect(path).map(drop) } else { Ok(()) }
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

/// The rows that are there from the start.
fn seed(path: &Path) -> Result<(), rusqlite::Error> {
    let connection = connect(path)?;
    connection.execute(
        "INSERT OR IGNORE INTO log_head (id, epoch, sequence, token_floor) VALUES (1, ?1, 0, 0)",
        [random_epoch()],
    )?;
    connection.execute("INSERT OR IGNORE INTO server_life (id, last_alive, clock_offset) VALUES (1, 0, 0)", [])?;
    Ok(())
}

fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    // Without CREATE: a file that has gone away must not be replaced by an empty one.
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Whatever is in place of a broken file must not swallow the log, which is all that is left of the last commits.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "cache_size", -i64::from(CACHE_KIB))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    policy: Policy,
    clock: Clock,
    life: Arc<Life>,
    open: Option<Open>,
    known: KnownHead,
}

/// A connection, and what its thread knows of the rows because nobody else writes them.
#[derive(Debug)]
struct Open {
    connection: Connection,
    file: Option<FileId>,
    last_alive: Timestamp,
    token_floor: i64,
    epoch: Uuid,
    sequence: i64,
    owner_locks: HashMap<(TenantId, OwnerId), u32>,
}

impl Writer {
    pub fn new(path: PathBuf, policy: Policy, clock: Clock, life: Arc<Life>) -> Self {
        Self { path, policy, clock, life, open: None, known: KnownHead::default() }
    }

    /// All commands in one transaction, or none.
    pub fn commit(&mut self, commands: &[Command]) -> Result<Committed, StorageError> {
        let result = self.open().and_then(|(open, clock, policy)| open.commit(commands, policy, clock));
        match result {
            Ok((committed, last_alive)) => {
                self.life.seen(last_alive);
                if let Some(open) = &self.open {
                    self.known.wrote(open.sequence);
                }
                Ok(committed)
            }
            Err(error) => {
                if !matches!(error, StorageError::Conflict(_)) {
                    self.open = None;
                }
                Err(error)
            }
        }
    }

    /// Deletes up to `limit` rows of each kind that are older than their retention; answers how many there were.
    pub fn prune(&mut self, limit: u32) -> Result<usize, StorageError> {
        let now = self.clock.now();
        let (open, _, policy) = self.open()?;
        let result = open.connection.execute(
            "DELETE FROM events WHERE sequence IN
               (SELECT sequence FROM (SELECT sequence, at FROM events ORDER BY sequence LIMIT ?2) WHERE at <= ?1)",
            params![now.plus_millis(-policy.event_retention_ms).millis(), limit],
        );
        let events = result.map_err(|error| self.failed(&error))?;
        let (open, _, policy) = self.open()?;
        let result = open.connection.execute(
            "DELETE FROM request_memos WHERE (tenant, owner_id, request_id) IN
               (SELECT tenant, owner_id, request_id FROM request_memos WHERE created_at <= ?1 LIMIT ?2)",
            params![now.plus_millis(-policy.memo_retention_ms).millis(), limit],
        );
        Ok(events + result.map_err(|error| self.failed(&error))?)
    }

    fn failed(&mut self, error: &rusqlite::Error) -> StorageError {
        self.open = None;
        StorageError::Unavailable(error.to_string())
    }

    fn open(&mut self) -> Result<(&mut Open, &Clock, Policy), StorageError> {
        if self.open.as_ref().is_none_or(|open| open.file != file::id(&self.path)) {
            self.open = None;
            let known = self.known.before();
            let open = Open::new(&self.path).map_err(|error| StorageError::Unavailable(error.to_string()))?;
            self.known.sees(Head { epoch: open.epoch, sequence: open.sequence }, known)?;
            self.open = Some(open);
        }
        match &mut self.open {
            Some(open) => Ok((open, &self.clock, self.policy)),
            None => Err(StorageError::Unavailable("not open".to_owned())),
        }
    }
}

impl Open {
    fn new(path: &Path) -> Result<Self, rusqlite::Error> {
        // Before it is opened: if it is replaced in between, the next batch sees that.
        let file = file::id(path);
        let connection = connect(path)?;
        let (epoch, sequence, token_floor) =
            connection.query_row("SELECT epoch, sequence, token_floor FROM log_head", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let last_alive = connection.query_row("SELECT last_alive FROM server_life", [], |row| row.get(0))?;
        let owner_locks = load::owner_locks(&connection)?;
        let last_alive = Timestamp::from_millis(last_alive);
        Ok(Self { connection, file, last_alive, token_floor, epoch, sequence, owner_locks })
    }

    fn commit(
        &mut self,
        commands: &[Command],
        policy: Policy,
        clock: &Clock,
    ) -> Result<(Committed, Timestamp), StorageError> {
        self.execute("BEGIN IMMEDIATE").map_err(|error| StorageError::Unavailable(error.to_string()))?;
        let (batch, last_alive) = match self.run(commands, policy, clock) {
            Ok(done) => done,
            Err(error) => {
                // If even this fails, dropping the connection rolls back.
                let _ = self.execute("ROLLBACK");
                return Err(classify(&error));
            }
        };
        if let Err(error) = self.execute("COMMIT") {
            let _ = self.execute("ROLLBACK");
            return Err(StorageError::OutcomeUnknown(error.to_string()));
        }
        self.last_alive = last_alive;
        let base = self.sequence;
        self.sequence += i64::try_from(batch.events.len()).unwrap_or_default();
        self.count(&batch.changes);
        let appended = Appended::after(base, batch.events).into_iter().collect();
        Ok((Committed { outcomes: batch.outcomes, appended, ..Committed::default() }, last_alive))
    }

    /// Everything between BEGIN and COMMIT. Answers the last sign of life as the rows have it.
    fn run<'c>(
        &self,
        commands: &'c [Command],
        policy: Policy,
        clock: &Clock,
    ) -> Result<(Batch<'c>, Timestamp), rusqlite::Error> {
        let now = clock.now();
        let alive = self.live(now)?;
        let mut batch = Batch::new(commands, policy);
        batch.state.token_floor = self.token_floor;
        load::load(&self.connection, &mut batch)?;
        for owner in batch.lockers() {
            let count = self.owner_locks.get(&owner).copied().unwrap_or_default();
            batch.state.owner_locks.insert(owner, count);
        }
        batch.decide(now);
        save::save(&self.connection, &batch, self.sequence)?;
        Ok((batch, alive))
    }

    /// A sign of life every second; after a gap, grace for every lock that was alive when it began.
    fn live(&self, now: Timestamp) -> Result<Timestamp, rusqlite::Error> {
        if now.millis_since(self.last_alive) < Life::BEAT_MS {
            return Ok(self.last_alive);
        }
        if Life::is_outage(self.last_alive, now) {
            save::grace(&self.connection, self.last_alive, now)?;
        }
        self.connection
            .prepare_cached("UPDATE server_life SET last_alive = ?1 WHERE id = 1")?
            .execute([now.millis()])?;
        Ok(now)
    }

    fn execute(&self, sql: &str) -> Result<usize, rusqlite::Error> {
        self.connection.prepare_cached(sql)?.execute([])
    }

    fn count(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Grant(lock) => {
                    *self.owner_locks.entry((lock.key.tenant.clone(), lock.holder.owner.clone())).or_default() += 1;
                }
                Change::End { lock, .. } => {
                    let owner = (lock.key.tenant.clone(), lock.holder.owner.clone());
                    if let Some(count) = self.owner_locks.get_mut(&owner) {
                        *count -= 1;
                        if *count == 0 {
                            self.owner_locks.remove(&owner);
                        }
                    }
                }
                Change::Keep(_) | Change::Document { .. } | Change::Remember { .. } => {}
            }
        }
    }
}

/// A constraint is one command's own fault; everything else is the database's.
fn classify(error: &rusqlite::Error) -> StorageError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) | None => {
            StorageError::Conflict(error.to_string())
        }
        Some(_) => StorageError::Unavailable(error.to_string()),
    }
}
