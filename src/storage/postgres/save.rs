//! Writing what a batch decided: one statement per table and kind of change.

use std::collections::{BTreeMap, HashMap};

use sea_orm::sqlx::{self, PgConnection};

use super::load::columns;
use crate::{
    locking::{Change, DocumentKey, Event, LeaseId, Lock, Memo, MemoKey, names::DocumentVersion},
    storage::{batch::Batch, event_log::Row, memo},
};

type Result<T> = std::result::Result<T, sqlx::Error>;

/// Answers the sequence before the first of the batch's events.
pub(super) async fn save(connection: &mut PgConnection, batch: &Batch<'_>) -> Result<i64> {
    let net = Net::of(&batch.changes);
    end(connection, &net.ended).await?;
    documents(connection, &net.documents).await?;
    grant(connection, &net.granted).await?;
    keep(connection, &net.kept).await?;
    for (key, memo) in &net.memos {
        remember(connection, key, memo).await?;
    }
    append(connection, &batch.events).await
}

/// What is left of the changes when all have happened: one statement may not touch a row twice.
#[derive(Default)]
struct Net<'b> {
    documents: BTreeMap<&'b DocumentKey, (i64, u32, Option<&'b DocumentVersion>)>,
    granted: Vec<&'b Lock>,
    kept: Vec<&'b Lock>,
    ended: Vec<&'b Lock>,
    memos: BTreeMap<&'b MemoKey, &'b Memo>,
}

impl<'b> Net<'b> {
    fn of(changes: &'b [Change]) -> Self {
        let mut net = Self::default();
        // Whether the row is new, and the lock as it is at the end.
        let mut locks: HashMap<LeaseId, (bool, &Lock, bool)> = HashMap::new();
        for change in changes {
            match change {
                Change::Grant(lock) => {
                    locks.insert(lock.lease_id, (true, lock, true));
                }
                Change::Keep(lock) => {
                    let is_new = locks.get(&lock.lease_id).is_some_and(|(is_new, ..)| *is_new);
                    locks.insert(lock.lease_id, (is_new, lock, true));
                }
                Change::End { lock, .. } => {
                    let is_new = locks.get(&lock.lease_id).is_some_and(|(is_new, ..)| *is_new);
                    locks.insert(lock.lease_id, (is_new, lock, false));
                }
                Change::Document { key, fencing_token, capacity, version } => {
                    net.documents.insert(key, (*fencing_token, *capacity, version.as_ref()));
                }
                Change::Remember { key, memo } => {
                    net.memos.insert(key, memo);
                }
            }
        }
        for (is_new, lock, is_live) in locks.into_values() {
            match (is_new, is_live) {
                (true, true) => net.granted.push(lock),
                (false, true) => net.kept.push(lock),
                (false, false) => net.ended.push(lock),
                (true, false) => {}
            }
        }
        net
    }
}

fn slots(locks: &[&Lock]) -> Vec<i32> {
    locks.iter().map(|lock| signed(lock.slot)).collect()
}

fn signed(number: u32) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

async fn end(connection: &mut PgConnection, locks: &[&Lock]) -> Result<()> {
    if locks.is_empty() {
        return Ok(());
    }
    let (tenants, rooms, names) = columns(locks.iter().map(|lock| &lock.key));
    sqlx::query(
        "DELETE FROM document_locks AS l
         USING UNNEST($1::text[], $2::text[], $3::text[], $4::int[]) AS k (tenant, room, document, slot)
         WHERE (l.tenant, l.room, l.document, l.slot) = (k.tenant, k.room, k.document, k.slot)",
    )
    .bind(tenants)
    .bind(rooms)
    .bind(names)
    .bind(slots(locks))
    .execute(connection)
    .await?;
    Ok(())
}

