//! PostgreSQL as a home of storage, shared by any number of servers.
//!
//! One batch, one transaction at READ COMMITTED:
//! 1. One call of `doclock_lock_rows` locks `documents` rows in key order, then `document_locks` rows in key order, and then
//!    reads memos, the time and the log's head, each by a statement of its own: one that had to wait for a lock has an
//!    old view of everything but the locked row. A document whose row must be there and was not read is inserted, and
//!    all is loaded again: its first lock may have been committed between two of the statements. How earlier locks ended
//!    is read under those locks.
//! 2. The commands are decided; what changed is written by one statement.
//! 3. Its last part locks `log_head`, under the epoch that was read, which gives the events their sequences: gap-free, in
//!    commit order. If anything were waited for after that, everyone would wait with it.
//!
//! Expiry takes its steps by the same function, which then picks the locks that are due and skips those that somebody else
//! has locked. A writer of its own does this and the other chores.
//!
//! Plain heartbeats and unlocks lock no `documents` row: a live lock that is extended or ended needs nothing of it. One
//! that would be refused is left out and decided the long way, in a transaction of its own: a statement that waited for
//! a lock row cannot see the row that has taken its place.
//!
//! Time is the database's, plus an offset that absorbs steps back. Timeouts keep a frozen server from stopping the
//! others, and patience with an answer keeps a database that hangs from stopping this one. A connection that failed is
//! dropped, and the next attempt opens a new one.

pub mod epoch;
mod line;
mod load;
pub mod notify;
mod quick;
mod save;
mod time;

use std::{cell::OnceCell, future::Future, io, str::FromStr, sync::Arc, time::Duration};

use migration::{Migrator, MigratorTrait as _};
use quick::Quick;
use sea_orm::{
    DatabaseConnection, DbErr, RuntimeErr, SqlxPostgresConnector,
    sqlx::{
        self, Connection as _, Executor as _, PgConnection,
        postgres::{PgConnectOptions, PgPoolOptions},
    },
};
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::{
    LONGEST_TTL_MS, Pools, StorageError,
    batch::{Appended, Batch, Committed, Expired},
    event_log::{Known, KnownHead},
};
use crate::{
    locking::{Command, Expire, LeaseId, Policy, Timestamp},
    time::{clock::Clock, liveness::Life},
};
use load::Wish;
use time::Time;

const READERS: u32 = 6;
const OWN_READERS: u32 = 2;
/// Two for requests, and one for chores.
const WRITERS: usize = 3;
/// Attempts at a batch that met a deadlock, a lock timeout or a connection that had gone stale.
const ATTEMPTS: usize = 4;
/// How long the database may take for an answer. Its own timeouts are shorter: it is away if it does not keep them.
const PATIENCE: Duration = Duration::from_secs(5);
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// For the migrations of servers that start at the same time. Any number, as long as it is always this one.
const MIGRATION_LOCK: i64 = 0x0064_6f63_6c6f_636b;
/// For the one server that prunes.
const PRUNE_LOCK: i64 = MIGRATION_LOCK + 1;

/// Brings the schema up to date. Answers what to read with, how to connect, and the database's time.
pub(super) async fn open(url: &str) -> Result<(Pools, PgConnectOptions, Timestamp), DbErr> {
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
    let timed = plain.options([
        ("lock_timeout", "2s"),
        // Longer, or a statement that waits for a lock would end by this one, which is not tried again.
        ("statement_timeout", "4s"),
        ("idle_in_transaction_session_timeout", "2s"),
        ("synchronous_commit", "on"),
    ]);
    let options = timed.clone().options([
        // Every statement of a batch goes by key. The statistics of a young table would have it read whole, and the
        // plan of a prepared statement stays.
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        // Planning a batch's statement takes longer than running it.
        ("plan_cache_mode", "force_generic_plan"),
        ("jit", "off"),
    ]);
    let pools = Pools { reads: pool(timed.clone(), READERS), own: pool(timed, OWN_READERS) };
    Ok((pools, options, Timestamp::from_millis(now)))
}

fn failed(error: sqlx::Error) -> DbErr {
    DbErr::Conn(RuntimeErr::SqlxError(Arc::new(error)))
}

