//! Grace after an outage in one row, tokens that the database itself keeps growing, heartbeats' request ids as memos, and
//! columns for what is looked up in the log.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, big_integer_null, integer_null, text_null},
    sea_orm::DbBackend,
};

#[derive(Debug, DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(outages()).await?;
        add(manager, "document_locks", integer_null("linger_ms")).await?;
        add(manager, "document_locks", text_null("extend_ids")).await?;
        // When the lock ended. Rows from before count by when that was noticed.
        add(manager, "events", big_integer_null("ended_at")).await?;
        let connection = manager.get_connection();
        if manager.get_database_backend() == DbBackend::Sqlite {
            connection.execute_unprepared(MEMOS_OF_EXTENDS_ON_SQLITE).await?;
            connection.execute_unprepared(TOKENS_GROW_ON_SQLITE).await?;
        } else {
            connection
                .execute_unprepared(r#"ALTER TABLE document_locks ALTER extend_ids TYPE text COLLATE "C""#)
                .await?;
            connection.execute_unprepared(MEMOS_OF_EXTENDS_ON_POSTGRESQL).await?;
            connection.execute_unprepared(TOKENS_GROW_ON_POSTGRESQL).await?;
            // A server of the version before can no longer commit: it would not know of outages.
            connection.execute_unprepared("DROP FUNCTION doclock_load").await?;
            connection.execute_unprepared(LOAD).await?;
        }
        drop_column(manager, "document_locks", "extend_request_id").await?;
        drop_column(manager, "document_locks", "extend_fingerprint").await
    }

    async fn down(&self, _: &SchemaManager) -> Result<(), DbErr> {
        Err(DbErr::Migration("locks under grace cannot be told to the version before: restore a backup".to_owned()))
    }
}

/// Nobody reached the database after `last_alive` until `back_at`: locks that were alive then have had their whole span
/// again since, whatever their own rows say.
fn outages() -> TableCreateStatement {
    Table::create().table("outages").col(big_integer("back_at").primary_key()).col(big_integer("last_alive")).take()
}

async fn add(manager: &SchemaManager<'_>, table: &'static str, column: ColumnDef) -> Result<(), DbErr> {
    manager.alter_table(Table::alter().table(table).add_column(column).take()).await
}

async fn drop_column(manager: &SchemaManager<'_>, table: &'static str, column: &'static str) -> Result<(), DbErr> {
    manager.alter_table(Table::alter().table(table).drop_column(column).take()).await
}

/// The last heartbeat of each lock that had a request id is remembered as other requests are. The last sign of life is the
/// latest time at which it can have come.
const MEMOS_OF_EXTENDS_ON_SQLITE: &str = r"
INSERT OR IGNORE INTO request_memos (tenant, owner_id, request_id, fingerprint, locks, created_at)
    SELECT l.tenant, l.owner_id, l.extend_request_id, l.extend_fingerprint,
        json_array(json_object('lease_id', lower(substr(hex(l.lease_id), 1, 8) || '-' || substr(hex(l.lease_id), 9, 4)
            || '-' || substr(hex(l.lease_id), 13, 4) || '-' || substr(hex(l.lease_id), 17, 4) || '-'
            || substr(hex(l.lease_id), 21)), 'fencing_token', l.fencing_token, 'resumed', json('false'))),
        (SELECT last_alive FROM server_life)
    FROM document_locks AS l WHERE l.extend_request_id IS NOT NULL;
UPDATE document_locks SET extend_ids = json_array(extend_request_id) WHERE extend_request_id IS NOT NULL";

const MEMOS_OF_EXTENDS_ON_POSTGRESQL: &str = r"
INSERT INTO request_memos (tenant, owner_id, request_id, fingerprint, locks, created_at)
    SELECT l.tenant, l.owner_id, l.extend_request_id, l.extend_fingerprint,
        json_build_array(json_build_object('lease_id', l.lease_id, 'fencing_token', l.fencing_token, 'resumed', false)),
        (SELECT last_alive FROM server_life)
    FROM document_locks AS l WHERE l.extend_request_id IS NOT NULL ON CONFLICT DO NOTHING;
UPDATE document_locks SET extend_ids = json_build_array(extend_request_id) WHERE extend_request_id IS NOT NULL";

/// LS-INV-002 in the schema, as the key of `document_locks` is LS-INV-001.
const TOKENS_GROW_ON_SQLITE: &str = r"
CREATE TRIGGER documents_tokens_grow BEFORE UPDATE OF fencing_token ON documents
WHEN NEW.fencing_token <= OLD.fencing_token
BEGIN SELECT RAISE(ABORT, 'a fencing token must grow'); END";

const TOKENS_GROW_ON_POSTGRESQL: &str = r"
CREATE FUNCTION doclock_token_must_grow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a fencing token must grow' USING ERRCODE = 'check_violation';
END
$$;
CREATE TRIGGER documents_tokens_grow BEFORE UPDATE OF fencing_token ON documents FOR EACH ROW
WHEN (NEW.fencing_token <= OLD.fencing_token) EXECUTE FUNCTION doclock_token_must_grow()";

