//! All tables. What each is for stands at its function.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, big_integer_null, binary, binary_null, integer, text, text_null, uuid, uuid_null},
    sea_orm::DbBackend,
};

#[derive(Debug, DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [documents(), document_locks(), lock_waiters(), log_head(), server_life(), participants()] {
            create(manager, table, Rows::Updated).await?;
        }
        for table in [lock_handovers(), request_memos(), events()] {
            create(manager, table, Rows::Added).await?;
        }
        for index in indexes() {
            manager.create_index(index).await?;
        }
        // SQLite's one writer counts an owner's locks itself.
        if manager.get_database_backend() != DbBackend::Sqlite {
            // The owner first: with the tenant first, PostgreSQL may take it for the way to a document's locks.
            let by_owner = index("document_locks_owner", "document_locks", &["owner_id", "tenant"]);
            manager.create_index(by_owner).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [
            "participants",
            "server_life",
            "log_head",
            "events",
            "request_memos",
            "lock_handovers",
            "lock_waiters",
            "document_locks",
            "documents",
        ] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}

/// What mostly happens to the rows of a table.
enum Rows {
    Added,
    Updated,
}

/// On SQLite a table is stored in its primary key (`WITHOUT ROWID`): every access goes by that key, and a second tree
/// for row ids would double the pages a commit writes. On PostgreSQL texts compare by bytes, as they do in SQLite and
/// in Rust: rows are locked in that order. Where rows are updated, half of each page is left free for their new versions,
/// so that a heartbeat touches no index.
async fn create(manager: &SchemaManager<'_>, table: TableCreateStatement, rows: Rows) -> Result<(), DbErr> {
    let sql = if manager.get_database_backend() == DbBackend::Sqlite {
        format!("{} WITHOUT ROWID", table.to_string(SqliteQueryBuilder))
    } else {
        let free = match rows {
            Rows::Added => "",
            Rows::Updated => " WITH (fillfactor = 50)",
        };
        table.to_string(PostgresQueryBuilder).replace(" text", " text COLLATE \"C\"") + free
    };
    manager.get_connection().execute_unprepared(&sql).await?;
    Ok(())
}

/// Columns that name a document, in every table that speaks of one.
fn of_document(table: &mut TableCreateStatement) -> &mut TableCreateStatement {
    table.col(text("tenant")).col(text("room")).col(text("document"))
}

/// The row every decision locks. Never deleted: it carries the fencing token past every lock.
fn documents() -> TableCreateStatement {
    of_document(Table::create().table("documents"))
        .col(big_integer("fencing_token"))
        .col(integer("capacity"))
        .col(text_null("document_version"))
        .primary_key(Index::create().col("tenant").col("room").col("document"))
        .take()
}

/// Live locks. The key allows one row per slot, so the database itself refuses a second holder.
/// `due_at <= expires_at` is when expiry looks at the lock next; heartbeats leave it alone, so its index
/// costs them nothing.
fn document_locks() -> TableCreateStatement {
    of_document(Table::create().table("document_locks"))
        .col(integer("slot"))
        .col(uuid("lease_id"))
        .col(big_integer("hold"))
        .col(big_integer("fencing_token"))
        .col(text("owner_id"))
        .col(text_null("session_id"))
        .col(text_null("name"))
        .col(big_integer("acquired_at"))
        .col(big_integer("expires_at"))
        .col(big_integer("due_at"))
        .col(integer("ttl_seconds"))
        .col(text_null("metadata"))
        .col(text_null("document_version"))
        .col(text_null("extend_request_id"))
        .col(binary_null("extend_fingerprint"))
        .primary_key(Index::create().col("tenant").col("room").col("document").col("slot"))
        .take()
}

/// Places in the waiting lines.
fn lock_waiters() -> TableCreateStatement {
    of_document(Table::create().table("lock_waiters"))
        .col(uuid("ticket_id"))
        .col(big_integer("place"))
        .col(text("owner_id"))
        .col(text_null("session_id"))
        .col(text_null("name"))
        .col(integer("ttl_seconds"))
        .col(integer("capacity"))
        .col(text_null("metadata"))
        .col(text_null("request_id"))
        .col(binary_null("fingerprint"))
        .col(big_integer("joined_at"))
        .col(big_integer("expires_at"))
        .primary_key(Index::create().col("tenant").col("room").col("document").col("place"))
        .take()
}

