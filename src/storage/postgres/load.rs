//! Locking and reading what a batch needs.

use sea_orm::sqlx::{self, AssertSqlSafe, Executor as _, PgConnection, Row as _, postgres::PgRow};

use super::{Failure, line, quick::Quick, time::Time};
use crate::{
    locking::{
        Activity, DocumentKey, DocumentRow, EndReason, Ending, Fingerprint, Holder, HolderKind, Lock, Lookup, Memo,
        MemoKey, Metadata, Span, Timestamp, Which,
        names::{DocumentVersion, OwnerId, RequestId, SessionId, TenantId},
    },
    storage::{ENDINGS_SEARCHED, batch::Batch, memo, queries::key},
    time::liveness::Outages,
};

type Result<T> = std::result::Result<T, sqlx::Error>;

/// How often rows may turn out to have come into being between two statements.
const LOADS: usize = 4;

/// What is asked of `doclock_lock_rows`.
#[derive(Default)]
pub(super) struct Wish<'k> {
    pub documents: Vec<&'k DocumentKey>,
    pub locks: Vec<&'k DocumentKey>,
    pub memos: Vec<MemoKey>,
    pub due_limit: u32,
    pub known_sequence: Option<i64>,
    /// A test's clock stands in for the database's.
    pub manual_now: Option<Timestamp>,
}

/// What it answers. Locks have their real ends, whichever outages there have been since their rows were written.
pub(super) struct Found {
    pub documents: Vec<(DocumentKey, DocumentRow)>,
    pub locks: Vec<Lock>,
    pub memos: Vec<(MemoKey, Memo)>,
    /// As it was when the rows had been locked.
    pub time: Time,
    /// Locks that expiry has looked at and that were extended since.
    pub postponed: usize,
    /// Documents whose overdue locks somebody wants.
    pub wanted: Vec<DocumentKey>,
}

/// Loads what the batch needs, under row locks. The row of a document that may get a lock is made if it is not there.
pub(super) async fn load(
    connection: &mut PgConnection,
    batch: &mut Batch<'_>,
    quick: &Quick<'_>,
    wish: Wish<'_>,
) -> std::result::Result<Time, Failure> {
    let locks: Vec<_> = batch.keys().into_iter().collect();
    let documents: Vec<_> = locks.iter().copied().filter(|key| !quick.contains(key)).collect();
    let memos = batch.memo_keys().into_iter().collect();
    let wish = Wish { documents, locks, memos, ..wish };
    for _ in 0..LOADS {
        let found = lock_rows(connection, &wish).await?;
        let missing = fill(batch, &wish, found.documents, found.locks);
        if missing.is_empty() {
            batch.state.memos.extend(found.memos);
            line::load(connection, batch, found.time.now).await?;
            endings(connection, batch).await?;
            owner_locks(connection, batch).await?;
            return Ok(found.time);
        }
        // From the start: a row inserted after later ones have been locked would be out of order.
        connection.execute("ROLLBACK; BEGIN").await?;
        create(connection, &missing).await?;
    }
    Err(Failure::Again("documents came into being while they were read".to_owned()))
}

/// Answers documents whose rows must be there and were not read: those that may get a lock, and those that have got their
/// first one between the statement that read their rows and the one that read their locks.
fn fill<'k>(
    batch: &mut Batch<'_>,
    wish: &Wish<'k>,
    documents: Vec<(DocumentKey, DocumentRow)>,
    locks: Vec<Lock>,
) -> Vec<&'k DocumentKey> {
    batch.state.documents = documents.into_iter().collect();
    batch.state.locks.clear();
    batch.state.add_locks(locks);
    let (state, wanted) = (&batch.state, batch.wanted());
    let is_missing = |key: &&DocumentKey| {
        !state.documents.contains_key(*key) && (wanted.contains(*key) || state.locks.contains_key(*key))
    };
    wish.documents.iter().copied().filter(is_missing).collect()
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

pub(super) async fn lock_rows(connection: &mut PgConnection, wish: &Wish<'_>) -> Result<Found> {
    let (document_tenants, document_rooms, document_names) = columns(wish.documents.iter().copied());
    let (lock_tenants, lock_rooms, lock_names) = columns(wish.locks.iter().copied());
    let memos = || wish.memos.iter();
    let rows = sqlx::query("SELECT * FROM doclock_lock_rows($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)")
        .bind(document_tenants)
        .bind(document_rooms)
        .bind(document_names)
        .bind(lock_tenants)
        .bind(lock_rooms)
        .bind(lock_names)
        .bind(memos().map(|memo| memo.tenant.as_str()).collect::<Vec<_>>())
        .bind(memos().map(|memo| memo.owner.as_str()).collect::<Vec<_>>())
        .bind(memos().map(|memo| memo.request_id.as_str()).collect::<Vec<_>>())
        .bind(i32::try_from(wish.due_limit).unwrap_or(i32::MAX))
        .bind(wish.known_sequence)
        .bind(wish.manual_now.map(Timestamp::millis))
        .fetch_all(connection)
        .await?;
    found(&rows)
}