pub(super) fn pool(options: PgConnectOptions, connections: u32) -> DatabaseConnection {
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(Duration::from_secs(3))
        .connect_lazy_with(options);
    SqlxPostgresConnector::from_sqlx_postgres_pool(pool)
}

async fn seed(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO log_head (id, epoch, sequence, token_floor) VALUES (1, $1, 0, 0) ON CONFLICT DO NOTHING")
        .bind(Uuid::new_v4())
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
    pub fn several(
        options: &PgConnectOptions,
        policy: Policy,
        clock: &Clock,
        life: &Arc<Life>,
    ) -> io::Result<Vec<Self>> {
        let known = Arc::new(KnownHead::default());
        let writer = |_| Self::new(options.clone(), policy, clock.clone(), Arc::clone(life), Arc::clone(&known));
        (0..WRITERS).map(writer).collect()
    }

    /// `known` is what all writers of this process have seen.
    fn new(
        options: PgConnectOptions,
        policy: Policy,
        clock: Clock,
        life: Arc<Life>,
        known: Arc<KnownHead>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let session = Session {
            options,
            policy,
            clock,
            life,
            connection: None,
            last_beat: Timestamp::default(),
            last_used: Timestamp::default(),
            latest: Timestamp::default(),
            known,
        };
        Ok(Self { runtime, session })
    }

    pub fn commit(&mut self, commands: &[Command]) -> Result<Committed, StorageError> {
        let commands: Vec<_> = commands.iter().collect();
        self.runtime.block_on(self.session.commit(&commands))
    }

    pub fn beat(&mut self) -> Result<(), StorageError> {
        self.runtime.block_on(self.session.keep_trying(async |session| session.beat().await))
    }

    pub fn expire(&mut self, limit: u32) -> Result<Expired, StorageError> {
        self.runtime.block_on(self.session.keep_trying(async |session| session.expire(limit).await))
    }

    pub fn renew_tickets(&mut self, tickets: &[LeaseId]) -> Result<Vec<LeaseId>, StorageError> {
        self.runtime.block_on(self.session.keep_trying(async |session| {
            session.beat().await?;
            in_time(PATIENCE, async {
                let now = session.time_now().await?;
                Ok(line::renew_tickets(session.connection()?, tickets, now).await?)
            })
            .await
        }))
    }

    pub fn delete_dead_tickets(&mut self, limit: u32) -> Result<usize, StorageError> {
        self.runtime.block_on(self.session.keep_trying(async |session| {
            session.beat().await?;
            in_time(PATIENCE, async {
                let now = session.time_now().await?;
                Ok(line::delete_dead_tickets(session.connection()?, now, limit).await?)
            })
            .await
        }))
    }

    pub fn prune(&mut self, limit: u32) -> Result<usize, StorageError> {
        let pruned = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, self.session.prune(limit)).await });
        let pruned = pruned.map_err(|_| NO_ANSWER.to_owned()).and_then(|pruned| pruned.map_err(|e| e.to_string()));
        pruned.map_err(|reason| {
            self.session.connection = None;
            StorageError::Unavailable(reason)
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
    last_used: Timestamp,
    /// The latest time a decision was made at.
    latest: Timestamp,
    known: Arc<KnownHead>,
}

const NO_ANSWER: &str = "the database does not answer";

/// How an attempt ended, if not well.
#[derive(Debug)]
enum Failure {
    /// Nothing happened, and trying again may help.
    Again(String),
    /// Nothing happened because time has to be put right first.
    WrongTime,
    Final(StorageError),
}

/// Before COMMIT is sent, a failure means that nothing happened.
impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let Some(code) = error.as_database_error().map(|error| error.code().unwrap_or_default().into_owned()) else {
            // The connection is gone; a new one may be had.
            return Self::Again(error.to_string());
        };
        match code.as_str() {
            // Serialization failure, deadlock, lock timeout; ended by the administrator, by a restart, for idling.
            "40001" | "40P01" | "55P03" | "57P01" | "57P02" | "57P03" | "25P03" => Self::Again(error.to_string()),
            code if code.starts_with("22") || code.starts_with("23") => {
                Self::Final(StorageError::Conflict(error.to_string()))
            }
            _ => Self::Final(StorageError::Unavailable(error.to_string())),
        }
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Final(error)
    }
}

