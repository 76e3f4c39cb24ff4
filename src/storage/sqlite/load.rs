//! Reading what a batch needs, under its write transaction.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use crate::{
    locking::{
        DocumentKey, DocumentRow, EndReason, Ending, Fingerprint, Holder, Lock, Lookup, Memo, MemoKey, Metadata,
        Timestamp, Which,
        names::{DocumentVersion, OwnerId, SessionId, TenantId},
    },
    storage::{
        ENDINGS_SEARCHED,
        batch::Batch,
        event_log::{Head, Known, Mark},
        memo,
        queries::key,
    },
    time::liveness::{Outage, Outages},
};

type Result<T> = std::result::Result<T, rusqlite::Error>;

/// The columns of a lock, as [`lock`] reads them.
const LOCK: &str = "SELECT tenant, room, document, slot, lease_id, hold, fencing_token, owner_id, session_id, name,
    acquired_at, expires_at, due_at, ttl_seconds, linger_ms, metadata, document_version, extend_ids FROM document_locks";

pub(super) fn load(connection: &Connection, batch: &mut Batch<'_>, outages: &Outages) -> Result<()> {
    let mut documents = connection.prepare_cached(
        "SELECT fencing_token, capacity, document_version FROM documents
         WHERE tenant = ?1 AND room = ?2 AND document = ?3",
    )?;
    let mut locks = connection.prepare_cached(&format!("{LOCK} WHERE tenant = ?1 AND room = ?2 AND document = ?3"))?;
    for key in batch.document_keys() {
        // The one writer sees all there is: no row means that nobody ever locked it.
        let row = document(&mut documents, key)?.unwrap_or_default();
        batch.state.documents.insert(key.clone(), row);
    }
    for key in batch.keys() {
        let found: Vec<_> =
            locks.query_map(names(key), |row| lock(row, key.clone(), outages))?.collect::<Result<_>>()?;
        if !found.is_empty() {
            batch.state.locks.insert(key.clone(), found);
        }
    }
    for key in batch.memo_keys() {
        if let Some(memo) = memo_of(connection, &key)? {
            batch.state.memos.insert(key, memo);
        }
    }
    for lookup in batch.lookups() {
        if let Some(ending) = ending(connection, &lookup)? {
            batch.state.endings.insert(lookup, ending);
        }
    }
    Ok(())
}

/// Of the first `limit` locks that expiry has to look at, those that are overdue by their rows.
pub(super) fn overdue(connection: &Connection, outages: &Outages, now: Timestamp, limit: u32) -> Result<Vec<Lock>> {
    connection
        .prepare_cached(&format!(
            "SELECT * FROM ({LOCK} WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2) WHERE expires_at <= ?1"
        ))?
        .query_map(params![now.millis(), limit], |row| any_lock(row, outages))?
        .collect()
}

/// Hands every lock of the table to `each`, one at a time: there may be a million.
pub(super) fn all_locks(
    connection: &Connection,
    outages: &Outages,
    mut each: impl FnMut(Lock) -> Result<()>,
) -> Result<()> {
    let mut locks = connection.prepare(LOCK)?;
    let mut rows = locks.query([])?;
    while let Some(row) = rows.next()? {
        each(any_lock(row, outages)?)?;
    }
    Ok(())
}

pub(super) fn outages(connection: &Connection) -> Result<Outages> {
    let outage = |row: &Row<'_>| {
        let (last_alive, back): (i64, i64) = (row.get("last_alive")?, row.get("back_at")?);
        Ok(Outage { last_alive: Timestamp::from_millis(last_alive), back: Timestamp::from_millis(back) })
    };
    let mut outages = connection.prepare_cached("SELECT last_alive, back_at FROM outages")?;
    let outages = outages.query_map([], outage)?.collect::<Result<_>>()?;
    Ok(Outages::new(outages))
}

/// Which log, how far it has come, and the event there.
pub(super) fn head(connection: &Connection) -> Result<Known> {
    let head = connection.query_row("SELECT epoch, sequence FROM log_head", [], |row| {
        Ok(Head { epoch: row.get("epoch")?, sequence: row.get("sequence")? })
    })?;
    Ok(Known { head, mark: mark(connection, head.sequence)? })
}

pub(super) fn mark(connection: &Connection, sequence: i64) -> Result<Option<Mark>> {
    let mark = |row: &Row<'_>| Ok(Mark { lease_id: row.get("lease_id")?, at: Timestamp::from_millis(row.get("at")?) });
    connection.query_row("SELECT lease_id, at FROM events WHERE sequence = ?1", [sequence], mark).optional()
}

fn names(key: &DocumentKey) -> [&str; 3] {
    [key.tenant.as_str(), key.room.as_str(), key.document.as_str()]
}

