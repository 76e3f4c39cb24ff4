//! The database's time, and what is done when it has jumped.

use std::sync::Arc;

use sea_orm::sqlx::{self, Executor as _, PgConnection, Row as _, postgres::PgRow};

use super::{
    line,
    load::{self, Wish, moment},
};
use crate::{
    locking::Timestamp,
    storage::event_log::{Head, Known, Mark},
    time::liveness::{Life, Outage, Outages},
};

/// The time and what it has to be compared with, and the head of the log, which is read along with it.
pub(super) struct Time {
    pub now: Timestamp,
    pub last_alive: Timestamp,
    pub outages: Arc<Outages>,
    pub token_floor: i64,
    pub head: Known,
    /// The event at the sequence that was asked for.
    pub there: Option<Mark>,
}

impl Time {
    /// Reads it from a row of `doclock_lock_rows`.
    pub fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        let head = Head { epoch: row.try_get("epoch")?, sequence: row.try_get("sequence")? };
        let starts: Option<Vec<i64>> = row.try_get("outages_from")?;
        let ends: Option<Vec<i64>> = row.try_get("outages_until")?;
        let outage = |(last_alive, back)| Outage {
            last_alive: Timestamp::from_millis(last_alive),
            back: Timestamp::from_millis(back),
        };
        let outages = starts.into_iter().flatten().zip(ends.into_iter().flatten()).map(outage);
        Ok(Self {
            now: moment(row, "now")?,
            last_alive: moment(row, "last_alive")?,
            outages: Arc::new(Outages::new(outages.collect())),
            token_floor: row.try_get("token_floor")?,
            head: Known { head, mark: mark(row, "head_lease", "head_at")? },
            there: mark(row, "known_lease", "known_at")?,
        })
    }

    /// Returns whether the time has to be put right before it is used. It may be behind a time that was used already:
    /// the clock was stepped back. Or it may be far ahead of the last sign of life: an outage, or a step ahead.
    pub fn is_wrong(&self, latest: Timestamp) -> bool {
        self.is_behind(latest) || Life::is_outage(self.last_alive, self.now)
    }

    fn is_behind(&self, latest: Timestamp) -> bool {
        self.now < self.last_alive.max(latest)
    }
}

fn mark(row: &PgRow, lease: &str, at: &str) -> Result<Option<Mark>, sqlx::Error> {
    let (lease_id, at): (Option<_>, Option<i64>) = (row.try_get(lease)?, row.try_get(at)?);
    Ok(lease_id.zip(at).map(|(lease_id, at)| Mark { lease_id, at: Timestamp::from_millis(at) }))
}

/// Reads the time alone, without any document.
pub(super) async fn read(
    connection: &mut PgConnection,
    known_sequence: Option<i64>,
    manual_now: Option<Timestamp>,
) -> Result<Time, sqlx::Error> {
    let wish = Wish { known_sequence, manual_now, ..Wish::default() };
    Ok(load::lock_rows(connection, &wish).await?.time)
}

/// Puts the time right in one transaction; the first server to lock the row does it, the others find it done. A step
/// back goes into the offset; after an outage, locks that were live when it began have a whole span from now. `latest`
/// is the latest time that this server has used.
pub(super) async fn put_right(
    connection: &mut PgConnection,
    manual_now: Option<Timestamp>,
    latest: Timestamp,
) -> Result<(), sqlx::Error> {
    connection.execute("BEGIN").await?;
    connection.execute("SELECT 1 FROM server_life FOR UPDATE").await?;
    let time = read(connection, None, manual_now).await?;
    if time.is_behind(latest) {
        absorb(connection, &time, latest).await?;
    } else if Life::is_outage(time.last_alive, time.now) {
        grant_grace(connection, &time).await?;
    }
    connection.execute("COMMIT").await?;
    Ok(())
}

/// Lets time go on where it was: at the last sign of life, or at the last event that any server has logged since.
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

/// Adds the outage to the list. All of the list is written again, because [`Outages`] bounds it. No lock is touched.
async fn grant_grace(connection: &mut PgConnection, time: &Time) -> Result<(), sqlx::Error> {
    let outages = time.outages.and(Outage { last_alive: time.last_alive, back: time.now });
    line::grant_grace(connection, time.last_alive, time.now).await?;
    connection.execute("DELETE FROM outages").await?;
    sqlx::query("INSERT INTO outages (last_alive, back_at) SELECT * FROM UNNEST($1::bigint[], $2::bigint[])")
        .bind(outages.iter().map(|outage| outage.last_alive.millis()).collect::<Vec<_>>())
        .bind(outages.iter().map(|outage| outage.back.millis()).collect::<Vec<_>>())
        .execute(&mut *connection)
        .await?;
    sqlx::query("UPDATE server_life SET last_alive = $1").bind(time.now.millis()).execute(connection).await?;
    Ok(())
}
