//! A look at a database that changes nothing in it, for `doclock check`.

use std::{collections::BTreeSet, fmt, path::Path, str::FromStr as _, time::Duration};

use migration::{Migrator, MigratorTrait as _};
use rusqlite::{Connection, OpenFlags};
use sea_orm::sqlx::{self, Connection as _, PgConnection, postgres::PgConnectOptions};

use crate::settings::DatabaseUrl;

const PATIENCE: Duration = Duration::from_secs(5);
const APPLIED: &str = "SELECT version FROM seaql_migrations";

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseLook {
    /// An SQLite file that the first start will make.
    Missing,
    /// There are no tables of doclock yet.
    Empty,
    Current,
    /// The next start brings its schema up to date.
    Older,
    /// A later version of doclock has changed its schema.
    Newer,
}

impl fmt::Display for DatabaseLook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "there is none yet; the first start makes it",
            Self::Empty => "reached, and empty; the first start makes the tables",
            Self::Current => "reached, its tables are those of this version",
            Self::Older => "reached; the next start brings its tables up to date",
            Self::Newer => "its tables are those of a later version of doclock",
        })
    }
}

/// Fails with one line if the database cannot be reached or read.
pub async fn look(url: &DatabaseUrl) -> Result<DatabaseLook, String> {
    match url {
        DatabaseUrl::Sqlite(path) if !path.exists() => Ok(DatabaseLook::Missing),
        DatabaseUrl::Sqlite(path) => look_at_file(path).map_err(|error| error.to_string()),
        DatabaseUrl::Postgres(url) => match tokio::time::timeout(PATIENCE, look_at_server(url)).await {
            Ok(found) => found.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it did not answer within {PATIENCE:?}")),
        },
    }
}

fn look_at_file(path: &Path) -> Result<DatabaseLook, rusqlite::Error> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(PATIENCE)?;
    let has_tables =
        connection.query_row("SELECT count(*) FROM sqlite_master WHERE name = 'seaql_migrations'", [], |row| {
            Ok(row.get::<_, i64>(0)? > 0)
        })?;
    if !has_tables {
        return Ok(DatabaseLook::Empty);
    }
    let mut applied = connection.prepare(APPLIED)?;
    let applied = applied.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(compare(&applied))
}

async fn look_at_server(url: &str) -> Result<DatabaseLook, sqlx::Error> {
    let options = PgConnectOptions::from_str(url)?.application_name("doclock check");
    let mut connection = PgConnection::connect_with(&options).await?;
    let has_tables = "SELECT to_regclass('seaql_migrations') IS NOT NULL";
    if !sqlx::query_scalar::<_, bool>(has_tables).fetch_one(&mut connection).await? {
        return Ok(DatabaseLook::Empty);
    }
    let applied: Vec<String> = sqlx::query_scalar(APPLIED).fetch_all(&mut connection).await?;
    Ok(compare(&applied.into_iter().collect()))
}

fn compare(applied: &BTreeSet<String>) -> DatabaseLook {
    let ours: BTreeSet<_> = Migrator::migrations().iter().map(|migration| migration.name().to_owned()).collect();
    if !applied.is_subset(&ours) {
        DatabaseLook::Newer
    } else if applied.is_empty() {
        DatabaseLook::Empty
    } else if *applied == ours {
        DatabaseLook::Current
    } else {
        DatabaseLook::Older
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;

    #[tokio::test]
    async fn a_look_tells_what_the_next_start_will_do_and_makes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doclock.db");
        let url = DatabaseUrl::Sqlite(path.clone());
        assert_eq!(look(&url).await, Ok(DatabaseLook::Missing));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(Storage::open(&url).await.unwrap());
        assert_eq!(look(&url).await, Ok(DatabaseLook::Current));
        let connection = Connection::open(&path).unwrap();
        let last = "(SELECT max(version) FROM seaql_migrations)";
        connection.execute(&format!("UPDATE seaql_migrations SET version = 'm9' WHERE version = {last}"), []).unwrap();
        assert_eq!(look(&url).await, Ok(DatabaseLook::Newer));
        connection.execute("DELETE FROM seaql_migrations WHERE version = 'm9'", []).unwrap();
        assert_eq!(look(&url).await, Ok(DatabaseLook::Older));
    }

    #[tokio::test]
    async fn a_file_that_is_no_database_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doclock.db");
        std::fs::write(&path, vec![7; 10_000]).unwrap();
        assert!(look(&DatabaseUrl::Sqlite(path)).await.is_err());
    }
}
