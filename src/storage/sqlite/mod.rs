//! SQLite as a home of storage: one connection on a thread of its own, write-ahead log, `synchronous=FULL`.
//!
//! rusqlite with cached statements rather than sea-orm: half the time per command (docs/decisions).
//!
//! One transaction: BEGIN IMMEDIATE, a sign of life if one is due (after an outage, grace first), load, decide, save, COMMIT.
//! What the thread knows of the rows (head, outages, locks per owner) changes only after COMMIT: a batch that fails leaves
//! it as it was.
//!
//! After an error that is not one command's own, the connection is dropped and the next batch opens a new one: a file
//! that was locked, full, broken or away is served again as soon as it is there. A file that is not where it was is
//! neither written nor read any more: what would be answered from it is gone once another one takes its place.

pub mod backup;
pub mod epoch;
mod file;
mod line;
mod load;
mod pulse;
mod save;

use std::{
    cell::{Cell, OnceCell},
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
    LONGEST_TTL_MS, OpenError, Pools, StorageError,
    batch::{Appended, Batch, Committed, Expired},
    event_log::{Head, KnownHead},
};
use crate::{
    locking::{
        Change, Command, Expire, LeaseId, Policy, Timestamp,
        names::{OwnerId, TenantId},
    },
    time::{
        clock::Clock,
        liveness::{Life, Outage, Outages},
    },
};
use file::{FileId, Watch};
use pulse::Pulse;

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
    // A link to the file leads to the same claim.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let lock_path = real.with_added_extension("lock");
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
        [Uuid::new_v4()],
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
    /// How many locks each owner had when the last connection was dropped, at that head.
    counted: Option<(Head, OwnerLocks)>,
}

type OwnerLocks = HashMap<(TenantId, OwnerId), u32>;

/// A connection, and what its thread knows of the rows because nobody else writes them.
#[derive(Debug)]
struct Open {
    connection: Connection,
    file: Option<FileId>,
    last_alive: Timestamp,
    outages: Arc<Outages>,
    pulse: Arc<Pulse>,
    token_floor: i64,
    head: Head,
    owner_locks: OwnerLocks,
}

/// The moment of a transaction, and what the database knows of life then.
struct Moment {
    now: Timestamp,
    last_alive: Timestamp,
    outages: Arc<Outages>,
}

impl Writer {
    pub fn new(path: PathBuf, policy: Policy, clock: Clock, life: Arc<Life>) -> Self {
        Self { path, policy, clock, life, open: None, known: KnownHead::default(), counted: None }
    }

    /// All commands in one transaction, or none.
    pub fn commit(&mut self, commands: &[Command]) -> Result<Committed, StorageError> {
        let policy = self.policy;
        let (batch, base) = self.transact(|open, moment| {
            let mut batch = Batch::new(commands, policy);
            load::load(&open.connection, &mut batch, &moment.outages, moment.now)?;
            Ok(batch)
        })?;
        Ok(batch.committed(base))
    }

    /// One step of expiry.
    pub fn expire(&mut self, limit: u32) -> Result<Expired, StorageError> {
        let (policy, command, looked_at) = (self.policy, OnceCell::new(), Cell::new(0));
        let wanted = Cell::new(Vec::new());
        let (batch, base) = self.transact(|open, moment| {
            let postponed = save::postpone(&open.connection, moment.now, limit)?;
            let mut overdue = load::overdue(&open.connection, &moment.outages, moment.now, limit)?;
            // Neighbours in the tables one after the other: half of what is written is the pages they share.
            overdue.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            let keys = load::overdue_and_wanted(&open.connection, moment.now, limit)?;
            looked_at.set(postponed + overdue.len() + keys.len());
            wanted.set(keys);
            let command = command.get_or_init(|| Command::Expire(Expire::of(&overdue)));
            let mut batch = Batch::new([command], policy);
            batch.state.add_locks(overdue);
            Ok(batch)
        })?;
        let appended = Appended::after(base, batch.events);
        Ok(Expired { looked_at: looked_at.get(), appended, wanted: wanted.into_inner() })
    }

    /// Gives tickets another life. Returns those that are not there any more.
    pub fn renew_tickets(&mut self, tickets: &[LeaseId]) -> Result<Vec<LeaseId>, StorageError> {
        let (policy, gone) = (self.policy, Cell::new(Vec::new()));
        self.transact(|open, moment| {
            gone.set(line::renew_tickets(&open.connection, tickets, moment.now)?);
            Ok(Batch::new([], policy))
        })?;
        Ok(gone.into_inner())
    }