/// Locks the rows of a batch and reads them, then its memos, then the time and the log's head, in one call. A statement for
/// each, so that each sees what was committed while the one before it waited for a lock.
///
/// With `due_limit` it is for expiry instead: of that many locks whose time to be looked at has come, and that nobody
/// else has locked, those that were extended since are given their new time, and the overdue ones are locked and read.
const LOAD: &str = r#"
CREATE FUNCTION doclock_load(
    document_tenants text[], document_rooms text[], document_names text[],
    lock_tenants text[], lock_rooms text[], lock_names text[],
    memo_tenants text[], memo_owners text[], memo_ids text[],
    due_limit integer, known_sequence bigint, manual_now bigint)
RETURNS TABLE (kind "char", tenant text, room text, document text, capacity integer, slot integer, lease_id uuid,
    hold bigint, fencing_token bigint, owner_id text, session_id text, name text, acquired_at bigint,
    expires_at bigint, due_at bigint, ttl_seconds integer, linger_ms integer, metadata text, document_version text,
    extend_ids text, request_id text, fingerprint bytea, created_at bigint, granted text, now bigint,
    last_alive bigint, epoch uuid, sequence bigint, token_floor bigint, known_lease uuid, known_at bigint,
    head_lease uuid, head_at bigint, outages_from bigint[], outages_until bigint[], postponed bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    due_before bigint;
    moved bigint := 0;
BEGIN
    IF cardinality(document_names) > 0 THEN
        RETURN QUERY
        SELECT 'd'::"char", d.tenant, d.room, d.document, d.capacity, NULL::integer, NULL::uuid, NULL::bigint,
            d.fencing_token, NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint,
            NULL::integer, NULL::integer, NULL::text, d.document_version, NULL::text, NULL::text, NULL::bytea,
            NULL::bigint, NULL::text, NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint, NULL::uuid,
            NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint[], NULL::bigint[], NULL::bigint
        FROM UNNEST(document_tenants, document_rooms, document_names) AS k (tenant, room, document)
        JOIN documents AS d ON (d.tenant, d.room, d.document) = (k.tenant, k.room, k.document)
        ORDER BY d.tenant, d.room, d.document FOR UPDATE OF d;
    END IF;
    IF cardinality(lock_names) > 0 THEN
        RETURN QUERY
        SELECT 'l'::"char", l.tenant, l.room, l.document, NULL::integer, l.slot, l.lease_id, l.hold, l.fencing_token,
            l.owner_id, l.session_id, l.name, l.acquired_at, l.expires_at, l.due_at, l.ttl_seconds, l.linger_ms,
            l.metadata, l.document_version, l.extend_ids, NULL::text, NULL::bytea, NULL::bigint, NULL::text,
            NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::uuid,
            NULL::bigint, NULL::bigint[], NULL::bigint[], NULL::bigint
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
        RETURN QUERY
        SELECT 'l'::"char", l.tenant, l.room, l.document, NULL::integer, l.slot, l.lease_id, l.hold, l.fencing_token,
            l.owner_id, l.session_id, l.name, l.acquired_at, l.expires_at, l.due_at, l.ttl_seconds, l.linger_ms,
            l.metadata, l.document_version, l.extend_ids, NULL::text, NULL::bytea, NULL::bigint, NULL::text,
            NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::uuid,
            NULL::bigint, NULL::bigint[], NULL::bigint[], NULL::bigint
        FROM (SELECT o.* FROM document_locks AS o WHERE o.due_at <= due_before
              ORDER BY o.due_at LIMIT due_limit FOR UPDATE SKIP LOCKED) AS l
        WHERE l.expires_at <= due_before;
    END IF;
    IF cardinality(memo_ids) > 0 THEN
        RETURN QUERY
        SELECT 'm'::"char", m.tenant, NULL::text, NULL::text, NULL::integer, NULL::integer, NULL::uuid, NULL::bigint,
            NULL::bigint, m.owner_id, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::integer,
            NULL::integer, NULL::text, NULL::text, NULL::text, m.request_id, m.fingerprint, m.created_at, m.locks,
            NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::uuid,
            NULL::bigint, NULL::bigint[], NULL::bigint[], NULL::bigint
        FROM UNNEST(memo_tenants, memo_owners, memo_ids) AS k (tenant, owner_id, request_id)
        JOIN request_memos AS m ON (m.tenant, m.owner_id, m.request_id) = (k.tenant, k.owner_id, k.request_id);
    END IF;
    RETURN QUERY
    SELECT 't'::"char", NULL::text, NULL::text, NULL::text, NULL::integer, NULL::integer, NULL::uuid, NULL::bigint,
        NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::integer,
        NULL::integer, NULL::text, NULL::text, NULL::text, NULL::text, NULL::bytea, NULL::bigint, NULL::text,
        coalesce(manual_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + s.clock_offset), s.last_alive,
        h.epoch, h.sequence, h.token_floor, known.lease_id, known.at, head.lease_id, head.at,
        (SELECT array_agg(o.last_alive ORDER BY o.back_at) FROM outages AS o),
        (SELECT array_agg(o.back_at ORDER BY o.back_at) FROM outages AS o), moved
    FROM server_life AS s CROSS JOIN log_head AS h
    LEFT JOIN events AS head ON head.sequence = h.sequence
    LEFT JOIN events AS known ON known.sequence = known_sequence;
END
$$"#;
