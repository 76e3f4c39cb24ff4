//! Locking and reading what a batch needs.

use sea_orm::sqlx::{self, Executor as _, PgConnection, Row as _, postgres::PgRow};

use super::{quick::Quick, time::Time};
use crate::{
    clock::Clock,
    locking::{
        DocumentKey, DocumentState, EndReason, Ending, ExtendMemo, Fingerprint, Holder, Lock, Lookup, Memo, MemoKey,
        Metadata, Timestamp, Which,
        names::{DocumentVersion, OwnerId, RequestId, SessionId, TenantId},
    },
    storage::{batch::Batch, memo, queries::key},
};

type Result<T> = std::result::Result<T, sqlx::Error>;

/// Answers the time, as it was when the rows had been locked.
pub(super) async fn load(
    connection: &mut PgConnection,
    batch: &mut Batch<'_>,
    quick: &Quick<'_>,
    clock: &Clock,
) -> Result<Time> {
    let keys: Vec<&DocumentKey> = batch.keys().into_iter().collect();
    let decided: Vec<&DocumentKey> = keys.iter().copied().filter(|key| !quick.contains(key)).collect();
    let mut time = lock_rows(connection, batch, &decided, &keys, clock).await?;
    let created: Vec<_> = batch.wanted().into_iter().filter(|key| !batch.state.documents.contains_key(key)).collect();
    if !created.is_empty() {
        // From the start: a row inserted after later ones have been locked would be out of order.
        connection.execute("ROLLBACK; BEGIN").await?;
        create(connection, &created).await?;
        batch.state.documents.clear();
        time = lock_rows(connection, batch, &decided, &keys, clock).await?;
    }
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
    owner_locks(connection, batch).await?;
    Ok(time)
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

/// Locks the rows of `documents` and of the locks on `keys`, in this order, and reads them and the time.
async fn lock_rows(
    connection: &mut PgConnection,
    batch: &mut Batch<'_>,
    documents: &[&DocumentKey],
    keys: &[&DocumentKey],
    clock: &Clock,
) -> Result<Time> {
    let (document_tenants, document_rooms, document_names) = columns(documents.iter().copied());
    let (lock_tenants, lock_rooms, lock_names) = columns(keys.iter().copied());
    let rows = sqlx::query("SELECT * FROM doclock_load($1, $2, $3, $4, $5, $6, $7)")
        .bind(document_tenants)
        .bind(document_rooms)
        .bind(document_names)
        .bind(lock_tenants)
        .bind(lock_rooms)
        .bind(lock_names)
        .bind(clock.manual_now().map(Timestamp::millis))
        .fetch_all(connection)
        .await?;
    let mut time = None;
    for row in &rows {
        match row.try_get::<i8, _>(0)?.cast_unsigned() {
            b'd' => {
                let key = key(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
                batch.state.documents.insert(key, document(row)?);
            }
            b'l' => {
                let lock = lock(row)?;
                batch.state.documents.entry(lock.key.clone()).or_default().locks.push(lock);
            }
            _ => time = Some(Time::of(row)?),
        }
    }
    time.ok_or(sqlx::Error::RowNotFound)
}

fn document(row: &PgRow) -> Result<DocumentState> {
    Ok(DocumentState {
        fencing_token: row.try_get(7)?,
        capacity: unsigned(row.try_get(4)?),
        version: row.try_get::<Option<String>, _>(16)?.map(DocumentVersion::from_stored),
        locks: Vec::new(),
    })
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

fn lock(row: &PgRow) -> Result<Lock> {
    let request_id: Option<String> = row.try_get(17)?;
    let fingerprint: Option<Vec<u8>> = row.try_get(18)?;
    let last_extend = request_id.zip(fingerprint).map(|(request_id, bytes)| ExtendMemo {
        request_id: RequestId::from_stored(request_id),
        fingerprint: fingerprint_of(&bytes),
    });
    Ok(Lock {
        key: key(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?),
        slot: unsigned(row.try_get(4)?),
        lease_id: row.try_get(5)?,
        hold: u32::try_from(row.try_get::<i64, _>(6)?).unwrap_or(u32::MAX),
        fencing_token: row.try_get(7)?,
        holder: Holder {
            owner: OwnerId::from_stored(row.try_get::<String, _>(8)?),
            session: row.try_get::<Option<String>, _>(9)?.map(SessionId::from_stored),
            name: row.try_get::<Option<String>, _>(10)?.map(Into::into),
        },
        acquired_at: Timestamp::from_millis(row.try_get(11)?),
        expires_at: Timestamp::from_millis(row.try_get(12)?),
        due_at: Timestamp::from_millis(row.try_get(13)?),
        ttl_seconds: unsigned(row.try_get(14)?),
        metadata: row.try_get::<Option<String>, _>(15)?.map(Metadata::from_stored),
        document_version: row.try_get::<Option<String>, _>(16)?.map(DocumentVersion::from_stored),
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
