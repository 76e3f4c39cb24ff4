//! Reading what a batch needs, under its write transaction.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use crate::{
    locking::{
        DocumentKey, DocumentState, EndReason, Ending, ExtendMemo, Fingerprint, Holder, Lock, Lookup, Memo, MemoKey,
        Metadata, Timestamp, Which,
        names::{DocumentVersion, OwnerId, RequestId, SessionId, TenantId},
    },
    storage::{batch::Batch, memo},
};

type Result<T> = std::result::Result<T, rusqlite::Error>;

pub(super) fn load(connection: &Connection, batch: &mut Batch<'_>) -> Result<()> {
    let mut documents = connection.prepare_cached(
        "SELECT fencing_token, capacity, document_version FROM documents
         WHERE tenant = ?1 AND room = ?2 AND document = ?3",
    )?;
    let mut locks = connection.prepare_cached(
        "SELECT slot, lease_id, hold, fencing_token, owner_id, session_id, name, acquired_at, expires_at, due_at,
                ttl_seconds, metadata, document_version, extend_request_id, extend_fingerprint
         FROM document_locks WHERE tenant = ?1 AND room = ?2 AND document = ?3",
    )?;
    for key in batch.document_keys() {
        if let Some(document) = document(&mut documents, key)? {
            batch.state.documents.insert(key.clone(), document);
        }
    }
    for key in batch.keys() {
        let mut rows = locks.query(names(key))?;
        while let Some(row) = rows.next()? {
            let lock = lock(row, key)?;
            batch.state.documents.entry(key.clone()).or_default().locks.push(lock);
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

fn names(key: &DocumentKey) -> [&str; 3] {
    [key.tenant.as_str(), key.room.as_str(), key.document.as_str()]
}

fn document(documents: &mut Statement<'_>, key: &DocumentKey) -> Result<Option<DocumentState>> {
    let read = |row: &Row<'_>| {
        Ok(DocumentState {
            fencing_token: row.get(0)?,
            capacity: row.get(1)?,
            version: text(row, 2)?.map(DocumentVersion::from_stored),
            locks: Vec::new(),
        })
    };
    documents.query_row(names(key), read).optional()
}

fn lock(row: &Row<'_>, key: &DocumentKey) -> Result<Lock> {
    let request_id = text(row, 13)?.map(RequestId::from_stored);
    let fingerprint: Option<[u8; 16]> = row.get(14)?;
    Ok(Lock {
        key: key.clone(),
        slot: row.get(0)?,
        lease_id: row.get(1)?,
        hold: row.get(2)?,
        fencing_token: row.get(3)?,
        holder: Holder {
            owner: OwnerId::from_stored(row.get_ref(4)?.as_str()?),
            session: text(row, 5)?.map(SessionId::from_stored),
            name: text(row, 6)?.map(Into::into),
        },
        acquired_at: Timestamp::from_millis(row.get(7)?),
        expires_at: Timestamp::from_millis(row.get(8)?),
        due_at: Timestamp::from_millis(row.get(9)?),
        ttl_seconds: row.get(10)?,
        metadata: text(row, 11)?.map(Metadata::from_stored),
        document_version: text(row, 12)?.map(DocumentVersion::from_stored),
        last_extend: request_id
            .zip(fingerprint)
            .map(|(request_id, bytes)| ExtendMemo { request_id, fingerprint: Fingerprint(bytes) }),
    })
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
    // As `Ending::at` has it.
    const ENDED: &str = "SELECT reason, CASE reason WHEN 'expired' THEN body ->> 'expires_at' ELSE at END FROM events
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
            .prepare_cached(&format!("{ENDED} AND lease_id = ?5"))?
            .query_row(params![name.0, name.1, name.2, name.3, lease_id], read)
            .optional(),
        Which::Session(session) => connection
            .prepare_cached(&format!("{ENDED} AND session_id = ?5 ORDER BY sequence DESC LIMIT 1"))?
            .query_row(params![name.0, name.1, name.2, name.3, session.as_str()], read)
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
