//! PostgreSQL as a home of storage, shared by any number of servers.
//!
//! One batch, one transaction at READ COMMITTED:
//! 1. `documents` rows are locked in key order (missing ones inserted), then `document_locks` rows in key order.
//!    Everything else is read by later statements, under those locks, the time last: a statement that had to wait for
//!    a lock has an old view of everything but the locked row.
//! 2. The commands are decided; what changed is written by one statement per table.
//! 3. `log_head` is locked last and gives the events their sequences: gap-free, in commit order.
//!
//! Plain heartbeats lock no `documents` row: a live lock that is extended needs nothing of it. A heartbeat that meets
//! anything else is left out and decided the long way in a transaction of its own.
//!
//! Time is the database's, plus an offset that absorbs steps back. Timeouts keep a frozen server from stopping the
//! others. A connection that failed is dropped, and the next batch opens a new one.

mod load;
mod save;

use std::{collections::HashMap, io, str::FromStr, sync::Arc, time::Duration};

use migration::{Migrator, MigratorTrait as _};
use sea_orm::{
    DatabaseConnection, DbErr, RuntimeErr, SqlxPostgresConnector,
    sqlx::{
        self, Connection as _, Executor as _, PgConnection, Row as _,
        postgres::{PgConnectOptions, PgPoolOptions},
    },
};
use tokio::runtime::Runtime;

use super::{
    StorageError, TICKET_MS,
    batch::{Appended, Batch, Committed},
    event_log::random_epoch,
};
use crate::{
    clock::Clock,
    life::Life,
    locking::{Change, Command, Decision, DocumentKey, Policy, Timestamp},
};

const READERS: u32 = 8;
/// Attempts at a batch that met a deadlock, a lock timeout or a connection that had gone stale.
const ATTEMPTS: usize = 4;
/// For the migrations of servers that start at the same time. Any number, as long as it is always this one.
const MIGRATION_LOCK: i64 = 0x0064_6f63_6c6f_636b;

/// Brings the schema up to date. Answers the pool to read with, how to connect, and the database's time.
pub(super) async fn open(url: &str) -> Result<(DatabaseConnection, PgConnectOptions, Timestamp), DbErr> {
    let plain = PgConnectOptions::from_str(url).map_err(failed)?.application_name("doclock");
    let mut guard = PgConnection::connect_with(&plain).await.map_err(failed)?;
    sqlx::query("SELECT pg_advisory_lock($1)").bind(MIGRATION_LOCK).execute(&mut guard).await.map_err(failed)?;
    let setup = pool(plain.clone(), 1);
    Migrator::up(&setup, None).await?;
    setup.close().await?;
    seed(&mut guard).await.map_err(failed)?;
    let now = sqlx::query_scalar(
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint + clock_offset FROM server_life",
    );
    let now: i64 = now.fetch_one(&mut guard).await.map_err(failed)?;
    // The lock goes with the connection.
    guard.close().await.map_err(failed)?;
    let options = plain.options([
        ("lock_timeout", "2s"),
        ("statement_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "2s"),
        ("synchronous_commit", "on"),
    ]);
    Ok((pool(options.clone(), READERS), options, Timestamp::from_millis(now)))
}

fn failed(error: sqlx::Error) -> DbErr {
    DbErr::Conn(RuntimeErr::SqlxError(Arc::new(error)))
}

fn pool(options: PgConnectOptions, connections: u32) -> DatabaseConnection {
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(Duration::from_secs(3))
        .connect_lazy_with(options);
    SqlxPostgresConnector::from_sqlx_postgres_pool(pool)
}

async fn seed(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO log_head (id, epoch, sequence, token_floor) VALUES (1, $1, 0, 0) ON CONFLICT DO NOTHING")
        .bind(random_epoch())
        .execute(&mut *connection)
        .await?;
    sqlx::query("INSERT INTO server_life (id, last_alive, clock_offset) VALUES (1, 0, 0) ON CONFLICT DO NOTHING")
        .execute(connection)
        .await?;
    Ok(())
}

/// A runtime of its own, so that it lives on the committer's thread as the writer for SQLite does.
#[derive(Debug)]
pub struct Writer {
    runtime: Runtime,
    session: Session,
}

impl Writer {
    pub fn new(options: PgConnectOptions, policy: Policy, clock: Clock, life: Arc<Life>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let session = Session { options, policy, clock, life, connection: None, last_beat: Timestamp::default() };
        Ok(Self { runtime, session })
    }

    pub fn commit(&mut self, commands: &[Command]) -> Result<Committed, StorageError> {
        let commands: Vec<_> = commands.iter().collect();
        self.runtime.block_on(self.session.commit(&commands))
    }

    pub fn prune(&mut self, limit: u32) -> Result<usize, StorageError> {
        self.runtime.block_on(self.session.prune(limit)).map_err(|error| {
            self.session.connection = None;
            StorageError::Unavailable(error.to_string())
        })
    }
}

#[derive(Debug)]
struct Session {
    options: PgConnectOptions,
    policy: Policy,
    clock: Clock,
    life: Arc<Life>,
    connection: Option<PgConnection>,
    last_beat: Timestamp,
}

/// How an attempt ended, if not well.
#[derive(Debug)]
enum Failure {
    /// Nothing happened, and trying again may help.
    Again(String),
    /// Nothing happened because time had to be put right first; now it is.
    TimePutRight,
    Final(StorageError),
}

/// Before COMMIT is sent, a failure means that nothing happened.
impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
        match code.as_str() {
            // Serialization failure, deadlock, lock timeout.
            "40001" | "40P01" | "55P03" => Self::Again(error.to_string()),
            code if code.starts_with("22") || code.starts_with("23") => {
                Self::Final(StorageError::Conflict(error.to_string()))
            }
            _ => Self::Final(StorageError::Unavailable(error.to_string())),
        }
    }
}