fn document(documents: &mut Statement<'_>, key: &DocumentKey) -> Result<Option<DocumentRow>> {
    let read = |row: &Row<'_>| {
        Ok(DocumentRow {
            fencing_token: row.get(0)?,
            capacity: row.get(1)?,
            version: text(row, 2)?.map(DocumentVersion::from_stored),
        })
    };
    documents.query_row(names(key), read).optional()
}

fn any_lock(row: &Row<'_>, outages: &Outages) -> Result<Lock> {
    let name = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
    lock(row, key(name(0)?, name(1)?, name(2)?), outages)
}

/// With its real end, whichever outages there have been since the row was written. Columns are read by their place in
/// `LOCK`: looking each up by its name would take as long as the statement.
fn lock(row: &Row<'_>, key: DocumentKey, outages: &Outages) -> Result<Lock> {
    let mut lock = Lock {
        key,
        slot: row.get(3)?,
        lease_id: row.get(4)?,
        hold: row.get(5)?,
        fencing_token: row.get(6)?,
        holder: Holder {
            owner: OwnerId::from_stored(row.get_ref(7)?.as_str()?),
            session: text(row, 8)?.map(SessionId::from_stored),
            name: text(row, 9)?.map(Into::into),
        },
        acquired_at: Timestamp::from_millis(row.get(10)?),
        expires_at: Timestamp::from_millis(row.get(11)?),
        due_at: Timestamp::from_millis(row.get(12)?),
        ttl_seconds: row.get(13)?,
        linger_ms: row.get(14)?,
        metadata: text(row, 15)?.map(Metadata::from_stored),
        document_version: text(row, 16)?.map(DocumentVersion::from_stored),
        extend_ids: memo::ids_from_text(text(row, 17)?),
    };
    lock.expires_at = outages.end_of(lock.expires_at, lock.span_ms());
    Ok(lock)
}

/// As it stands in the row: what is kept of it is copied once.
fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

fn memo_of(connection: &Connection, key: &MemoKey) -> Result<Option<Memo>> {
    connection
        .prepare_cached(
            "SELECT fingerprint, created_at, locks FROM request_memos
             WHERE tenant = ?1 AND owner_id = ?2 AND request_id = ?3",
        )?
        .query_row(params![key.tenant.as_str(), key.owner.as_str(), key.request_id.as_str()], |row| {
            let locks: String = row.get(2)?;
            Ok(Memo {
                fingerprint: Fingerprint(row.get(0)?),
                created_at: Timestamp::from_millis(row.get(1)?),
                locks: memo::from_text(&locks),
            })
        })
        .optional()
}

fn ending(connection: &Connection, lookup: &Lookup) -> Result<Option<Ending>> {
    const ENDED: &str = "SELECT reason, coalesce(ended_at, at), session_id FROM events
         WHERE kind = 'DocumentUnlocked' AND tenant = ?1 AND room = ?2 AND document = ?3 AND owner_id = ?4";
    let Lookup { key, owner, which } = lookup;
    let name = (key.tenant.as_str(), key.room.as_str(), key.document.as_str(), owner.as_str());
    let read = |row: &Row<'_>| {
        let reason: String = row.get(0)?;
        // Every reason that was written can be read; a foreign one counts as taken by someone else.
        let reason = EndReason::from_name(&reason).unwrap_or(EndReason::Revoked);
        Ok(Ending { reason, at: Timestamp::from_millis(row.get(1)?) })
    };
    match which {
        Which::Lease(lease_id) => connection
            // The plus keeps SQLite from looking for it among all that its owner has ended.
            .prepare_cached(&format!("{ENDED} AND lease_id = ?5").replace("tenant =", "+tenant ="))?
            .query_row(params![name.0, name.1, name.2, name.3, lease_id], read)
            .optional(),
        Which::Session(session) => connection
            .prepare_cached(&format!(
                "SELECT * FROM ({ENDED} ORDER BY sequence DESC LIMIT ?6) WHERE session_id = ?5 LIMIT 1"
            ))?
            .query_row(params![name.0, name.1, name.2, name.3, session.as_str(), ENDINGS_SEARCHED], read)
            .optional(),
        Which::Any => connection
            .prepare_cached(&format!("{ENDED} ORDER BY sequence DESC LIMIT 1"))?
            .query_row(params![name.0, name.1, name.2, name.3], read)
            .optional(),
    }
}

/// How many locks each owner has, counted once when the connection is opened.
pub(super) fn owner_locks(connection: &Connection) -> Result<HashMap<(TenantId, OwnerId), u32>> {
    connection
        .prepare("SELECT tenant, owner_id, count(*) FROM document_locks GROUP BY tenant, owner_id")?
        .query_map([], |row| {
            let tenant = TenantId::from_stored(row.get::<_, String>(0)?);
            let owner = OwnerId::from_stored(row.get::<_, String>(1)?);
            Ok(((tenant, owner), row.get(2)?))
        })?
        .collect()
}