/// "May I have it?", aimed at a lease.
fn lock_handovers() -> TableCreateStatement {
    of_document(Table::create().table("lock_handovers"))
        .col(uuid("handover_id"))
        .col(uuid("lease_id"))
        .col(text("owner_id"))
        .col(text_null("session_id"))
        .col(text_null("name"))
        .col(text_null("message"))
        .col(big_integer("asked_at"))
        .col(big_integer("expires_at"))
        .col(text_null("outcome"))
        .col(text_null("answer"))
        .primary_key(Index::create().col("handover_id"))
        .take()
}

/// What a successful `request_id` did, so that its twin acts no second time.
fn request_memos() -> TableCreateStatement {
    Table::create()
        .table("request_memos")
        .col(text("tenant"))
        .col(text("owner_id"))
        .col(text("request_id"))
        .col(binary("fingerprint"))
        .col(text("locks"))
        .col(big_integer("created_at"))
        .primary_key(Index::create().col("tenant").col("owner_id").col("request_id"))
        .take()
}

/// The log: notices, audit trail and the memory of how locks ended, in one.
fn events() -> TableCreateStatement {
    of_document(Table::create().table("events").col(big_integer("sequence")))
        .col(big_integer("at"))
        .col(text("kind"))
        .col(uuid_null("lease_id"))
        .col(big_integer("fencing_token"))
        .col(text("owner_id"))
        .col(text_null("session_id"))
        .col(text_null("reason"))
        .col(text_null("by"))
        .col(text_null("note"))
        .col(text_null("recipient"))
        .col(big_integer_null("held_ms"))
        .col(big_integer_null("waited_ms"))
        .col(text("body"))
        .primary_key(Index::create().col("sequence"))
        .take()
}

/// One row: which log this is, how far it has come, and the floor of new fencing tokens.
fn log_head() -> TableCreateStatement {
    Table::create()
        .table("log_head")
        .col(integer("id"))
        .col(uuid("epoch"))
        .col(big_integer("sequence"))
        .col(big_integer("token_floor"))
        .primary_key(Index::create().col("id"))
        .take()
}

/// One row: when any server last reached the database.
fn server_life() -> TableCreateStatement {
    Table::create()
        .table("server_life")
        .col(integer("id"))
        .col(big_integer("last_alive"))
        .col(big_integer("clock_offset"))
        .primary_key(Index::create().col("id"))
        .take()
}

/// Who is in a room, soft state of each server.
fn participants() -> TableCreateStatement {
    Table::create()
        .table("participants")
        .col(text("tenant"))
        .col(text("room"))
        .col(uuid("participant_id"))
        .col(uuid("server_id"))
        .col(text("owner_id"))
        .col(text_null("name"))
        .col(big_integer("joined_at"))
        .col(big_integer("seen_at"))
        .primary_key(Index::create().col("tenant").col("room").col("participant_id"))
        .take()
}

fn index(name: &'static str, table: &'static str, columns: &[&'static str]) -> IndexCreateStatement {
    let mut statement = Index::create();
    statement.name(name).table(table);
    for column in columns {
        statement.col(*column);
    }
    statement
}

fn indexes() -> Vec<IndexCreateStatement> {
    let ended = || Expr::col("kind").eq(Expr::val("DocumentUnlocked"));
    vec![
        index("document_locks_lease", "document_locks", &["lease_id"]).unique().take(),
        index("document_locks_due", "document_locks", &["due_at"]),
        index("request_memos_age", "request_memos", &["created_at"]),
        index("events_of_room", "events", &["tenant", "room", "sequence"]),
        index("events_end_of_lease", "events", &["lease_id"]).and_where(ended()).take(),
        index("events_end_by_owner", "events", &["tenant", "room", "document", "owner_id", "sequence"])
            .and_where(ended())
            .take(),
        index("lock_handovers_lease", "lock_handovers", &["lease_id"]),
    ]
}
