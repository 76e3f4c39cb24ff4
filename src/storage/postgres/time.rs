//! The database's time, and what is done when it has jumped.

use sea_orm::sqlx::{self, Executor as _, PgConnection, Row as _, postgres::PgRow};

use crate::{
    clock::Clock,
    life::Life,
    locking::Timestamp,
    storage::{TICKET_MS, event_log::Head},
};

/// The time, what it has to be compared with, and the head of the log, which is read along with it.
pub(super) struct Time {
    pub now: Timestamp,
    pub last_alive: Timestamp,
    pub token_floor: i64,
    pub head: Head,
}

impl Time {
    /// From what `doclock_load` says of it.
    pub fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            now: Timestamp::from_millis(row.try_get(11)?),
            last_alive: Timestamp::from_millis(row.try_get(12)?),
            token_floor: row.try_get(7)?,
            head: Head { epoch: row.try_get(5)?, sequence: row.try_get(6)? },
        })
    }

    /// Behind what has been told already: the clock was stepped back. Far ahead of the last sign of life: an outage,
    /// or stepped ahead.
    pub fn is_wrong(&self, latest: Timestamp) -> bool {
        self.is_behind(latest) || Life::is_outage(self.last_alive, self.now)
    }

    fn is_behind(&self, latest: Timestamp) -> bool {
        self.now < self.last_alive.max(latest)
    }
}

/// The time alone. A manual clock stands in for the database's.
pub(super) async fn read(connection: &mut PgConnection, clock: &Clock) -> Result<Time, sqlx::Error> {
    let row = sqlx::query("SELECT * FROM doclock_load('{}', '{}', '{}', '{}', '{}', '{}', $1)")
        .bind(clock.manual_now().map(Timestamp::millis))
        .fetch_one(connection)
        .await?;
    Time::of(&row)
}

/// One transaction, by the server that gets to it first: a step back goes into the offset, and after an outage every
/// lock that was alive when it began gets a whole ttl from now. `latest` is the latest time this server has gone by.
pub(super) async fn put_right(
    connection: &mut PgConnection,
    clock: &Clock,
    latest: Timestamp,
) -> Result<(), sqlx::Error> {
    connection.execute("BEGIN").await?;
    // There may be a million locks to extend.
    connection.execute("SET LOCAL statement_timeout = '60s'").await?;
    connection.execute("SELECT 1 FROM server_life FOR UPDATE").await?;
    let time = read(connection, clock).await?;
    if time.is_behind(latest) {
        absorb(connection, &time, latest).await?;
    } else if Life::is_outage(time.last_alive, time.now) {
        grant_grace(connection, time.last_alive, time.now).await?;
    }
    connection.execute("COMMIT").await?;
    Ok(())
}

/// Time goes on where it was: at the last sign of life, or at what any server has logged since.
async fn absorb(connection: &mut PgConnection, time: &Time, latest: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE server_life SET clock_offset = clock_offset - $1 +
           greatest($2, coalesce((SELECT at FROM events ORDER BY sequence DESC LIMIT 1), 0))",
    )
    .bind(time.now.millis())
    .bind(time.last_alive.max(latest).millis())
    .execute(connection)
    .await?;
    Ok(())
}

async fn grant_grace(connection: &mut PgConnection, last_alive: Timestamp, now: Timestamp) -> Result<(), sqlx::Error> {
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
    sqlx::query("UPDATE server_life SET last_alive = $1").bind(now.millis()).execute(connection).await?;
    Ok(())
}