    /// Deletes up to `limit` tickets that nobody has renewed; returns how many there were.
    pub fn delete_dead_tickets(&mut self, limit: u32) -> Result<usize, StorageError> {
        let (policy, deleted) = (self.policy, Cell::new(0));
        self.transact(|open, moment| {
            deleted.set(line::delete_dead_tickets(&open.connection, moment.now, limit)?);
            Ok(Batch::new([], policy))
        })?;
        Ok(deleted.get())
    }

    /// What `load` has put into a batch is decided, written and committed. Answers it with the sequence before its events.
    fn transact<'c>(
        &mut self,
        load: impl FnOnce(&Open, &Moment) -> Result<Batch<'c>, StorageError>,
    ) -> Result<(Batch<'c>, i64), StorageError> {
        let clock = self.clock.clone();
        let done = self.open().and_then(|open| open.transact(&clock, load));
        match (&done, &self.open) {
            (Ok((batch, _)), Some(open)) => {
                self.life.seen(open.last_alive, &open.outages);
                if let Some(last) = batch.events.last() {
                    self.known.wrote(open.head.sequence, last);
                }
            }
            (Ok(_), None) | (Err(StorageError::Conflict(_)), _) => {}
            (Err(_), _) => self.close(),
        }
        done
    }

    /// Deletes up to `limit` rows of each kind that are older than their retention; answers how many there were.
    pub fn prune(&mut self, limit: u32) -> Result<usize, StorageError> {
        let (now, policy) = (self.clock.now(), self.policy);
        let pruned = self.open().and_then(|open| Ok(prune(&open.connection, policy, now, limit)?));
        if pruned.is_err() {
            self.close();
        }
        pruned
    }

    fn open(&mut self) -> Result<&mut Open, StorageError> {
        if self.open.as_ref().is_some_and(|open| open.file != file::id(&self.path)) {
            self.close();
        }
        if self.open.is_none() {
            let known = self.known.before();
            let open = Open::new(&self.path, &self.clock, &mut self.counted);
            let open = open.map_err(|error| StorageError::Unavailable(error.to_string()))?;
            let there = known.map(|known| load::mark(&open.connection, known.head.sequence)).transpose()?.flatten();
            self.known.sees(load::head(&open.connection)?, known, there)?;
            self.open = Some(open);
        }
        self.open.as_mut().ok_or_else(|| StorageError::Unavailable("not open".to_owned()))
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.counted = Some((open.head, open.owner_locks));
        }
    }
}

impl Open {
    /// `counted` is what was counted at an earlier head; where the log has not gone on since, it still holds. It is taken
    /// last: an attempt that fails leaves it for the next, which need not read a million locks.
    fn new(path: &Path, clock: &Clock, counted: &mut Option<(Head, OwnerLocks)>) -> Result<Self, rusqlite::Error> {
        // Before it is opened: if it is replaced in between, the next batch sees that.
        let file = file::id(path);
        let connection = connect(path)?;
        let pulse = Arc::new(Pulse::new(clock.now()));
        let felt = (Arc::clone(&pulse), clock.clone());
        connection.progress_handler(
            Pulse::OPERATIONS,
            Some(move || {
                felt.0.felt(felt.1.now());
                false
            }),
        )?;
        let head = load::head(&connection)?.head;
        let token_floor = connection.query_row("SELECT token_floor FROM log_head", [], |row| row.get(0))?;
        let last_alive = connection.query_row("SELECT last_alive FROM server_life", [], |row| row.get(0))?;
        let outages = Arc::new(load::outages(&connection)?);
        let owner_locks = match counted.take() {
            Some((at, counted)) if at == head => counted,
            _ => load::owner_locks(&connection)?,
        };
        let last_alive = Timestamp::from_millis(last_alive);
        Ok(Self { connection, file, last_alive, outages, pulse, token_floor, head, owner_locks })
    }

