//! Waiting lines and asks for a lock, what a holder says of itself, and grants that somebody has yet to claim.
//!
//! The tables of lines and asks were there before, and nobody had written to them: they are made anew.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, big_integer_null, binary_null, boolean, integer, integer_null, text, text_null, uuid},
    sea_orm::DbBackend,
};

#[derive(Debug, DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in [
            text_null("kind"),
            integer_null("claim_ms"),
            text_null("activity"),
            big_integer_null("active_at"),
            boolean("is_wanted").default(false).take(),
        ] {
            manager.alter_table(Table::alter().table("document_locks").add_column(column).take()).await?;
        }
        for (table, rows) in [(lock_waiters(), Rows::Updated), (lock_handovers(), Rows::Added)] {
            if let Some(name) = table.get_table_name() {
                manager.drop_table(Table::drop().table(name.clone()).take()).await?;
            }
            create(manager, &table, rows).await?;
        }
        create(manager, &holder_activity(), Rows::Updated).await?;
        for index in indexes() {
            manager.create_index(index).await?;
        }
        if manager.get_database_backend() == DbBackend::Postgres {
            let connection = manager.get_connection();
            // Under another name, so that a server of the version before can no longer commit: it would not know of lines.
            connection.execute_unprepared("DROP FUNCTION doclock_load").await?;
            connection.execute_unprepared(&load()).await?;
        }
        Ok(())
    }

    async fn down(&self, _: &SchemaManager) -> Result<(), DbErr> {
        Err(DbErr::Migration("lines cannot be told to the version before: restore a backup".to_owned()))
    }
}

/// What mostly happens to the rows of a table.
enum Rows {
    Added,
    Updated,
}

