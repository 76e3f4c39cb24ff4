//! Locking and reading what a batch needs.

use sea_orm::sqlx::{self, Executor as _, PgConnection, Row as _, postgres::PgRow};

use super::quick::Quick;
use crate::{
    locking::{
        DocumentKey, DocumentState, EndReason, Ending, ExtendMemo, Fingerprint, Holder, Lock, Lookup, Memo, MemoKey,
        Metadata, Timestamp, Which,
        names::{DocumentVersion, OwnerId, RequestId, SessionId, TenantId},
    },
    storage::{batch::Batch, memo, queries::key},
};

type Result<T> = std::result::Result<T, sqlx::Error>;

pub(super) async fn load(connection: &mut PgConnection, batch: &mut Batch<'_>, quick: &Quick<'_>) -> Result<()> {
    let keys: Vec<&DocumentKey> = batch.keys().into_iter().collect();
    let decided: Vec<&DocumentKey> = keys.iter().copied().filter(|key| !quick.contains(key)).collect();
    documents(connection, batch, &decided).await?;
    let missing: Vec<_> = decided.iter().copied().filter(|key| !batch.state.documents.contains_key(key)).collect();
    let created: Vec<_> = batch.wanted().into_iter().filter(|key| missing.contains(key)).collect();
    if !created.is_empty() {
        // From the start: a row inserted after later ones have been locked would be out of order.
        connection.execute("ROLLBACK; BEGIN").await?;
        create(connection, &created).await?;
        documents(connection, batch, &decided).await?;
    }
    locks(connection, batch, &keys).await?;
    for key in batch.memo_keys() {
        if let Some(memo) = memo_of(connection, &key).await? {
            batch.state.memos.insert(key, memo);
        }
    }
    for lookup in batch.lookups() {
        if let Some(ending) = ending(connection, &lookup).await? {
            batch.state.endings.insert(lookup, ending);
        }
    }
    owner_locks(connection, batch).await
}

/// Three columns of names.
pub(super) fn columns<'k>(keys: impl Iterator<Item = &'k DocumentKey>) -> (Vec<&'k str>, Vec<&'k str>, Vec<&'k str>) {
    let mut columns = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        columns.0.push(key.tenant.as_str());
        columns.1.push(key.room.as_str());
        columns.2.push(key.document.as_str());
    }
    columns
}

async fn documents(connection: &mut PgConnection, batch: &mut Batch<'_>, keys: &[&DocumentKey]) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let (tenants, rooms, names) = columns(keys.iter().copied());
    let rows = sqlx::query(
        "SELECT d.tenant, d.room, d.document, d.fencing_token, d.capacity, d.document_version
         FROM UNNEST($1::text[], $2::text[], $3::text[]) AS k (tenant, room, document)
         JOIN documents AS d ON (d.tenant, d.room, d.document) = (k.tenant, k.room, k.document)
         ORDER BY d.tenant, d.room, d.document FOR UPDATE OF d",
    )
    .bind(tenants)
    .bind(rooms)
    .bind(names)
    .fetch_all(connection)
    .await?;
    for row in rows {
        let document = DocumentState {
            fencing_token: row.try_get(3)?,
            capacity: unsigned(row.try_get(4)?),
            version: row.try_get::<Option<String>, _>(5)?.map(DocumentVersion::from_stored),
            locks: Vec::new(),
        };
        // Over what an earlier look may have found.
        batch.state.documents.insert(key(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?), document);
    }
    Ok(())
}

