//! Reading what a batch needs, under its write transaction.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::line;
use crate::{
    locking::{
        Activity, DocumentKey, DocumentRow, EndReason, Ending, Fingerprint, Holder, HolderKind, Lock, Lookup, Memo,
        MemoKey, Metadata, Span, Timestamp, Which,
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

/// Names the columns of a statement once: as its text, and as the places that its rows are read by. To look each up by its
/// name at run time takes as long as the statement.
macro_rules! columns {
    ($Name:ident: $first:ident $(, $column:ident)* $(,)?) => {
        #[derive(Clone, Copy)]
        #[expect(non_camel_case_types, reason = "these are the columns' own names")]
        enum $Name { $first $(, $column)* }

        impl $Name {
            const LIST: &'static str = concat!(stringify!($first) $(, ", ", stringify!($column))*);
        }
    };
}

pub(super) use columns;

columns!(LockColumn: tenant, room, document, slot, lease_id, hold, fencing_token, owner_id, session_id, name, acquired_at,
    expires_at, due_at, ttl_seconds, linger_ms, metadata, document_version, extend_ids, kind, claim_ms, activity, active_at,
    is_wanted);
columns!(DocumentColumn: fencing_token, capacity, document_version);
columns!(MemoColumn: fingerprint, created_at, locks);

fn select_locks(rest: &str) -> String {
    format!("SELECT {} FROM document_locks {rest}", LockColumn::LIST)
}

pub(super) fn load(connection: &Connection, batch: &mut Batch<'_>, outages: &Outages, now: Timestamp) -> Result<()> {
    const OF_DOCUMENT: &str = "WHERE tenant = ?1 AND room = ?2 AND document = ?3";
    let select_document = format!("SELECT {} FROM documents {OF_DOCUMENT}", DocumentColumn::LIST);
    let mut documents = connection.prepare_cached(&select_document)?;
    let mut locks = connection.prepare_cached(&select_locks(OF_DOCUMENT))?;
    for key in batch.document_keys() {
        // The one writer sees all there is: no row means that nobody ever locked it.
        let row = document(&mut documents, key)?.unwrap_or_default();
        batch.state.documents.insert(key.clone(), row);
    }
    let mut found = Vec::new();
    for key in batch.keys() {
        for row in locks.query_map(names(key), |row| lock(row, key.clone(), outages))? {
            found.push(row?);
        }
    }
    batch.state.add_locks(found);
    for key in batch.line_keys().into_keys() {
        if !batch.state.documents.contains_key(key) {
            let row = document(&mut documents, key)?.unwrap_or_default();
            batch.state.documents.insert(key.clone(), row);
        }
    }
    line::load(connection, batch, now)?;
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
            "SELECT * FROM ({}) WHERE expires_at <= ?1 AND NOT is_wanted",
            select_locks("WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2")
        ))?
        .query_map(params![now.millis(), limit], |row| any_lock(row, outages))?
        .collect()
}

/// The documents of those that somebody wants.
pub(super) fn overdue_and_wanted(connection: &Connection, now: Timestamp, limit: u32) -> Result<Vec<DocumentKey>> {
    connection
        .prepare_cached(
            "SELECT tenant, room, document FROM
               (SELECT tenant, room, document, expires_at, is_wanted FROM document_locks
                WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2)
             WHERE expires_at <= ?1 AND is_wanted",
        )?
        .query_map(params![now.millis(), limit], |row| {
            let name = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
            Ok(key(name("tenant")?, name("room")?, name("document")?))
        })?
        .collect()
}

/// Hands every lock of the table to `each`, one at a time: there may be a million.
pub(super) fn all_locks(
    connection: &Connection,
    outages: &Outages,
    mut each: impl FnMut(Lock) -> Result<()>,
) -> Result<()> {
    let mut locks = connection.prepare(&select_locks(""))?;
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
            fencing_token: row.get(DocumentColumn::fencing_token as usize)?,
            capacity: row.get(DocumentColumn::capacity as usize)?,
            version: text(row, DocumentColumn::document_version as usize)?.map(DocumentVersion::from_stored),
        })
    };
    documents.query_row(names(key), read).optional()
}

