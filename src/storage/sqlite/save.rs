//! Writing what a batch decided.

use rusqlite::{CachedStatement, Connection, params};

use super::line;
use crate::{
    locking::{Change, DocumentKey, DocumentRow, Event, Lock, Memo, MemoKey, Timestamp, names::DocumentVersion},
    storage::{
        batch::Batch,
        event_log::{Head, Row as EventRow},
        memo,
    },
    time::liveness::{Outage, Outages},
};

type Result<T> = std::result::Result<T, rusqlite::Error>;

/// `head` is where the log has come to; it is written only under that epoch.
pub(super) fn save(connection: &Connection, batch: &Batch<'_>, head: Head) -> Result<()> {
    let mut statements = Statements::prepare(connection)?;
    for change in &batch.changes {
        match change {
            Change::Grant(lock) => statements.grant(lock)?,
            Change::Keep(lock) => statements.keep(lock)?,
            Change::End { lock, .. } => statements.end(lock)?,
            Change::Document { key, row } => statements.document(key, row)?,
            Change::Version { key, version } => leave_version(connection, key, version)?,
            Change::Remember { key, memo, if_unused } => {
                let retention_ms = batch.state.policy.memo_retention_ms;
                let forgotten = memo.created_at.plus_millis(-retention_ms);
                let over = if *if_unused { forgotten } else { Timestamp::from_millis(i64::MAX) };
                remember(connection, key, memo, over)?;
            }
            Change::Forget(key) => forget(connection, key)?,
            Change::Queue(ticket) => line::queue(connection, ticket)?,
            Change::Dequeue(ticket) => line::dequeue(connection, ticket)?,
            Change::Ask(ask) | Change::Answer(ask) => line::save_ask(connection, ask)?,
        }
    }
    for (next, event) in (head.sequence + 1..).zip(&batch.events) {
        statements.append(next, event)?;
    }
    if batch.events.is_empty() {
        return Ok(());
    }
    let sequence = head.sequence + i64::try_from(batch.events.len()).unwrap_or_default();
    let moved = connection
        .prepare_cached("UPDATE log_head SET sequence = ?1 WHERE id = 1 AND epoch = ?2 AND sequence = ?3")?
        .execute(params![sequence, head.epoch, head.sequence])?;
    if moved == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(moved)) }
}

/// Locks that were extended since expiry last looked at them are looked at again when they end by what is known now.
/// Only of the first `limit` that are due; answers how many there were.
pub(super) fn postpone(connection: &Connection, now: Timestamp, limit: u32) -> Result<usize> {
    connection
        .prepare_cached(
            "UPDATE document_locks SET due_at = expires_at WHERE (tenant, room, document, slot) IN
               (SELECT tenant, room, document, slot FROM
                 (SELECT tenant, room, document, slot, expires_at FROM document_locks
                  WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2)
                WHERE expires_at > ?1)",
        )?
        .execute(params![now.millis(), limit])
}

/// The list as it is from now on. It changes with each outage, which is rare.
pub(super) fn outages(connection: &Connection, outages: &Outages) -> Result<()> {
    connection.execute("DELETE FROM outages", [])?;
    let mut insert = connection.prepare_cached("INSERT INTO outages (last_alive, back_at) VALUES (?1, ?2)")?;
    for Outage { last_alive, back } in outages.iter() {
        insert.execute([last_alive.millis(), back.millis()])?;
    }
    Ok(())
}

