//! A new epoch on SQLite, by one transaction.

use std::path::Path;

use rusqlite::{Connection, params};
use uuid::Uuid;

use super::{
    super::new_epoch::{NewEpoch, revoked},
    load,
    save::Statements,
};
use crate::{
    locking::{Lock, Timestamp},
    storage::new_epoch::TOKEN_MARGIN,
};

/// Begins a new epoch. The caller must have the claim to the file.
pub fn begin(path: &Path, now: Timestamp) -> Result<NewEpoch, rusqlite::Error> {
    let connection = super::connect(path)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let begun = begun(&connection, now)?;
    connection.execute_batch("COMMIT")?;
    Ok(begun)
}

fn begun(connection: &Connection, now: Timestamp) -> Result<NewEpoch, rusqlite::Error> {
    let (first, floor): (i64, i64) =
        connection.query_row("SELECT sequence, token_floor FROM log_head", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut sequence = first;
    let mut statements = Statements::prepare(connection)?;
    load::all_locks(connection, &load::outages(connection)?, |lock: Lock| {
        sequence += 1;
        statements.append(sequence, &revoked(lock, now))
    })?;
    connection.execute_batch("DELETE FROM document_locks; DELETE FROM lock_waiters; DELETE FROM lock_handovers")?;
    let highest: Option<i64> =
        connection.query_row("SELECT max(fencing_token) FROM documents", [], |row| row.get(0))?;
    let (epoch, token_floor) = (Uuid::new_v4(), floor.max(highest.unwrap_or_default()) + TOKEN_MARGIN);
    connection.execute(
        "UPDATE log_head SET epoch = ?1, sequence = ?2, token_floor = ?3 WHERE id = 1",
        params![epoch, sequence, token_floor],
    )?;
    Ok(NewEpoch { epoch, ended_locks: sequence - first, token_floor })
}