fn any_lock(row: &Row<'_>, outages: &Outages) -> Result<Lock> {
    let name = |column: LockColumn| Ok::<_, rusqlite::Error>(row.get_ref(column as usize)?.as_str()?);
    lock(row, key(name(LockColumn::tenant)?, name(LockColumn::room)?, name(LockColumn::document)?), outages)
}

/// With its real end, whichever outages there have been since the row was written.
fn lock(row: &Row<'_>, key: DocumentKey, outages: &Outages) -> Result<Lock> {
    use LockColumn as Column;
    let moment = |column: Column| Ok::<_, rusqlite::Error>(Timestamp::from_millis(row.get(column as usize)?));
    let text = |column: Column| text(row, column as usize);
    let (acquired_at, active_at) =
        (moment(Column::acquired_at)?, row.get::<_, Option<i64>>(Column::active_at as usize)?);
    let mut lock = Lock {
        key,
        slot: row.get(Column::slot as usize)?,
        lease_id: row.get(Column::lease_id as usize)?,
        hold: row.get(Column::hold as usize)?,
        fencing_token: row.get(Column::fencing_token as usize)?,
        holder: Holder {
            owner: OwnerId::from_stored(text(Column::owner_id)?.unwrap_or_default()),
            session: text(Column::session_id)?.map(SessionId::from_stored),
            name: text(Column::name)?.map(Into::into),
            kind: HolderKind::from_stored(text(Column::kind)?),
        },
        acquired_at,
        expires_at: moment(Column::expires_at)?,
        due_at: moment(Column::due_at)?,
        ttl_seconds: row.get(Column::ttl_seconds as usize)?,
        span: Span::from_stored(row.get(Column::linger_ms as usize)?, row.get(Column::claim_ms as usize)?),
        activity: Activity::from_stored(text(Column::activity)?),
        active_at: active_at.map_or(acquired_at, Timestamp::from_millis),
        is_wanted: row.get(Column::is_wanted as usize)?,
        metadata: text(Column::metadata)?.and_then(Metadata::from_stored),
        document_version: text(Column::document_version)?.map(DocumentVersion::from_stored),
        extend_ids: memo::ids_from_text(text(Column::extend_ids)?),
    };
    lock.expires_at = outages.end_of(lock.expires_at, lock.span_ms());
    Ok(lock)
}

/// As it stands in the row: what is kept of it is copied once.
pub(super) fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

fn memo_of(connection: &Connection, key: &MemoKey) -> Result<Option<Memo>> {
    connection
        .prepare_cached(&format!(
            "SELECT {} FROM request_memos WHERE tenant = ?1 AND owner_id = ?2 AND request_id = ?3",
            MemoColumn::LIST
        ))?
        .query_row(params![key.tenant.as_str(), key.owner.as_str(), key.request_id.as_str()], |row| {
            Ok(Memo {
                fingerprint: Fingerprint(row.get(MemoColumn::fingerprint as usize)?),
                created_at: Timestamp::from_millis(row.get(MemoColumn::created_at as usize)?),
                locks: memo::from_text(text(row, MemoColumn::locks as usize)?.unwrap_or_default()),
            })
        })
        .optional()
}

fn ending(connection: &Connection, lookup: &Lookup) -> Result<Option<Ending>> {
    const ENDED: &str = "SELECT reason, coalesce(ended_at, at) AS ended_at, session_id FROM events
         WHERE kind = 'DocumentUnlocked' AND tenant = ?1 AND room = ?2 AND document = ?3 AND owner_id = ?4";
    let Lookup { key, owner, which } = lookup;
    let name = (key.tenant.as_str(), key.room.as_str(), key.document.as_str(), owner.as_str());
    let read = |row: &Row<'_>| {
        let reason: String = row.get("reason")?;
        // Every reason that was written can be read; a foreign one counts as taken by someone else.
        let reason = EndReason::from_name(&reason).unwrap_or(EndReason::Revoked);
        Ok(Ending { reason, at: Timestamp::from_millis(row.get("ended_at")?) })
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
        .prepare("SELECT tenant, owner_id, count(*) AS locks FROM document_locks GROUP BY tenant, owner_id")?
        .query_map([], |row| {
            let tenant = TenantId::from_stored(row.get::<_, String>("tenant")?);
            let owner = OwnerId::from_stored(row.get::<_, String>("owner_id")?);
            Ok(((tenant, owner), row.get("locks")?))
        })?
        .collect()
}