/// What a batch may run many times, looked up once.
pub(super) struct Statements<'c> {
    grant: CachedStatement<'c>,
    keep: CachedStatement<'c>,
    end: CachedStatement<'c>,
    document: CachedStatement<'c>,
    append: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    pub fn prepare(connection: &'c Connection) -> Result<Self> {
        Ok(Self {
            grant: connection.prepare_cached(
                "INSERT INTO document_locks (tenant, room, document, slot, lease_id, hold, fencing_token, owner_id,
                    session_id, name, acquired_at, expires_at, due_at, ttl_seconds, metadata, document_version, kind,
                    claim_ms, activity, active_at, is_wanted)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
            )?,
            // What can change on a lock that lives on.
            keep: connection.prepare_cached(
                "UPDATE document_locks SET hold = ?5, name = ?6, expires_at = ?7, due_at = ?8, ttl_seconds = ?9,
                    metadata = ?10, linger_ms = ?11, extend_ids = ?12, document_version = ?13, claim_ms = ?14,
                    activity = ?15, active_at = ?16, is_wanted = ?17, kind = ?18
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
                    session_id, reason, by, note, held_ms, ended_at, body, recipient, waited_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
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
            lock.holder.kind.name(),
            lock.span.claim_ms(),
            lock.activity.name(),
            lock.active_at.millis(),
            lock.is_wanted,
        ])?;
        Ok(())
    }

    fn keep(&mut self, lock: &Lock) -> Result<()> {
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
            lock.span.linger_ms(),
            memo::ids_to_text(&lock.extend_ids),
            lock.document_version.as_ref().map(|version| version.as_str()),
            lock.span.claim_ms(),
            lock.activity.name(),
            lock.active_at.millis(),
            lock.is_wanted,
            lock.holder.kind.name(),
        ])?;
        Ok(())
    }

    fn end(&mut self, Lock { key, slot, .. }: &Lock) -> Result<()> {
        self.end.execute(params![key.tenant.as_str(), key.room.as_str(), key.document.as_str(), slot])?;
        Ok(())
    }

    fn document(&mut self, key: &DocumentKey, row: &DocumentRow) -> Result<()> {
        self.document.execute(params![
            key.tenant.as_str(),
            key.room.as_str(),
            key.document.as_str(),
            row.fencing_token,
            row.capacity,
            row.version.as_ref().map(DocumentVersion::as_str),
        ])?;
        Ok(())
    }

    pub fn append(&mut self, sequence: i64, event: &Event) -> Result<()> {
        let lock = &event.lock;
        let row = EventRow::of(event);
        self.append.execute(params![
            sequence,
            lock.key.tenant.as_str(),
            lock.key.room.as_str(),
            lock.key.document.as_str(),
            event.at.millis(),
            event.kind.name().as_str(),
            lock.lease_id,
            lock.fencing_token,
            lock.holder.owner.as_str(),
            lock.holder.session.as_ref().map(|session| session.as_str()),
            row.reason,
            row.by,
            row.note,
            row.held_ms,
            row.ended_at,
            row.body,
            row.recipient,
            row.waited_ms,
        ])?;
        Ok(())
    }
}

/// Writes over a memo that is not younger than `over`.
fn remember(connection: &Connection, key: &MemoKey, memo: &Memo, over: Timestamp) -> Result<()> {
    let locks = memo::to_text(&memo.locks);
    connection
        .prepare_cached(
            "INSERT INTO request_memos (tenant, owner_id, request_id, fingerprint, locks, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO UPDATE SET fingerprint = ?4, locks = ?5, created_at = ?6 WHERE created_at <= ?7",
        )?
        .execute(params![
            key.tenant.as_str(),
            key.owner.as_str(),
            key.request_id.as_str(),
            memo.fingerprint.0,
            locks,
            memo.created_at.millis(),
            over.millis(),
        ])?;
    Ok(())
}

/// More heartbeats have come since: this one's id is not needed any more.
fn forget(connection: &Connection, key: &MemoKey) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM request_memos WHERE tenant = ?1 AND owner_id = ?2 AND request_id = ?3")?
        .execute(params![key.tenant.as_str(), key.owner.as_str(), key.request_id.as_str()])?;
    Ok(())
}

fn leave_version(connection: &Connection, key: &DocumentKey, version: &DocumentVersion) -> Result<()> {
    connection
        .prepare_cached("UPDATE documents SET document_version = ?4 WHERE tenant = ?1 AND room = ?2 AND document = ?3")?
        .execute(params![key.tenant.as_str(), key.room.as_str(), key.document.as_str(), version.as_str()])?;
    Ok(())
}