/// Rows to lock, for documents nobody ever locked.
async fn create(connection: &mut PgConnection, keys: &[&DocumentKey]) -> Result<()> {
    let (tenants, rooms, names) = columns(keys.iter().copied());
    sqlx::query(
        "INSERT INTO documents (tenant, room, document, fencing_token, capacity)
         SELECT k.tenant, k.room, k.document, 0, 1
         FROM UNNEST($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k (tenant, room, document, position)
         ORDER BY position ON CONFLICT DO NOTHING",
    )
    .bind(tenants)
    .bind(rooms)
    .bind(names)
    .execute(connection)
    .await?;
    Ok(())
}

async fn locks(connection: &mut PgConnection, batch: &mut Batch<'_>, keys: &[&DocumentKey]) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let (tenants, rooms, names) = columns(keys.iter().copied());
    let rows = sqlx::query(
        "SELECT l.tenant, l.room, l.document, l.slot, l.lease_id, l.hold, l.fencing_token, l.owner_id, l.session_id,
                l.name, l.acquired_at, l.expires_at, l.due_at, l.ttl_seconds, l.metadata, l.document_version,
                l.extend_request_id, l.extend_fingerprint
         FROM UNNEST($1::text[], $2::text[], $3::text[]) AS k (tenant, room, document)
         JOIN document_locks AS l ON (l.tenant, l.room, l.document) = (k.tenant, k.room, k.document)
         ORDER BY l.tenant, l.room, l.document, l.slot FOR UPDATE OF l",
    )
    .bind(tenants)
    .bind(rooms)
    .bind(names)
    .fetch_all(connection)
    .await?;
    for row in &rows {
        let lock = lock(row)?;
        batch.state.documents.entry(lock.key.clone()).or_default().locks.push(lock);
    }
    Ok(())
}

fn lock(row: &PgRow) -> Result<Lock> {
    let request_id: Option<String> = row.try_get(16)?;
    let fingerprint: Option<Vec<u8>> = row.try_get(17)?;
    let last_extend = request_id.zip(fingerprint).map(|(request_id, bytes)| ExtendMemo {
        request_id: RequestId::from_stored(request_id),
        fingerprint: fingerprint_of(&bytes),
    });
    Ok(Lock {
        key: key(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?),
        slot: unsigned(row.try_get(3)?),
        lease_id: row.try_get(4)?,
        hold: u32::try_from(row.try_get::<i64, _>(5)?).unwrap_or(u32::MAX),
        fencing_token: row.try_get(6)?,
        holder: Holder {
            owner: OwnerId::from_stored(row.try_get::<String, _>(7)?),
            session: row.try_get::<Option<String>, _>(8)?.map(SessionId::from_stored),
            name: row.try_get::<Option<String>, _>(9)?.map(Into::into),
        },
        acquired_at: Timestamp::from_millis(row.try_get(10)?),
        expires_at: Timestamp::from_millis(row.try_get(11)?),
        due_at: Timestamp::from_millis(row.try_get(12)?),
        ttl_seconds: unsigned(row.try_get(13)?),
        metadata: row.try_get::<Option<String>, _>(14)?.map(Metadata::from_stored),
        document_version: row.try_get::<Option<String>, _>(15)?.map(DocumentVersion::from_stored),
        last_extend,
    })
}

fn unsigned(number: i32) -> u32 {
    number.try_into().unwrap_or_default()
}

fn fingerprint_of(bytes: &[u8]) -> Fingerprint {
    Fingerprint(bytes.try_into().unwrap_or_default())
}

async fn memo_of(connection: &mut PgConnection, key: &MemoKey) -> Result<Option<Memo>> {
    let row = sqlx::query(
        "SELECT fingerprint, created_at, locks FROM request_memos WHERE tenant = $1 AND owner_id = $2 AND request_id = $3",
    )
    .bind(key.tenant.as_str())
    .bind(key.owner.as_str())
    .bind(key.request_id.as_str())
    .fetch_optional(connection)
    .await?;
    row.map(|row| {
        Ok(Memo {
            fingerprint: fingerprint_of(row.try_get(0)?),
            created_at: Timestamp::from_millis(row.try_get(1)?),
            locks: memo::from_text(row.try_get(2)?),
        })
    })
    .transpose()
}

async fn ending(connection: &mut PgConnection, lookup: &Lookup) -> Result<Option<Ending>> {
    let Lookup { key, owner, which } = lookup;
    let (lease_id, session) = match which {
        Which::Lease(lease_id) => (Some(*lease_id), None),
        Which::Session(session) => (None, Some(session.as_str())),
        Which::Any => (None, None),
    };
    // The moment is as `Ending::at` has it. A lease has at most one end.
    let by_lease = "SELECT reason, CASE reason WHEN 'expired' THEN (body::json ->> 'expires_at')::bigint ELSE at END FROM events
         WHERE kind = 'DocumentUnlocked' AND lease_id = $5 AND tenant = $1 AND room = $2 AND document = $3 AND owner_id = $4
           AND $6::text IS NULL";
    let by_owner =
        "SELECT reason, CASE reason WHEN 'expired' THEN (body::json ->> 'expires_at')::bigint ELSE at END FROM events
         WHERE kind = 'DocumentUnlocked' AND tenant = $1 AND room = $2 AND document = $3 AND owner_id = $4
           AND $5::uuid IS NULL AND ($6::text IS NULL OR session_id = $6)
         ORDER BY sequence DESC LIMIT 1";
    let row = sqlx::query(if lease_id.is_some() { by_lease } else { by_owner })
        .bind(key.tenant.as_str())
        .bind(key.room.as_str())
        .bind(key.document.as_str())
        .bind(owner.as_str())
        .bind(lease_id)
        .bind(session)
        .fetch_optional(connection)
        .await?;
    row.map(|row| {
        // Every reason that was written can be read; a foreign one counts as ended by someone else.
        let reason = EndReason::from_name(row.try_get(0)?).unwrap_or(EndReason::Revoked);
        Ok(Ending { reason, at: Timestamp::from_millis(row.try_get(1)?) })
    })
    .transpose()
}

/// Counted only where there is a limit, and no further than it.
async fn owner_locks(connection: &mut PgConnection, batch: &mut Batch<'_>) -> Result<()> {
    let limit = batch.state.policy.locks_per_owner;
    let lockers = batch.lockers();
    if limit == 0 || lockers.is_empty() {
        return Ok(());
    }
    let tenants: Vec<_> = lockers.iter().map(|(tenant, _)| tenant.as_str()).collect();
    let owners: Vec<_> = lockers.iter().map(|(_, owner)| owner.as_str()).collect();
    let rows = sqlx::query(
        "SELECT k.tenant, k.owner_id, (SELECT count(*) FROM
           (SELECT 1 FROM document_locks AS l WHERE l.tenant = k.tenant AND l.owner_id = k.owner_id LIMIT $3) AS counted)
         FROM UNNEST($1::text[], $2::text[]) AS k (tenant, owner_id)",
    )
    .bind(tenants)
    .bind(owners)
    .bind(i64::from(limit))
    .fetch_all(connection)
    .await?;
    for row in rows {
        let owner =
            (TenantId::from_stored(row.try_get::<String, _>(0)?), OwnerId::from_stored(row.try_get::<String, _>(1)?));
        batch.state.owner_locks.insert(owner, u32::try_from(row.try_get::<i64, _>(2)?).unwrap_or(u32::MAX));
    }
    Ok(())
}