fn found(rows: &[PgRow]) -> Result<Found> {
    // It comes last.
    let time = rows.last().ok_or(sqlx::Error::RowNotFound)?;
    let postponed: i64 = time.try_get("postponed")?;
    let mut found = Found {
        documents: Vec::new(),
        locks: Vec::new(),
        memos: Vec::new(),
        time: Time::of(time)?,
        postponed: usize::try_from(postponed).unwrap_or_default(),
        wanted: Vec::new(),
    };
    for row in &rows[..rows.len() - 1] {
        match row.try_get::<i8, _>("kind")?.cast_unsigned() {
            b'd' => found.documents.push((key_of(row)?, document(row)?)),
            b'l' => found.locks.push(lock(row, "holder_kind", &found.time.outages)?),
            b'm' => found.memos.push(memo_of(row)?),
            b'w' => found.wanted.push(key_of(row)?),
            kind => return Err(sqlx::Error::Decode(format!("a row of kind {kind}").into())),
        }
    }
    Ok(found)
}

pub(super) fn key_of(row: &PgRow) -> Result<DocumentKey> {
    Ok(key(row.try_get("tenant")?, row.try_get("room")?, row.try_get("document")?))
}

fn document(row: &PgRow) -> Result<DocumentRow> {
    Ok(DocumentRow {
        fencing_token: row.try_get("fencing_token")?,
        capacity: unsigned(row.try_get("capacity")?),
        version: row.try_get::<Option<String>, _>("document_version")?.map(DocumentVersion::from_stored),
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

/// `kind_column` is the holder's kind: the rows of `doclock_lock_rows` have a kind of their own.
pub(super) fn lock(row: &PgRow, kind_column: &str, outages: &Outages) -> Result<Lock> {
    let millis = |column: &str| Ok::<_, sqlx::Error>(row.try_get::<Option<i32>, _>(column)?.map(unsigned));
    let active_at: Option<i64> = row.try_get("active_at")?;
    let mut lock = Lock {
        key: key_of(row)?,
        slot: unsigned(row.try_get("slot")?),
        lease_id: row.try_get("lease_id")?,
        hold: u32::try_from(row.try_get::<i64, _>("hold")?).unwrap_or(u32::MAX),
        fencing_token: row.try_get("fencing_token")?,
        holder: Holder {
            owner: OwnerId::from_stored(row.try_get::<String, _>("owner_id")?),
            session: row.try_get::<Option<String>, _>("session_id")?.map(SessionId::from_stored),
            name: row.try_get::<Option<String>, _>("name")?.map(Into::into),
            kind: HolderKind::from_stored(row.try_get(kind_column)?),
        },
        acquired_at: moment(row, "acquired_at")?,
        expires_at: moment(row, "expires_at")?,
        due_at: moment(row, "due_at")?,
        ttl_seconds: unsigned(row.try_get("ttl_seconds")?),
        span: Span::from_stored(millis("linger_ms")?, millis("claim_ms")?),
        activity: Activity::from_stored(row.try_get("activity")?),
        active_at: Timestamp::from_millis(active_at.map_or_else(|| row.try_get("acquired_at"), Ok)?),
        is_wanted: row.try_get("is_wanted")?,
        metadata: row.try_get::<Option<String>, _>("metadata")?.and_then(Metadata::from_stored),
        document_version: row.try_get::<Option<String>, _>("document_version")?.map(DocumentVersion::from_stored),
        extend_ids: memo::ids_from_text(row.try_get("extend_ids")?),
    };
    lock.expires_at = outages.end_of(lock.expires_at, lock.span_ms());
    Ok(lock)
}

pub(super) fn moment(row: &PgRow, column: &str) -> Result<Timestamp> {
    Ok(Timestamp::from_millis(row.try_get(column)?))
}

pub(super) fn unsigned(number: i32) -> u32 {
    number.try_into().unwrap_or_default()
}

fn memo_of(row: &PgRow) -> Result<(MemoKey, Memo)> {
    let key = MemoKey {
        tenant: TenantId::from_stored(row.try_get::<String, _>("tenant")?),
        owner: OwnerId::from_stored(row.try_get::<String, _>("owner_id")?),
        request_id: RequestId::from_stored(row.try_get::<String, _>("request_id")?),
    };
    let fingerprint: &[u8] = row.try_get("fingerprint")?;
    let memo = Memo {
        fingerprint: Fingerprint(fingerprint.try_into().unwrap_or_default()),
        created_at: moment(row, "created_at")?,
        locks: memo::from_text(row.try_get("granted")?),
    };
    Ok((key, memo))
}

/// How earlier locks ended, all by one statement, under the locks: few batches ask.
async fn endings(connection: &mut PgConnection, batch: &mut Batch<'_>) -> Result<()> {
    let lookups: Vec<Lookup> = batch.lookups().into_iter().collect();
    if lookups.is_empty() {
        return Ok(());
    }
    let each = || lookups.iter();
    let (tenants, rooms, documents) = columns(each().map(|lookup| &lookup.key));
    let lease = |lookup: &Lookup| if let Which::Lease(lease_id) = lookup.which { Some(lease_id) } else { None };
    let session = |lookup: &Lookup| match &lookup.which {
        Which::Session(session) => Some(session.to_string()),
        Which::Lease(_) | Which::Any => None,
    };
    // A lease has at most one end, and OFFSET 0 keeps the planner from looking for it among all that its owner has ended.
    // The limits are numbers in the text: with others the planner reads all there is.
    let rows = sqlx::query(AssertSqlSafe(format!(
        "SELECT k.position, e.reason, coalesce(e.ended_at, e.at) AS ended_at
         FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[])
            WITH ORDINALITY AS k (tenant, room, document, owner_id, lease_id, session_id, position)
         CROSS JOIN LATERAL (
            (SELECT e.reason, e.ended_at, e.at FROM
                (SELECT * FROM events AS e WHERE e.kind = 'DocumentUnlocked' AND e.lease_id = k.lease_id OFFSET 0) AS e
             WHERE (e.tenant, e.room, e.document, e.owner_id) = (k.tenant, k.room, k.document, k.owner_id) LIMIT 1)
            UNION ALL
            (SELECT e.reason, e.ended_at, e.at FROM
                (SELECT e.reason, e.session_id, e.ended_at, e.at FROM events AS e
                 WHERE k.lease_id IS NULL AND k.session_id IS NOT NULL AND e.kind = 'DocumentUnlocked'
                   AND e.tenant = k.tenant AND e.room = k.room AND e.document = k.document AND e.owner_id = k.owner_id
                 ORDER BY e.sequence DESC LIMIT {ENDINGS_SEARCHED}) AS e
             WHERE e.session_id = k.session_id LIMIT 1)
            UNION ALL
            (SELECT e.reason, e.ended_at, e.at FROM events AS e
             WHERE k.lease_id IS NULL AND k.session_id IS NULL AND e.kind = 'DocumentUnlocked'
               AND e.tenant = k.tenant AND e.room = k.room AND e.document = k.document AND e.owner_id = k.owner_id
             ORDER BY e.sequence DESC LIMIT 1)) AS e"
    )))
    .bind(tenants)
    .bind(rooms)
    .bind(documents)
    .bind(each().map(|lookup| lookup.owner.as_str()).collect::<Vec<_>>())
    .bind(each().map(lease).collect::<Vec<_>>())
    .bind(each().map(session).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    for row in rows {
        let position = usize::try_from(row.try_get::<i64, _>("position")? - 1).unwrap_or_default();
        // Every reason that was written can be read; a foreign one counts as ended by someone else.
        let reason = EndReason::from_name(row.try_get("reason")?).unwrap_or(EndReason::Revoked);
        let ending = Ending { reason, at: moment(&row, "ended_at")? };
        batch.state.endings.insert(lookups[position].clone(), ending);
    }
    Ok(())
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
           (SELECT 1 FROM document_locks AS l WHERE l.tenant = k.tenant AND l.owner_id = k.owner_id LIMIT $3) AS counted) AS locks
         FROM UNNEST($1::text[], $2::text[]) AS k (tenant, owner_id)",
    )
    .bind(tenants)
    .bind(owners)
    .bind(i64::from(limit))
    .fetch_all(connection)
    .await?;
    for row in rows {
        let tenant = TenantId::from_stored(row.try_get::<String, _>("tenant")?);
        let owner = OwnerId::from_stored(row.try_get::<String, _>("owner_id")?);
        let locks = u32::try_from(row.try_get::<i64, _>("locks")?).unwrap_or(u32::MAX);
        batch.state.owner_locks.insert((tenant, owner), locks);
    }
    Ok(())
}
