//! The demo's texts, in an SQLite file of their own.

use std::path::Path;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use crate::locking::{DocumentKey, Timestamp};

/// More documents are refused: anyone may come, and nothing is ever deleted.
const DOCUMENTS: i64 = 1000;
/// How many versions of a document are kept.
const VERSIONS: i64 = 500;

const SCHEMA: &str = "
    PRAGMA journal_mode = wal;
    PRAGMA synchronous = full;
    CREATE TABLE IF NOT EXISTS texts (room TEXT, document TEXT, fencing_token INTEGER NOT NULL DEFAULT 0,
        version INTEGER NOT NULL DEFAULT 0, text TEXT NOT NULL DEFAULT '', PRIMARY KEY (room, document)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS saves (room TEXT, document TEXT, version INTEGER, fencing_token INTEGER NOT NULL,
        saved_at INTEGER NOT NULL, by TEXT NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (room, document, version)) WITHOUT ROWID;";

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("as many documents as it takes")]
    Full,
}

#[derive(Debug)]
pub(super) struct Store(Mutex<Connection>);

#[derive(Debug, Default)]
pub(super) struct Content {
    pub text: String,
    pub version: i64,
    pub fencing_token: i64,
}

/// What came of a write that was conditional on the token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Write {
    Done { version: i64 },
    Stale { current: i64 },
}

/// A version as it was saved.
#[derive(Debug, Serialize)]
pub struct SavedVersion {
    document_version: String,
    fencing_token: i64,
    saved_at: Timestamp,
    by: String,
    text: String,
}

impl Store {
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(file)?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self(Mutex::new(connection)))
    }

    pub fn read(&self, key: &DocumentKey) -> Result<Content, StoreError> {
        Ok(read(&self.0.lock(), key)?.unwrap_or_default())
    }

    /// From here on nobody with an older token can save.
    pub fn claim(&self, key: &DocumentKey, token: i64) -> Result<Write, StoreError> {
        let connection = self.0.lock();
        create(&connection, key)?;
        let claimed = connection.execute(
            "UPDATE texts SET fencing_token = ?3 WHERE room = ?1 AND document = ?2 AND fencing_token <= ?3",
            params![key.room.as_str(), key.document.as_str(), token],
        )?;
        written(&connection, key, claimed)
    }

    pub fn save(
        &self,
        key: &DocumentKey,
        token: i64,
        text: &str,
        by: &str,
        now: Timestamp,
    ) -> Result<Write, StoreError> {
        let mut connection = self.0.lock();
        let transaction = connection.transaction()?;
        create(&transaction, key)?;
        let (room, document) = (key.room.as_str(), key.document.as_str());
        let saved = transaction.execute(
            "UPDATE texts SET fencing_token = ?3, text = ?4, version = version + 1
             WHERE room = ?1 AND document = ?2 AND fencing_token <= ?3",
            params![room, document, token, text],
        )?;
        let written = written(&transaction, key, saved)?;
        if let Write::Done { version } = written {
            transaction.execute(
                "INSERT INTO saves VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![room, document, version, token, now.millis(), by, text],
            )?;
            transaction.execute(
                "DELETE FROM saves WHERE room = ?1 AND document = ?2 AND version <= ?3",
                params![room, document, version - VERSIONS],
            )?;
        }
        transaction.commit()?;
        Ok(written)
    }

    /// What was saved, oldest first.
    pub fn history(&self, key: &DocumentKey) -> Result<Vec<SavedVersion>, StoreError> {
        let connection = self.0.lock();
        let mut statement = connection.prepare_cached(
            "SELECT version, fencing_token, saved_at, by, text FROM saves WHERE room = ?1 AND document = ?2
             ORDER BY version",
        )?;
        let saved = statement.query_map([key.room.as_str(), key.document.as_str()], |row| {
            Ok(SavedVersion {
                document_version: super::version(row.get("version")?),
                fencing_token: row.get("fencing_token")?,
                saved_at: Timestamp::from_millis(row.get("saved_at")?),
                by: row.get("by")?,
                text: row.get("text")?,
            })
        })?;
        Ok(saved.collect::<Result<_, _>>()?)
    }
}

fn read(connection: &Connection, key: &DocumentKey) -> Result<Option<Content>, rusqlite::Error> {
    let sql = "SELECT text, version, fencing_token FROM texts WHERE room = ?1 AND document = ?2";
    let text = |row: &rusqlite::Row<'_>| {
        Ok(Content { text: row.get("text")?, version: row.get("version")?, fencing_token: row.get("fencing_token")? })
    };
    connection.prepare_cached(sql)?.query_row([key.room.as_str(), key.document.as_str()], text).optional()
}

fn create(connection: &Connection, key: &DocumentKey) -> Result<(), StoreError> {
    if read(connection, key)?.is_some() {
        return Ok(());
    }
    let count: i64 = connection.query_row("SELECT count(*) FROM texts", [], |row| row.get(0))?;
    if count >= DOCUMENTS {
        return Err(StoreError::Full);
    }
    let names = [key.room.as_str(), key.document.as_str()];
    connection.execute("INSERT OR IGNORE INTO texts (room, document) VALUES (?1, ?2)", names)?;
    Ok(())
}

fn written(connection: &Connection, key: &DocumentKey, rows: usize) -> Result<Write, StoreError> {
    let text = read(connection, key)?.unwrap_or_default();
    Ok(if rows > 0 { Write::Done { version: text.version } } else { Write::Stale { current: text.fencing_token } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locking::names::{DocumentId, RoomId, TenantId};

    fn key(document: &str) -> DocumentKey {
        DocumentKey {
            tenant: TenantId::default_tenant(),
            room: RoomId::from_stored("demo-room"),
            document: DocumentId::from_stored(document),
        }
    }

    fn store() -> (Store, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (Store::open(&folder.path().join("demo.db")).unwrap(), folder)
    }

    const NOW: Timestamp = Timestamp::from_millis(0);

    #[test]
    fn ls_fence_001_once_a_newer_token_is_claimed_an_older_one_cannot_save() {
        let (store, _folder) = store();
        assert_eq!(store.save(&key("a"), 1, "one", "alice", NOW).unwrap(), Write::Done { version: 1 });
        assert_eq!(store.claim(&key("a"), 2).unwrap(), Write::Done { version: 1 });
        assert_eq!(store.save(&key("a"), 1, "late", "alice", NOW).unwrap(), Write::Stale { current: 2 });
        assert_eq!(store.read(&key("a")).unwrap().text, "one");
        assert_eq!(store.save(&key("a"), 2, "two", "bob", NOW).unwrap(), Write::Done { version: 2 });
        let texts: Vec<_> = store.history(&key("a")).unwrap().into_iter().map(|saved| saved.text).collect();
        assert_eq!(texts, ["one", "two"]);
    }

    #[test]
    fn documents_and_versions_of_the_demo_are_bounded() {
        let (store, _folder) = store();
        for number in 0..VERSIONS + 10 {
            store.save(&key("a"), 1, &number.to_string(), "alice", NOW).unwrap();
        }
        assert_eq!(store.history(&key("a")).unwrap().len(), usize::try_from(VERSIONS).unwrap());
        for number in 1..DOCUMENTS {
            store.claim(&key(&number.to_string()), 1).unwrap();
        }
        assert!(matches!(store.claim(&key("one too many"), 1), Err(StoreError::Full)));
        store.claim(&key("a"), 1).expect("what is there can still be used");
    }
}