/// As the first tables were made: in their primary key on SQLite; compared by bytes on PostgreSQL, with room for new
/// versions of rows where they are updated.
async fn create(manager: &SchemaManager<'_>, table: &TableCreateStatement, rows: Rows) -> Result<(), DbErr> {
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

/// Columns that name a document and somebody who wants its lock.
fn of_document_and_person(table: &mut TableCreateStatement) -> &mut TableCreateStatement {
    table
        .col(text("tenant"))
        .col(text("room"))
        .col(text("document"))
        .col(text("owner_id"))
        .col(text_null("session_id"))
        .col(text_null("name"))
        .col(text_null("kind"))
}

/// Places in the waiting lines. `lease_id` is the lease that the grant will have.
fn lock_waiters() -> TableCreateStatement {
    of_document_and_person(Table::create().table("lock_waiters"))
        .col(big_integer("place"))
        .col(uuid("lease_id"))
        .col(integer("ttl_seconds"))
        .col(text_null("metadata"))
        .col(text_null("request_id"))
        .col(binary_null("fingerprint"))
        .col(big_integer("joined_at"))
        .col(big_integer("expires_at"))
        .primary_key(Index::create().col("tenant").col("room").col("document").col("place"))
        .take()
}

/// "May I have it?", aimed at a lease. `outcome` is null while it is open.
fn lock_handovers() -> TableCreateStatement {
    of_document_and_person(Table::create().table("lock_handovers"))
        .col(uuid("handover_id"))
        .col(uuid("lease_id"))
        .col(text("holder_id"))
        .col(text_null("message"))
        .col(big_integer("asked_at"))
        .col(big_integer("expires_at"))
        .col(text_null("outcome"))
        .col(text_null("answer"))
        .primary_key(Index::create().col("handover_id"))
        .take()
}

/// What holders have said of themselves a moment ago, for other servers to tell their rooms: soft state.
fn holder_activity() -> TableCreateStatement {
    Table::create()
        .table("holder_activity")
        .col(text("tenant"))
        .col(text("room"))
        .col(text("document"))
        .col(uuid("server_id"))
        .col(text("activity"))
        .col(big_integer("active_at"))
        .col(big_integer("said_at"))
        .primary_key(Index::create().col("tenant").col("room").col("document"))
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
    let is_open = || Expr::col("outcome").is_null();
    vec![
        index("lock_waiters_lease", "lock_waiters", &["lease_id"]).unique().take(),
        index("lock_waiters_age", "lock_waiters", &["expires_at"]),
        // The owner first: with the tenant first, PostgreSQL may take it for the way to a document's line.
        index("lock_waiters_owner", "lock_waiters", &["owner_id", "tenant", "room", "document"]),
        index("lock_handovers_open", "lock_handovers", &["tenant", "room", "document"]).and_where(is_open()).take(),
        index("lock_handovers_due", "lock_handovers", &["expires_at"]).and_where(is_open()).take(),
        index("lock_handovers_owner", "lock_handovers", &["owner_id", "tenant", "room", "document", "asked_at"]),
        index("lock_handovers_age", "lock_handovers", &["asked_at"]),
        index("holder_activity_news", "holder_activity", &["said_at"]),
    ]
}

/// The columns that `doclock_lock_rows` answers, each with its type. A row of one kind has nulls for those of the others.
const ANSWER: [(&str, &str); 41] = [
    ("kind", "\"char\""),
    ("tenant", "text"),
    ("room", "text"),
    ("document", "text"),
    ("capacity", "integer"),
    ("slot", "integer"),
    ("lease_id", "uuid"),
    ("hold", "bigint"),
    ("fencing_token", "bigint"),
    ("owner_id", "text"),
    ("session_id", "text"),
    ("name", "text"),
    ("holder_kind", "text"),
    ("acquired_at", "bigint"),
    ("expires_at", "bigint"),
    ("due_at", "bigint"),
    ("ttl_seconds", "integer"),
    ("linger_ms", "integer"),
    ("claim_ms", "integer"),
    ("activity", "text"),
    ("active_at", "bigint"),
    ("is_wanted", "boolean"),
    ("metadata", "text"),
    ("document_version", "text"),
    ("extend_ids", "text"),
    ("request_id", "text"),
    ("fingerprint", "bytea"),
    ("created_at", "bigint"),
    ("granted", "text"),
    ("now", "bigint"),
    ("last_alive", "bigint"),
    ("epoch", "uuid"),
    ("sequence", "bigint"),
    ("token_floor", "bigint"),
    ("known_lease", "uuid"),
    ("known_at", "bigint"),
    ("head_lease", "uuid"),
    ("head_at", "bigint"),
    ("outages_from", "bigint[]"),
    ("outages_until", "bigint[]"),
    ("postponed", "bigint"),
];

/// The select list of a row of this kind: the columns given, each by its expression, and nulls for all others.
fn row(kind: char, given: &[(&str, &str)]) -> String {
    let column = |(name, kind_of): &(&str, &str)| match given.iter().find(|(column, _)| column == name) {
        Some((_, expression)) => (*expression).to_owned(),
        None if *name == "kind" => format!("'{kind}'::\"char\""),
        None => format!("NULL::{kind_of}"),
    };
    ANSWER.iter().map(column).collect::<Vec<_>>().join(", ")
}

/// Locks the rows of a batch and reads them, then its memos, then the time and the log's head, in one call. A statement for
/// each, so that each sees what was committed while the one before it waited for a lock.
///
/// With `due_limit` it is for expiry instead: of that many locks whose time to be looked at has come, and that nobody
/// else has locked, those that were extended since are given their new time, and the overdue ones are locked and read. Of
/// an overdue one that somebody wants only the document is told: the line is served under the lock of its row, which
/// comes first.
fn load() -> String {
    let answer: Vec<_> = ANSWER.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
    LOAD.replace("{answer}", &answer.join(", "))
        .replace("{document}", &of_table('d', "d", &["capacity", "fencing_token", "document_version"], &[]))
        .replace("{lock}", &of_table('l', "l", &LOCK_COLUMNS, &[("holder_kind", "l.kind")]))
        .replace("{wanted}", &of_table('w', "l", &[], &[]))
        .replace("{memo}", &row('m', &MEMO))
        .replace("{time}", &row('t', &TIME))
}

/// The select list of a row that is about a document: its names and these columns of the table, and others by expression.
fn of_table(kind: char, table: &str, columns: &[&str], others: &[(&str, &str)]) -> String {
    let expressions: Vec<_> =
        ["tenant", "room", "document"].iter().chain(columns).map(|name| (*name, format!("{table}.{name}"))).collect();
    let mut given: Vec<_> = expressions.iter().map(|(name, expression)| (*name, expression.as_str())).collect();
    given.extend_from_slice(others);
    row(kind, &given)
}

const LOCK_COLUMNS: [&str; 19] = [
    "slot",
    "lease_id",
    "hold",
    "fencing_token",
    "owner_id",
    "session_id",
    "name",
    "acquired_at",
    "expires_at",
    "due_at",
    "ttl_seconds",
    "linger_ms",
    "claim_ms",
    "activity",
    "active_at",
    "is_wanted",
    "metadata",
    "document_version",
    "extend_ids",
];

const MEMO: [(&str, &str); 6] = [
    ("tenant", "m.tenant"),
    ("owner_id", "m.owner_id"),
    ("request_id", "m.request_id"),
    ("fingerprint", "m.fingerprint"),
    ("created_at", "m.created_at"),
    ("granted", "m.locks"),
];

const TIME: [(&str, &str); 12] = [
    ("now", "coalesce(manual_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + s.clock_offset)"),
    ("last_alive", "s.last_alive"),
    ("epoch", "h.epoch"),
    ("sequence", "h.sequence"),
    ("token_floor", "h.token_floor"),
    ("known_lease", "known.lease_id"),
    ("known_at", "known.at"),
    ("head_lease", "head.lease_id"),
    ("head_at", "head.at"),
    ("outages_from", "(SELECT array_agg(o.last_alive ORDER BY o.back_at) FROM outages AS o)"),
    ("outages_until", "(SELECT array_agg(o.back_at ORDER BY o.back_at) FROM outages AS o)"),
    ("postponed", "moved"),
];

/// With the select list of each kind of row still to be put in.
const LOAD: &str = r"
CREATE FUNCTION doclock_lock_rows(
    document_tenants text[], document_rooms text[], document_names text[],
    lock_tenants text[], lock_rooms text[], lock_names text[],
    memo_tenants text[], memo_owners text[], memo_ids text[],
    due_limit integer, known_sequence bigint, manual_now bigint)
RETURNS TABLE ({answer})
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    due_before bigint;
    moved bigint := 0;
BEGIN
    IF cardinality(document_names) > 0 THEN
        RETURN QUERY SELECT {document}
        FROM UNNEST(document_tenants, document_rooms, document_names) AS k (tenant, room, document)
        JOIN documents AS d ON (d.tenant, d.room, d.document) = (k.tenant, k.room, k.document)
        ORDER BY d.tenant, d.room, d.document FOR UPDATE OF d;
    END IF;
    IF cardinality(lock_names) > 0 THEN
        RETURN QUERY SELECT {lock}
        FROM UNNEST(lock_tenants, lock_rooms, lock_names) AS k (tenant, room, document)
        JOIN document_locks AS l ON (l.tenant, l.room, l.document) = (k.tenant, k.room, k.document)
        ORDER BY l.tenant, l.room, l.document, l.slot FOR UPDATE OF l;
    END IF;
    IF due_limit > 0 THEN
        SELECT coalesce(manual_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + s.clock_offset)
            INTO due_before FROM server_life AS s;
        UPDATE document_locks AS l SET due_at = l.expires_at
        FROM (SELECT o.tenant, o.room, o.document, o.slot FROM document_locks AS o WHERE o.due_at <= due_before
              ORDER BY o.due_at LIMIT due_limit FOR UPDATE SKIP LOCKED) AS k
        WHERE (l.tenant, l.room, l.document, l.slot) = (k.tenant, k.room, k.document, k.slot)
            AND l.expires_at > due_before;
        GET DIAGNOSTICS moved = ROW_COUNT;
        RETURN QUERY SELECT {lock}
        FROM (SELECT o.* FROM document_locks AS o WHERE o.due_at <= due_before
              ORDER BY o.due_at LIMIT due_limit FOR UPDATE SKIP LOCKED) AS l
        WHERE l.expires_at <= due_before AND NOT l.is_wanted;
        RETURN QUERY SELECT {wanted}
        FROM (SELECT o.* FROM document_locks AS o WHERE o.due_at <= due_before ORDER BY o.due_at LIMIT due_limit) AS l
        WHERE l.expires_at <= due_before AND l.is_wanted;
    END IF;
    IF cardinality(memo_ids) > 0 THEN
        RETURN QUERY SELECT {memo}
        FROM UNNEST(memo_tenants, memo_owners, memo_ids) AS k (tenant, owner_id, request_id)
        JOIN request_memos AS m ON (m.tenant, m.owner_id, m.request_id) = (k.tenant, k.owner_id, k.request_id);
    END IF;
    RETURN QUERY SELECT {time}
    FROM server_life AS s CROSS JOIN log_head AS h
    LEFT JOIN events AS head ON head.sequence = h.sequence
    LEFT JOIN events AS known ON known.sequence = known_sequence;
END
$$";