/// A batch decided and written, to be committed.
struct Decided<'c> {
    batch: Batch<'c>,
    left: Vec<usize>,
    time: Time,
    sequence: Option<i64>,
}

/// What [`Session::attempt`] got done; the positions are of commands left for the long way.
struct Attempted {
    committed: Committed,
    left: Vec<usize>,
}

impl Session {
    async fn commit(&mut self, commands: &[&Command]) -> Result<Committed, StorageError> {
        let quick = quick::documents(commands);
        let Attempted { mut committed, left } = self.persist(commands, &quick).await?;
        if !left.is_empty() {
            self.commit_the_long_way(commands, left, &mut committed).await;
        }
        Ok(committed)
    }

    /// Runs the commands left in a transaction of their own, with their documents locked. If one of them conflicts, each
    /// runs alone, so that it fails alone. What was committed before stays committed.
    async fn commit_the_long_way(&mut self, commands: &[&Command], left: Vec<usize>, committed: &mut Committed) {
        let again: Vec<_> = left.iter().map(|position| commands[*position]).collect();
        match self.persist(&again, &Quick::new()).await {
            Ok(long) => {
                for (position, outcome) in left.into_iter().zip(long.committed.outcomes) {
                    committed.outcomes[position] = outcome;
                }
                committed.appended.extend(long.committed.appended);
            }
            Err(StorageError::Conflict(_)) if left.len() > 1 => {
                for position in left {
                    Box::pin(self.commit_the_long_way(commands, vec![position], committed)).await;
                }
            }
            Err(error) => left.into_iter().for_each(|position| committed.outcomes[position] = Err(error.clone())),
        }
    }

    async fn persist(&mut self, commands: &[&Command], quick: &Quick<'_>) -> Result<Attempted, StorageError> {
        self.keep_trying(async |session| session.attempt(commands, quick).await).await
    }

    /// Connects if need be and runs `attempt` until it succeeds, at most `ATTEMPTS` times. Between two attempts time is
    /// put right if it was wrong, and a connection that failed is dropped.
    async fn keep_trying<T>(
        &mut self,
        mut attempt: impl AsyncFnMut(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, StorageError> {
        let mut last = "time could not be put right".to_owned();
        for _ in 0..ATTEMPTS {
            let mut attempted = self.connect().await;
            if attempted.is_ok() {
                match attempt(self).await {
                    Ok(done) => return Ok(done),
                    Err(Failure::WrongTime) => attempted = in_time(PATIENCE, self.put_time_right()).await,
                    Err(failure) => attempted = Err(failure),
                }
            }
            match attempted {
                Ok(()) | Err(Failure::WrongTime) => {}
                Err(Failure::Again(reason)) => {
                    tracing::debug!(%reason, "tried again");
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
        self.beat().await?;
        let decided = in_time(PATIENCE, self.prepare(commands, quick)).await?;
        let left = decided.left.clone();
        let (batch, base) = self.finish(decided).await?;
        Ok(Attempted { committed: batch.committed(base), left })
    }

    /// One step of expiry. Rows that someone else has locked are left to them, so that nothing is waited for here but
    /// `log_head`, and several servers share the work.
    async fn expire(&mut self, limit: u32) -> Result<Expired, Failure> {
        let (command, known, policy) = (OnceCell::new(), self.known.before(), self.policy);
        let wish = Wish { due_limit: limit, ..self.wish(known) };
        let (decided, looked_at, wanted) = in_time(PATIENCE, async {
            let connection = self.connection()?;
            connection.execute("BEGIN").await?;
            let found = load::lock_rows(connection, &wish).await?;
            let looked_at = found.postponed + found.locks.len() + found.wanted.len();
            let command = command.get_or_init(|| Command::Expire(Expire::of(&found.locks)));
            let mut batch = Batch::new([command], policy);
            batch.state.add_locks(found.locks);
            Ok((self.decide(batch, found.time, known, &Quick::new()).await?, looked_at, found.wanted))
        })
        .await?;
        let (batch, base) = self.finish(decided).await?;
        Ok(Expired { looked_at, appended: Appended::after(base, batch.events), wanted })
    }

    /// Everything before COMMIT.
    async fn prepare<'c>(&mut self, commands: &[&'c Command], quick: &Quick<'_>) -> Result<Decided<'c>, Failure> {
        let known = self.known.before();
        let wish = self.wish(known);
        let mut batch = Batch::new(commands.iter().copied(), self.policy);
        let connection = self.connection()?;
        connection.execute("BEGIN").await?;
        let time = load::load(connection, &mut batch, quick, wish).await?;
        self.decide(batch, time, known, quick).await
    }

    fn wish(&self, known: Option<Known>) -> Wish<'static> {
        Wish {
            known_sequence: known.map(|known| known.head.sequence),
            manual_now: self.clock.manual_now(),
            ..Wish::default()
        }
    }

    /// Decides on what was loaded, and writes it.
    async fn decide<'c>(
        &mut self,
        mut batch: Batch<'c>,
        time: Time,
        known: Option<Known>,
        quick: &Quick<'_>,
    ) -> Result<Decided<'c>, Failure> {
        if time.is_wrong(self.latest) {
            self.connection()?.execute("ROLLBACK").await?;
            return Err(Failure::WrongTime);
        }
        self.known.sees(time.head, known, time.there)?;
        batch.state.token_floor = time.token_floor;
        let now = self.clock.told(time.now);
        let left = batch.decide_if(now, |needs, wanted, decision| quick::accepts(needs, wanted, decision, quick))?;
        let sequence = save::save(self.connection()?, &batch, time.head.head.epoch).await?;
        Ok(Decided { batch, left, time, sequence })
    }

    /// Commits. Answers the batch with the sequence before its events.
    async fn finish<'c>(&mut self, decided: Decided<'c>) -> Result<(Batch<'c>, i64), Failure> {
        commit(self.connection()?).await?;
        let Decided { batch, time, sequence, .. } = decided;
        (self.latest, self.last_used) = (self.latest.max(time.now), self.clock.now());
        self.life.seen(time.last_alive, &time.outages);
        if let (Some(sequence), Some(last)) = (sequence, batch.events.last()) {
            self.known.wrote(sequence, last);
        }
        let base = sequence.unwrap_or_default() - i64::try_from(batch.events.len()).unwrap_or_default();
        Ok((batch, base))
    }