/// What [`Session::attempt`] got done; the positions are of heartbeats left for the long way.
struct Attempted {
    committed: Committed,
    left: Vec<usize>,
}

impl Session {
    async fn commit(&mut self, commands: &[&Command]) -> Result<Committed, StorageError> {
        let quick = quick_documents(commands);
        let Attempted { mut committed, left } = self.persist(commands, &quick).await?;
        if !left.is_empty() {
            let again: Vec<_> = left.iter().map(|position| commands[*position]).collect();
            let long = self.persist(&again, &HashMap::new()).await?;
            for (position, outcome) in left.into_iter().zip(long.committed.outcomes) {
                committed.outcomes[position] = outcome;
            }
            committed.appended.extend(long.committed.appended);
        }
        Ok(committed)
    }

    async fn persist(&mut self, commands: &[&Command], quick: &Quick<'_>) -> Result<Attempted, StorageError> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match self.attempt(commands, quick).await {
                Ok(attempted) => return Ok(attempted),
                Err(Failure::TimePutRight) => {}
                Err(Failure::Again(reason)) => {
                    tracing::debug!(%reason, "batch tried again");
                    last = reason;
                    self.connection = None;
                }
                Err(Failure::Final(error)) => {
                    self.connection = None;
                    return Err(error);
                }
            }
        }
        Err(StorageError::Unavailable(last))
    }

    async fn attempt(&mut self, commands: &[&Command], quick: &Quick<'_>) -> Result<Attempted, Failure> {
        self.connect().await?;
        self.beat().await?;
        let Some(connection) = &mut self.connection else { return Err(Failure::Again("not connected".to_owned())) };
        let mut batch = Batch::new(commands.iter().copied(), self.policy);
        connection.execute("BEGIN").await?;
        load::load(connection, &mut batch, quick).await?;
        let time = read_time(connection, &self.clock).await?;
        if time.is_wrong() {
            connection.execute("ROLLBACK").await?;
            put_time_right(connection, &self.clock).await?;
            return Err(Failure::TimePutRight);
        }
        batch.state.token_floor = time.token_floor;
        let now = self.clock.told(time.now);
        let left = batch.decide_if(now, |command, decision| !is_quick(command, quick) || extends_only(decision));
        let base = save::save(connection, &batch).await?;
        commit(connection).await?;
        self.life.seen(time.last_alive);
        let appended = Appended::after(base, batch.events).into_iter().collect();
        Ok(Attempted { committed: Committed { outcomes: batch.outcomes, appended }, left })
    }

    /// A stale connection is found out here, where nothing is at stake.
    async fn connect(&mut self) -> Result<(), Failure> {
        if let Some(connection) = &mut self.connection
            && self.clock.now().millis_since(self.last_beat) >= Life::BEAT_MS
            && connection.ping().await.is_err()
        {
            self.connection = None;
        }
        if self.connection.is_none() {
            let connecting = tokio::time::timeout(Duration::from_secs(3), PgConnection::connect_with(&self.options));
            let connected = connecting.await.map_err(|_| StorageError::Unavailable("connecting timed out".to_owned()));
            let connection = connected
                .map_err(Failure::Final)?
                .map_err(|error| Failure::Final(StorageError::Unavailable(error.to_string())))?;
            self.connection = Some(connection);
        }
        Ok(())
    }

    /// A sign of life every second, outside the batch: its row is everyone's. Not after a gap, which
    /// [`put_time_right`] must see.
    async fn beat(&mut self) -> Result<(), Failure> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if self.clock.now().millis_since(self.last_beat) < Life::BEAT_MS {
            return Ok(());
        }
        let time = read_time(connection, &self.clock).await?;
        if !time.is_wrong() {
            sqlx::query("UPDATE server_life SET last_alive = $1 WHERE last_alive < $1 AND $1 - last_alive <= 3000")
                .bind(time.now.millis())
                .execute(connection)
                .await?;
            self.life.seen(time.now);
            self.last_beat = time.now;
        }
        Ok(())
    }

    async fn prune(&mut self, limit: u32) -> Result<usize, sqlx::Error> {
        let now = self.clock.now();
        let connection = match &mut self.connection {
            Some(connection) => connection,
            empty => empty.insert(PgConnection::connect_with(&self.options).await?),
        };
        let events = sqlx::query(
            "DELETE FROM events WHERE sequence IN
               (SELECT sequence FROM (SELECT sequence, at FROM events ORDER BY sequence LIMIT $2) AS oldest WHERE at <= $1)",
        )
        .bind(now.plus_millis(-self.policy.event_retention_ms).millis())
        .bind(i64::from(limit))
        .execute(&mut *connection)
        .await?;
        let memos = sqlx::query(
            "DELETE FROM request_memos WHERE (tenant, owner_id, request_id) IN
               (SELECT tenant, owner_id, request_id FROM request_memos WHERE created_at <= $1 LIMIT $2)",
        )
        .bind(now.plus_millis(-self.policy.memo_retention_ms).millis())
        .bind(i64::from(limit))
        .execute(connection)
        .await?;
        Ok(usize::try_from(events.rows_affected() + memos.rows_affected()).unwrap_or(usize::MAX))
    }
}

