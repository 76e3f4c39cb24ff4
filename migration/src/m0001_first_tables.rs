//! All tables. What each is for stands at its function.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, big_integer_null, binary, binary_null, boolean, integer, text, text_null, uuid, uuid_null},
    sea_orm::DbBackend,
};

#[derive(Debug, DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in
            [documents(), document_locks(), lock_waiters(), log_head(), server_life(), live_servers(), participants()]
        {
            create(manager, table, Rows::Updated).await?;
        }
        for table in [lock_handovers(), request_memos(), events(), stream_tickets()] {
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
            manager.get_connection().execute_unprepared(LOAD).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() != DbBackend::Sqlite {
            manager.get_connection().execute_unprepared("DROP FUNCTION doclock_load").await?;
        }
        for table in [
            "stream_tickets",
            "participants",
            "live_servers",
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

/// Locks the rows of a batch and reads them, then the time, in one call. Three statements, so that each sees what was
/// committed while the one before it waited for a lock. Of the columns, documents and the time use those that have the
/// right type.
const LOAD: &str = r#"
CREATE FUNCTION doclock_load(
    document_tenants text[], document_rooms text[], document_names text[],
    lock_tenants text[], lock_rooms text[], lock_names text[], manual_now bigint)
RETURNS TABLE (kind "char", tenant text, room text, document text, slot integer, lease_id uuid, hold bigint,
    fencing_token bigint, owner_id text, session_id text, name text, acquired_at bigint, expires_at bigint,
    due_at bigint, ttl_seconds integer, metadata text, document_version text, extend_request_id text,
    extend_fingerprint bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF cardinality(document_names) > 0 THEN
        RETURN QUERY
        SELECT 'd'::"char", d.tenant, d.room, d.document, d.capacity, NULL::uuid, NULL::bigint, d.fencing_token,
            NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::integer, NULL::text,
            d.document_version, NULL::text, NULL::bytea
        FROM UNNEST(document_tenants, document_rooms, document_names) AS k (tenant, room, document)
        JOIN documents AS d ON (d.tenant, d.room, d.document) = (k.tenant, k.room, k.document)
        ORDER BY d.tenant, d.room, d.document FOR UPDATE OF d;
    END IF;
    IF cardinality(lock_names) > 0 THEN
        RETURN QUERY
        SELECT 'l'::"char", l.tenant, l.room, l.document, l.slot, l.lease_id, l.hold, l.fencing_token, l.owner_id,
            l.session_id, l.name, l.acquired_at, l.expires_at, l.due_at, l.ttl_seconds, l.metadata, l.document_version,
            l.extend_request_id, l.extend_fingerprint
        FROM UNNEST(lock_tenants, lock_rooms, lock_names) AS k (tenant, room, document)
        JOIN document_locks AS l ON (l.tenant, l.room, l.document) = (k.tenant, k.room, k.document)
        ORDER BY l.tenant, l.room, l.document, l.slot FOR UPDATE OF l;
    END IF;
    RETURN QUERY
    SELECT 't'::"char", NULL::text, NULL::text, NULL::text, NULL::integer, h.epoch, h.sequence, h.token_floor,
        NULL::text, NULL::text, NULL::text,
        coalesce(manual_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + s.clock_offset), s.last_alive,
        NULL::bigint, NULL::integer, NULL::text, NULL::text, NULL::text, NULL::bytea
    FROM server_life AS s, log_head AS h;
END
$$"#;

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

/// Servers that share the database. `version` counts what one has said about its participants; what it said up to
/// `floor` may have been forgotten.
fn live_servers() -> TableCreateStatement {
    Table::create()
        .table("live_servers")
        .col(uuid("server_id"))
        .col(big_integer("version"))
        .col(big_integer("floor"))
        .col(big_integer("seen_at"))
        .primary_key(Index::create().col("server_id"))
        .take()
}

/// Who is in a room by which server: soft state, which goes with its server. Who has left stays for a while, so that
/// others find out by reading what is new.
fn participants() -> TableCreateStatement {
    let mut server = ForeignKey::create();
    server.from("participants", "server_id").to("live_servers", "server_id").on_delete(ForeignKeyAction::Cascade);
    Table::create()
        .table("participants")
        .col(uuid("server_id"))
        .col(text("tenant"))
        .col(text("room"))
        .col(text("owner_id"))
        .col(text_null("name"))
        .col(boolean("is_here"))
        .col(big_integer("version"))
        .primary_key(Index::create().col("server_id").col("tenant").col("room").col("owner_id"))
        .foreign_key(&mut server)
        .take()
}

/// Tickets for event streams that were not used yet, by their SHA-256: whoever reads the table can use none.
fn stream_tickets() -> TableCreateStatement {
    Table::create()
        .table("stream_tickets")
        .col(binary("digest"))
        .col(text("body"))
        .col(big_integer("expires_at"))
        .primary_key(Index::create().col("digest"))
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
        index("participants_news", "participants", &["server_id", "version"]),
        index("stream_tickets_age", "stream_tickets", &["expires_at"]),
        index("lock_handovers_lease", "lock_handovers", &["lease_id"]),
    ]
}