    async fn put_time_right(&mut self) -> Result<(), Failure> {
        let (manual_now, latest) = (self.clock.manual_now(), self.latest);
        Ok(time::put_right(self.connection()?, manual_now, latest).await?)
    }

    fn connection(&mut self) -> Result<&mut PgConnection, Failure> {
        self.connection.as_mut().ok_or_else(|| Failure::Again("not connected".to_owned()))
    }

    /// A connection that was idle is tried here, where nothing is at stake.
    async fn connect(&mut self) -> Result<(), Failure> {
        if let Some(connection) = &mut self.connection
            && self.clock.now().millis_since(self.last_used) >= Life::BEAT_MS
            && !matches!(tokio::time::timeout(CONNECT_PATIENCE, connection.ping()).await, Ok(Ok(())))
        {
            self.connection = None;
        }
        if self.connection.is_none() {
            let connecting = tokio::time::timeout(CONNECT_PATIENCE, PgConnection::connect_with(&self.options)).await;
            let connected = connecting.map_err(|_| StorageError::Unavailable(NO_ANSWER.to_owned()))?;
            self.connection = Some(connected.map_err(|error| StorageError::Unavailable(error.to_string()))?);
        }
        Ok(())
    }

    /// A sign of life every second, outside the transaction: its row is everyone's. By every writer: who commits is
    /// alive, and batches that have to wait do not keep the chores' writer from giving one. Not after a gap, which
    /// [`time::put_right`] must see.
    async fn beat(&mut self) -> Result<(), Failure> {
        if self.clock.now().millis_since(self.last_beat) < Life::BEAT_MS {
            return Ok(());
        }
        let time = in_time(PATIENCE, self.write_last_alive()).await?;
        self.life.seen(time.now, &time.outages);
        (self.last_beat, self.last_used) = (time.now, self.clock.now());
        Ok(())
    }

