//! Writing what a batch decided.

use rusqlite::{CachedStatement, Connection, params};

use crate::{
    locking::{Change, DocumentKey, Event, Lock, Memo, MemoKey, Timestamp, names::DocumentVersion},
    storage::{TICKET_MS, batch::Batch, event_log::Row as EventRow, memo},
};

type Result<T> = std::result::Result<T, rusqlite::Error>;

pub(super) fn save(connection: &Connection, batch: &Batch<'_>, sequence: i64) -> Result<()> {
    let mut statements = Statements::prepare(connection)?;
    for change in &batch.changes {
        match change {
            Change::Grant(lock) => statements.grant(lock)?,
            Change::Keep(lock) => statements.keep(lock)?,
            Change::End { lock, .. } => statements.end(lock)?,
            Change::Document { key, fencing_token, capacity, version } => {
                statements.document(key, *fencing_token, *capacity, version.as_ref())?;
            }
            Change::Remember { key, memo } => remember(connection, key, memo)?,
        }
    }
    for (next, event) in (sequence + 1..).zip(&batch.events) {
        statements.append(next, event)?;
    }
    if !batch.events.is_empty() {
        let head = sequence + i64::try_from(batch.events.len()).unwrap_or_default();
        connection.prepare_cached("UPDATE log_head SET sequence = ?1 WHERE id = 1")?.execute([head])?;
    }
    Ok(())
}

/// What a batch may run many times, looked up once.
struct Statements<'c> {
    grant: CachedStatement<'c>,
    keep: CachedStatement<'c>,
    end: CachedStatement<'c>,
    document: CachedStatement<'c>,
    append: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection) -> Result<Self> {
        Ok(Self {
            grant: connection.prepare_cached(
                "INSERT INTO document_locks (tenant, room, document, slot, lease_id, hold, fencing_token, owner_id,
                    session_id, name, acquired_at, expires_at, due_at, ttl_seconds, metadata, document_version)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            )?,
            // What can change on a lock that lives on.
            keep: connection.prepare_cached(
                "UPDATE document_locks SET hold = ?5, name = ?6, expires_at = ?7, due_at = ?8, ttl_seconds = ?9,
                    metadata = ?10, extend_request_id = ?11, extend_fingerprint = ?12
                 WHERE tenant = ?1 AND room = ?2 AND document = ?3 AND slot = ?4",
            )?,
            end: connection.prepare_cached(
                "DELETE FROM document_locks WHERE tenant = ?1 AND room = ?2 AND document = ?3 AND slot = ?4",
            )?,
            document: connection.prepare_cached(
                "INSERT INTO documents (tenant, room, document, fencing_token, capacity, document_version)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT DO UPDATE SET fencing_token = ?4, capacity = ?5, document_version = ?6",
            )?,
            append: connection.prepare_cached(
                "INSERT INTO events (sequence, tenant, room, document, at, kind, lease_id, fencing_token, owner_id,
                    session_id, reason, by, note, held_ms, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            )?,
        })
    }

    fn grant(&mut self, lock: &Lock) -> Result<()> {
        self.grant.execute(params![
            lock.key.tenant.as_str(),
            lock.key.room.as_str(),
            lock.key.document.as_str(),
            lock.slot,
            lock.lease_id,
            lock.hold,
            lock.fencing_token,
            lock.holder.owner.as_str(),
            lock.holder.session.as_ref().map(|session| session.as_str()),
            lock.holder.name.as_deref(),
            lock.acquired_at.millis(),
            lock.expires_at.millis(),
            lock.due_at.millis(),
            lock.ttl_seconds,
            lock.metadata.as_ref().map(|metadata| metadata.as_str()),
            lock.document_version.as_ref().map(|version| version.as_str()),
        ])?;
        Ok(())
    }

    fn keep(&mut self, lock: &Lock) -> Result<()> {
        let memo = lock.last_extend.as_ref();
        self.keep.execute(params![
            lock.key.tenant.as_str(),
            lock.key.room.as_str(),
            lock.key.document.as_str(),
            lock.slot,
            lock.hold,
            lock.holder.name.as_deref(),
            lock.expires_at.millis(),
            lock.due_at.millis(),
            lock.ttl_seconds,
            lock.metadata.as_ref().map(|metadata| metadata.as_str()),
            memo.map(|memo| memo.request_id.as_str()),
            memo.map(|memo| memo.fingerprint.0),
        ])?;
        Ok(())
    }

    fn end(&mut self, Lock { key, slot, .. }: &Lock) -> Result<()> {
        self.end.execute(params![key.tenant.as_str(), key.room.as_str(), key.document.as_str(), slot])?;
        Ok(())
    }

    fn document(
        &mut self,
        key: &DocumentKey,
        fencing_token: i64,
        capacity: u32,
        version: Option<&DocumentVersion>,
    ) -> Result<()> {
        self.document.execute(params![
            key.tenant.as_str(),
            key.room.as_str(),
            key.document.as_str(),
            fencing_token,
            capacity,
            version.map(DocumentVersion::as_str),
        ])?;
        Ok(())
    }

    fn append(&mut self, sequence: i64, event: &Event) -> Result<()> {
        let lock = &event.lock;
        let row = EventRow::of(event);
        self.append.execute(params![
            sequence,
            lock.key.tenant.as_str(),
            lock.key.room.as_str(),
            lock.key.document.as_str(),
            event.at.millis(),
            event.kind.name(),
            lock.lease_id,
            lock.fencing_token,
            lock.holder.owner.as_str(),
            lock.holder.session.as_ref().map(|session| session.as_str()),
            row.reason,
            row.by,
            row.note,
            row.held_ms,
            row.body,
        ])?;
        Ok(())
    }
}

fn remember(connection: &Connection, key: &MemoKey, memo: &Memo) -> Result<()> {
    let locks = memo::to_text(&memo.locks);
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO request_memos (tenant, owner_id, request_id, fingerprint, locks, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            key.tenant.as_str(),
            key.owner.as_str(),
            key.request_id.as_str(),
            memo.fingerprint.0,
            locks,
            memo.created_at.millis(),
        ])?;
    Ok(())
}

/// After an outage: who was alive when it began gets a whole ttl from now. `due_at` stays: it is never later.
pub(super) fn grace(connection: &Connection, last_alive: Timestamp, now: Timestamp) -> Result<()> {
    connection.execute(
        "UPDATE document_locks SET expires_at = ?1 + ttl_seconds * 1000 WHERE expires_at > ?2",
        [now.millis(), last_alive.millis()],
    )?;
    connection.execute(
        "UPDATE lock_waiters SET expires_at = ?1 WHERE expires_at > ?2",
        [now.plus_millis(TICKET_MS).millis(), last_alive.millis()],
    )?;
    Ok(())
}