async fn documents(
    connection: &mut PgConnection,
    documents: &BTreeMap<&DocumentKey, (i64, u32, Option<&DocumentVersion>)>,
) -> Result<()> {
    if documents.is_empty() {
        return Ok(());
    }
    let (tenants, rooms, names) = columns(documents.keys().copied());
    sqlx::query(
        "UPDATE documents AS d
         SET fencing_token = k.fencing_token, capacity = k.capacity, document_version = k.document_version
         FROM UNNEST($1::text[], $2::text[], $3::text[], $4::bigint[], $5::int[], $6::text[])
           AS k (tenant, room, document, fencing_token, capacity, document_version)
         WHERE (d.tenant, d.room, d.document) = (k.tenant, k.room, k.document)",
    )
    .bind(tenants)
    .bind(rooms)
    .bind(names)
    .bind(documents.values().map(|(token, ..)| *token).collect::<Vec<_>>())
    .bind(documents.values().map(|(_, capacity, _)| signed(*capacity)).collect::<Vec<_>>())
    .bind(documents.values().map(|(.., version)| version.map(DocumentVersion::as_str)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

async fn grant(connection: &mut PgConnection, locks: &[&Lock]) -> Result<()> {
    if locks.is_empty() {
        return Ok(());
    }
    let (tenants, rooms, names) = columns(locks.iter().map(|lock| &lock.key));
    let each = locks.iter();
    sqlx::query(
        "INSERT INTO document_locks (tenant, room, document, slot, lease_id, hold, fencing_token, owner_id, session_id,
            name, acquired_at, expires_at, due_at, ttl_seconds, metadata, document_version, extend_request_id,
            extend_fingerprint)
         SELECT * FROM UNNEST($1::text[], $2::text[], $3::text[], $4::int[], $5::uuid[], $6::bigint[], $7::bigint[],
            $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::int[], $15::text[],
            $16::text[], $17::text[], $18::bytea[])",
    )
    .bind(tenants)
    .bind(rooms)
    .bind(names)
    .bind(slots(locks))
    .bind(each.clone().map(|lock| lock.lease_id).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| i64::from(lock.hold)).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.fencing_token).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.holder.owner.as_str()).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.holder.session.as_ref().map(|s| s.as_str())).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.holder.name.as_deref()).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.acquired_at.millis()).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.expires_at.millis()).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.due_at.millis()).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| signed(lock.ttl_seconds)).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.metadata.as_ref().map(|m| m.as_str())).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.document_version.as_ref().map(|v| v.as_str())).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| request_id(lock)).collect::<Vec<_>>())
    .bind(each.map(|lock| fingerprint(lock)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// What can change on a lock that lives on.
async fn keep(connection: &mut PgConnection, locks: &[&Lock]) -> Result<()> {
    if locks.is_empty() {
        return Ok(());
    }
    let (tenants, rooms, names) = columns(locks.iter().map(|lock| &lock.key));
    let each = locks.iter();
    sqlx::query(
        "UPDATE document_locks AS l SET hold = k.hold, name = k.name, expires_at = k.expires_at, due_at = k.due_at,
            ttl_seconds = k.ttl_seconds, metadata = k.metadata, extend_request_id = k.extend_request_id,
            extend_fingerprint = k.extend_fingerprint
         FROM UNNEST($1::text[], $2::text[], $3::text[], $4::int[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[],
            $9::int[], $10::text[], $11::text[], $12::bytea[])
           AS k (tenant, room, document, slot, hold, name, expires_at, due_at, ttl_seconds, metadata,
                 extend_request_id, extend_fingerprint)
         WHERE (l.tenant, l.room, l.document, l.slot) = (k.tenant, k.room, k.document, k.slot)",
    )
    .bind(tenants)
    .bind(rooms)
    .bind(names)
    .bind(slots(locks))
    .bind(each.clone().map(|lock| i64::from(lock.hold)).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.holder.name.as_deref()).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.expires_at.millis()).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.due_at.millis()).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| signed(lock.ttl_seconds)).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| lock.metadata.as_ref().map(|m| m.as_str())).collect::<Vec<_>>())
    .bind(each.clone().map(|lock| request_id(lock)).collect::<Vec<_>>())
    .bind(each.map(|lock| fingerprint(lock)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

fn request_id(lock: &Lock) -> Option<&str> {
    lock.last_extend.as_ref().map(|memo| memo.request_id.as_str())
}

fn fingerprint(lock: &Lock) -> Option<&[u8]> {
    lock.last_extend.as_ref().map(|memo| memo.fingerprint.0.as_slice())
}

async fn remember(connection: &mut PgConnection, key: &MemoKey, memo: &Memo) -> Result<()> {
    sqlx::query(
        "INSERT INTO request_memos (tenant, owner_id, request_id, fingerprint, locks, created_at)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (tenant, owner_id, request_id) DO UPDATE SET fingerprint = $4, locks = $5, created_at = $6",
    )
    .bind(key.tenant.as_str())
    .bind(key.owner.as_str())
    .bind(key.request_id.as_str())
    .bind(memo.fingerprint.0.as_slice())
    .bind(memo::to_text(&memo.locks))
    .bind(memo.created_at.millis())
    .execute(connection)
    .await?;
    Ok(())
}

/// Takes the next sequences. Nothing is locked after `log_head`, and COMMIT follows at once.
async fn append(connection: &mut PgConnection, events: &[Event]) -> Result<i64> {
    if events.is_empty() {
        return Ok(0);
    }
    let (tenants, rooms, names) = columns(events.iter().map(|event| &event.lock.key));
    let rows: Vec<_> = events.iter().map(Row::of).collect();
    sqlx::query_scalar(
        "WITH head AS (UPDATE log_head SET sequence = sequence + cardinality($1::text[])
                       RETURNING sequence - cardinality($1::text[]) AS base),
         added AS (INSERT INTO events (sequence, tenant, room, document, at, kind, lease_id, fencing_token, owner_id, session_id,
            reason, \"by\", note, held_ms, body)
         SELECT head.base + e.position, e.tenant, e.room, e.document, e.at, e.kind, e.lease_id, e.fencing_token,
            e.owner_id, e.session_id, e.reason, e.ended_by, e.note, e.held_ms, e.body
         FROM head, UNNEST($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::uuid[], $7::bigint[],
            $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::text[]) WITH ORDINALITY
           AS e (tenant, room, document, at, kind, lease_id, fencing_token, owner_id, session_id, reason, ended_by,
                 note, held_ms, body, position))
         SELECT base FROM head",
    )
    .bind(tenants)
    .bind(rooms)
    .bind(names)
    .bind(events.iter().map(|event| event.at.millis()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.kind.name()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.lock.lease_id).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.lock.fencing_token).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.lock.holder.owner.as_str()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.lock.holder.session.as_ref().map(|s| s.as_str())).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.reason).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.by).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.note).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.held_ms).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.body.as_str()).collect::<Vec<_>>())
    .fetch_one(connection)
    .await
}