    async fn write_last_alive(&mut self) -> Result<Time, Failure> {
        let (known, latest) = (self.known.before(), self.latest);
        let Wish { known_sequence, manual_now, .. } = self.wish(known);
        let connection = self.connection()?;
        let time = time::read(connection, known_sequence, manual_now).await?;
        if time.is_wrong(latest) {
            return Err(Failure::WrongTime);
        }
        sqlx::query("UPDATE server_life SET last_alive = $1 WHERE last_alive < $1 AND $1 - last_alive <= $2")
            .bind(time.now.millis())
            .bind(Life::OUTAGE_MS)
            .execute(connection)
            .await?;
        self.known.sees(time.head, known, time.there)?;
        Ok(time)
    }

    /// The database's time, once it is right.
    async fn time_now(&mut self) -> Result<Timestamp, Failure> {
        let latest = self.latest;
        let Wish { known_sequence, manual_now, .. } = self.wish(self.known.before());
        let time = time::read(self.connection()?, known_sequence, manual_now).await?;
        if time.is_wrong(latest) { Err(Failure::WrongTime) } else { Ok(time.now) }
    }

    /// Events go in the order of the log, one server at a time: a hole that one leaves behind and another makes larger
    /// would not be seen by those who read on from before it.
    async fn prune(&mut self, limit: u32) -> Result<usize, sqlx::Error> {
        let (now, policy) = (self.clock.now(), self.policy);
        let connection = match &mut self.connection {
            Some(connection) => connection,
            empty => empty.insert(PgConnection::connect_with(&self.options).await?),
        };
        let mut transaction = connection.begin().await?;
        let is_ours: bool = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)")
            .bind(PRUNE_LOCK)
            .fetch_one(&mut *transaction)
            .await?;
        if !is_ours {
            return Ok(0);
        }
        let events = sqlx::query(
            "DELETE FROM events WHERE sequence <= (SELECT max(sequence) FROM
               (SELECT sequence, at FROM events ORDER BY sequence LIMIT $2) AS oldest WHERE at <= $1)",
        )
        .bind(now.plus_millis(-policy.event_retention_ms).millis())
        .bind(i64::from(limit))
        .execute(&mut *transaction)
        .await?;
        let memos = sqlx::query(
            "DELETE FROM request_memos WHERE (tenant, owner_id, request_id) IN
               (SELECT tenant, owner_id, request_id FROM request_memos WHERE created_at <= $1 LIMIT $2
                FOR UPDATE SKIP LOCKED)",
        )
        .bind(now.plus_millis(-policy.memo_retention_ms).millis())
        .bind(i64::from(limit))
        .execute(&mut *transaction)
        .await?;
        let asks = sqlx::query(
            "DELETE FROM lock_handovers WHERE handover_id IN
               (SELECT handover_id FROM lock_handovers WHERE asked_at <= $1 AND outcome IS NOT NULL LIMIT $2
                FOR UPDATE SKIP LOCKED)",
        )
        .bind(now.plus_millis(-policy.memo_retention_ms).millis())
        .bind(i64::from(limit))
        .execute(&mut *transaction)
        .await?;
        // Expiry has looked at every lock that was written before them, and has written down its real end.
        sqlx::query("DELETE FROM outages WHERE back_at + $1 < coalesce((SELECT min(due_at) FROM document_locks), $2)")
            .bind(LONGEST_TTL_MS)
            .bind(now.millis())
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(usize::try_from(events.rows_affected() + memos.rows_affected() + asks.rows_affected()).unwrap_or(usize::MAX))
    }
}

/// A COMMIT that was answered with a conflict did not happen. Anything else may have come after it was done: a server
/// that ends a connection says so even when it has just committed.
async fn commit(connection: &mut PgConnection) -> Result<(), Failure> {
    let unknown = |reason: String| Failure::Final(StorageError::OutcomeUnknown(reason));
    match tokio::time::timeout(PATIENCE, connection.execute("COMMIT")).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if is_rolled_back(&error) => Err(error.into()),
        Ok(Err(error)) => Err(unknown(error.to_string())),
        Err(_) => Err(unknown(NO_ANSWER.to_owned())),
    }
}

fn is_rolled_back(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default();
    ["40001", "40002", "40P01"].contains(&&*code) || code.starts_with("23")
}

async fn in_time<T>(patience: Duration, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match tokio::time::timeout(patience, work).await {
        Ok(done) => done,
        Err(_) => Err(StorageError::Unavailable(NO_ANSWER.to_owned()).into()),
    }
}