/// Only a COMMIT whose answer is lost leaves its outcome unknown; one that was answered with an error did not happen.
async fn commit(connection: &mut PgConnection) -> Result<(), Failure> {
    connection.execute("COMMIT").await.map(|_| ()).map_err(|error| match error {
        sqlx::Error::Database(_) => Failure::from(error),
        _ => Failure::Final(StorageError::OutcomeUnknown(error.to_string())),
    })
}

/// Documents with a plain heartbeat, and whether it is alone on them in its batch.
type Quick<'c> = HashMap<&'c DocumentKey, bool>;

fn quick_documents<'c>(commands: &[&'c Command]) -> Quick<'c> {
    let mut quick = Quick::new();
    for command in commands {
        let is_plain = matches!(command, Command::Extend(extend)
            if extend.keys.len() == 1 && extend.request.is_none() && extend.metadata.is_none());
        for key in command.keys() {
            quick.entry(key).and_modify(|is_alone| *is_alone = false).or_insert(is_plain);
        }
    }
    quick.retain(|_, is_alone| *is_alone);
    quick
}

fn is_quick(command: &Command, quick: &Quick<'_>) -> bool {
    command.keys().all(|key| quick.contains_key(key)) && matches!(command, Command::Extend(_))
}

fn extends_only(decision: &Decision) -> bool {
    decision.outcome.failed.is_empty() && decision.changes.iter().all(|change| matches!(change, Change::Keep(_)))
}

/// The time, and what it has to be compared with.
struct Time {
    now: Timestamp,
    last_alive: Timestamp,
    token_floor: i64,
}

impl Time {
    /// Behind the last sign of life: the clock was stepped back. Far ahead of it: an outage, or stepped ahead.
    fn is_wrong(&self) -> bool {
        self.now < self.last_alive || Life::is_outage(self.last_alive, self.now)
    }
}

/// Read by a statement of its own, after the rows have been locked. A manual clock stands in for the database's.
async fn read_time(connection: &mut PgConnection, clock: &Clock) -> Result<Time, sqlx::Error> {
    let row = sqlx::query(
        "SELECT coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + clock_offset), last_alive, token_floor
         FROM server_life, log_head",
    )
    .bind(clock.manual_now().map(Timestamp::millis))
    .fetch_one(connection)
    .await?;
    Ok(Time {
        now: Timestamp::from_millis(row.try_get(0)?),
        last_alive: Timestamp::from_millis(row.try_get(1)?),
        token_floor: row.try_get(2)?,
    })
}

/// One transaction, by the server that gets to it first: a step back goes into the offset, and after an outage every
/// lock that was alive when it began gets a whole ttl from now.
async fn put_time_right(connection: &mut PgConnection, clock: &Clock) -> Result<(), sqlx::Error> {
    connection.execute("BEGIN").await?;
    // There may be a million locks to extend.
    connection.execute("SET LOCAL statement_timeout = '60s'").await?;
    connection.execute("SELECT 1 FROM server_life FOR UPDATE").await?;
    let Time { now, last_alive, .. } = read_time(connection, clock).await?;
    if now < last_alive {
        sqlx::query("UPDATE server_life SET clock_offset = clock_offset + $1")
            .bind(last_alive.millis_since(now))
            .execute(&mut *connection)
            .await?;
    } else if Life::is_outage(last_alive, now) {
        sqlx::query(
            "UPDATE document_locks SET expires_at = $1 + ttl_seconds * 1000 WHERE (tenant, room, document, slot) IN
               (SELECT tenant, room, document, slot FROM document_locks WHERE expires_at > $2
                ORDER BY tenant, room, document, slot FOR UPDATE)",
        )
        .bind(now.millis())
        .bind(last_alive.millis())
        .execute(&mut *connection)
        .await?;
        sqlx::query("UPDATE lock_waiters SET expires_at = $1 WHERE expires_at > $2")
            .bind(now.plus_millis(TICKET_MS).millis())
            .bind(last_alive.millis())
            .execute(&mut *connection)
            .await?;
        sqlx::query("UPDATE server_life SET last_alive = $1").bind(now.millis()).execute(&mut *connection).await?;
    }
    connection.execute("COMMIT").await?;
    Ok(())
}