    fn transact<'c>(
        &mut self,
        clock: &Clock,
        load: impl FnOnce(&Self, &Moment) -> Result<Batch<'c>, StorageError>,
    ) -> Result<(Batch<'c>, i64), StorageError> {
        self.execute("BEGIN IMMEDIATE")?;
        let (batch, moment) = match self.write(clock, load) {
            Ok(written) => written,
            Err(error) => {
                // If even this fails, dropping the connection rolls back.
                let _ = self.execute("ROLLBACK");
                return Err(error);
            }
        };
        if let Err(error) = self.execute("COMMIT") {
            let _ = self.execute("ROLLBACK");
            return Err(StorageError::OutcomeUnknown(error.to_string()));
        }
        (self.last_alive, self.outages) = (moment.last_alive, moment.outages);
        let base = self.head.sequence;
        self.head.sequence += i64::try_from(batch.events.len()).unwrap_or_default();
        self.count(&batch.changes);
        Ok((batch, base))
    }

    /// Everything between BEGIN and COMMIT.
    fn write<'c>(
        &self,
        clock: &Clock,
        load: impl FnOnce(&Self, &Moment) -> Result<Batch<'c>, StorageError>,
    ) -> Result<(Batch<'c>, Moment), StorageError> {
        let mut moment = self.moment(clock.now())?;
        self.pulse.begin(moment.now);
        let mut batch = load(self, &moment)?;
        batch.state.token_floor = self.token_floor;
        for owner in batch.lockers() {
            let count = self.owner_locks.get(&owner).copied().unwrap_or_default();
            batch.state.owner_locks.insert(owner, count);
        }
        batch.decide(moment.now)?;
        save::save(&self.connection, &batch, self.head)?;
        if let Some(alive) = self.pulse.since(moment.last_alive, clock.now()) {
            self.beat(alive)?;
            moment.last_alive = alive;
        }
        Ok((batch, moment))
    }

    /// A sign of life every second; after a gap, grace for every lock that was alive when it began.
    fn moment(&self, now: Timestamp) -> Result<Moment, StorageError> {
        let mut moment = Moment { now, last_alive: self.last_alive, outages: Arc::clone(&self.outages) };
        if now.millis_since(self.last_alive) < Life::BEAT_MS {
            return Ok(moment);
        }
        if Life::is_outage(self.last_alive, now) {
            let outages = self.outages.and(Outage { last_alive: self.last_alive, back: now });
            save::outages(&self.connection, &outages)?;
            line::grant_grace(&self.connection, self.last_alive, now)?;
            moment.outages = Arc::new(outages);
        }
        self.beat(now)?;
        moment.last_alive = now;
        Ok(moment)
    }

    fn beat(&self, now: Timestamp) -> Result<(), rusqlite::Error> {
        let beat = "UPDATE server_life SET last_alive = ?1 WHERE id = 1";
        self.connection.prepare_cached(beat)?.execute([now.millis()]).map(drop)
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
                        *count = count.saturating_sub(1);
                        if *count == 0 {
                            self.owner_locks.remove(&owner);
                        }
                    }
                }
                Change::Keep(_)
                | Change::Document { .. }
                | Change::Version { .. }
                | Change::Remember { .. }
                | Change::Forget(_)
                | Change::Queue(_)
                | Change::Dequeue(_)
                | Change::Ask(_)
                | Change::Answer(_) => {}
            }
        }
    }
}

fn prune(connection: &Connection, policy: Policy, now: Timestamp, limit: u32) -> Result<usize, rusqlite::Error> {
    let events = connection.execute(
        "DELETE FROM events WHERE sequence IN
           (SELECT sequence FROM (SELECT sequence, at FROM events ORDER BY sequence LIMIT ?2) WHERE at <= ?1)",
        params![now.plus_millis(-policy.event_retention_ms).millis(), limit],
    )?;
    let memos = connection.execute(
        "DELETE FROM request_memos WHERE (tenant, owner_id, request_id) IN
           (SELECT tenant, owner_id, request_id FROM request_memos WHERE created_at <= ?1 LIMIT ?2)",
        params![now.plus_millis(-policy.memo_retention_ms).millis(), limit],
    )?;
    // Expiry has looked at every lock that was written before them, and has written down its real end.
    connection.execute(
        "DELETE FROM outages WHERE back_at + ?1 < coalesce((SELECT min(due_at) FROM document_locks), ?2)",
        [LONGEST_TTL_MS, now.millis()],
    )?;
    let asks = line::prune_asks(connection, now.plus_millis(-policy.memo_retention_ms), limit)?;
    Ok(events + memos + asks)
}

/// A constraint is one command's own fault; everything else is the database's.
impl From<rusqlite::Error> for StorageError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) | None => {
                Self::Conflict(error.to_string())
            }
            Some(_) => Self::Unavailable(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_counted_is_kept_while_the_file_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let (path, away) = (folder.path().join("doclock.db"), folder.path().join("away"));
        let _opened = open(&path).await.unwrap();
        let (clock, life) = (Clock::system(Timestamp::default()), Arc::new(Life::new(Timestamp::default())));
        let mut writer = Writer::new(path.clone(), Policy::default(), clock, life);
        writer.commit(&[]).unwrap();
        fs::rename(&path, &away).unwrap();
        for _ in 0..3 {
            writer.commit(&[]).unwrap_err();
            assert!(writer.counted.is_some());
        }
        fs::rename(&away, &path).unwrap();
        writer.commit(&[]).unwrap();
        assert!(writer.counted.is_none(), "it is in use again");
    }
}
