//! Writing what a batch decided, by one statement.

use std::collections::{BTreeMap, HashMap, HashSet};

use sea_orm::sqlx::{self, Encode, PgConnection, Postgres, QueryBuilder, Row as _, Type, query_builder::Separated};

use super::{Failure, load::columns};
use crate::{
    locking::{Change, DocumentKey, Event, LeaseId, Lock, Memo, MemoKey, names::DocumentVersion},
    storage::{batch::Batch, event_log::Row as EventRow, memo},
};

type Result<T> = std::result::Result<T, sqlx::Error>;

/// Answers the sequence of the last event, if there was one.
pub(super) async fn save(
    connection: &mut PgConnection,
    batch: &Batch<'_>,
) -> std::result::Result<Option<i64>, Failure> {
    let net = Net::of(&batch.changes);
    // Before `log_head`: they may have to wait for another server, which needs that to go on.
    for (key, memo) in &net.memos {
        if !remember(connection, key, memo, batch.state.policy.memo_retention_ms).await? {
            // On another document, so neither waited for the other. The next look sees it.
            return Err(Failure::Again("another server has just used the same request id".to_owned()));
        }
    }
    let mut writing = Writing::new();
    writing.end(&net.ended);
    if net.grants_what_it_ended() {
        // Within one statement the new row would meet the old one.
        writing.run(connection).await?;
        writing = Writing::new();
    }
    writing.documents(&net.documents);
    writing.grant(&net.granted);
    writing.keep(&net.kept);
    writing.append(&batch.events);
    Ok(writing.run(connection).await?)
}

/// What is left of the changes when all have happened: one statement may not touch a row twice.
#[derive(Default)]
struct Net<'b> {
    documents: BTreeMap<&'b DocumentKey, (i64, u32, Option<&'b DocumentVersion>)>,
    granted: Vec<&'b Lock>,
    kept: Vec<&'b Lock>,
    ended: Vec<&'b Lock>,
    memos: BTreeMap<&'b MemoKey, &'b Memo>,
}

impl<'b> Net<'b> {
    fn of(changes: &'b [Change]) -> Self {
        let mut net = Self::default();
        // Whether the row is new, and the lock as it is at the end.
        let mut locks: HashMap<LeaseId, (bool, &Lock, bool)> = HashMap::new();
        for change in changes {
            match change {
                Change::Grant(lock) => {
                    locks.insert(lock.lease_id, (true, lock, true));
                }
                Change::Keep(lock) => {
                    let is_new = locks.get(&lock.lease_id).is_some_and(|(is_new, ..)| *is_new);
                    locks.insert(lock.lease_id, (is_new, lock, true));
                }
                Change::End { lock, .. } => {
                    let is_new = locks.get(&lock.lease_id).is_some_and(|(is_new, ..)| *is_new);
                    locks.insert(lock.lease_id, (is_new, lock, false));
                }
                Change::Document { key, fencing_token, capacity, version } => {
                    net.documents.insert(key, (*fencing_token, *capacity, version.as_ref()));
                }
                Change::Remember { key, memo } => {
                    net.memos.insert(key, memo);
                }
            }
        }
        for (is_new, lock, is_live) in locks.into_values() {
            match (is_new, is_live) {
                (true, true) => net.granted.push(lock),
                (false, true) => net.kept.push(lock),
                (false, false) => net.ended.push(lock),
                (true, false) => {}
            }
        }
        net
    }

    fn grants_what_it_ended(&self) -> bool {
        let place = |lock: &&'b Lock| (&lock.key, lock.slot);
        let ended: HashSet<_> = self.ended.iter().map(place).collect();
        !ended.is_empty() && self.granted.iter().map(place).any(|place| ended.contains(&place))
    }
}

fn slots(locks: &[&Lock]) -> Vec<i32> {
    locks.iter().map(|lock| signed(lock.slot)).collect()
}

fn signed(number: u32) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// One statement for all that a batch writes: a round trip for each table would take longer than the writing. Every row
/// it changes is locked already, but for `log_head`.
struct Writing {
    sql: QueryBuilder<Postgres>,
    parts: Vec<&'static str>,
    has_events: bool,
}

/// Columns of new values, an array each.
struct Columns<'w>(Separated<'w, Postgres, &'static str>);

impl Columns<'_> {
    fn add<'v, T>(&mut self, kind: &str, values: impl Iterator<Item = T>)
    where
        Vec<T>: Encode<'v, Postgres> + Type<Postgres>,
    {
        self.0.push_bind(values.collect::<Vec<_>>()).push_unseparated("::").push_unseparated(kind);
    }

    fn keys<'k>(&mut self, keys: impl Iterator<Item = &'k DocumentKey>) {
        let (tenants, rooms, names) = columns(keys);
        self.add("text[]", tenants.into_iter());
        self.add("text[]", rooms.into_iter());
        self.add("text[]", names.into_iter());
    }
}

impl Writing {
    fn new() -> Self {
        Self { sql: QueryBuilder::new("WITH "), parts: Vec::new(), has_events: false }
    }

    /// Answers the last of the sequences it has taken.
    async fn run(mut self, connection: &mut PgConnection) -> Result<Option<i64>> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        self.sql.push(if self.has_events { " SELECT sequence FROM head" } else { " SELECT NULL::bigint" });
        self.sql.build().fetch_one(connection).await?.try_get(0)
    }

    fn part(&mut self, name: &'static str, before: &str, columns: impl FnOnce(&mut Columns<'_>), after: &str) {
        if !self.parts.is_empty() {
            self.sql.push(", ");
        }
        self.parts.push(name);
        self.sql.push(name).push(" AS (").push(before);
        columns(&mut Columns(self.sql.separated(", ")));
        self.sql.push(after);
    }

    fn end(&mut self, locks: &[&Lock]) {
        if locks.is_empty() {
            return;
        }
        self.part(
            "ended",
            "DELETE FROM document_locks AS l USING UNNEST(",
            |columns| {
                columns.keys(locks.iter().map(|lock| &lock.key));
                columns.add("int[]", slots(locks).into_iter());
            },
            ") AS k (tenant, room, document, slot)
             WHERE (l.tenant, l.room, l.document, l.slot) = (k.tenant, k.room, k.document, k.slot) RETURNING 1)",
        );
    }

    fn documents(&mut self, documents: &BTreeMap<&DocumentKey, (i64, u32, Option<&DocumentVersion>)>) {
        if documents.is_empty() {
            return;
        }
        self.part(
            "documented",
            "UPDATE documents AS d
             SET fencing_token = k.fencing_token, capacity = k.capacity, document_version = k.document_version
             FROM UNNEST(",
            |columns| {
                columns.keys(documents.keys().copied());
                columns.add("bigint[]", documents.values().map(|(token, ..)| *token));
                columns.add("int[]", documents.values().map(|(_, capacity, _)| signed(*capacity)));
                columns.add("text[]", documents.values().map(|(.., version)| version.map(DocumentVersion::as_str)));
            },
            ") AS k (tenant, room, document, fencing_token, capacity, document_version)
             WHERE (d.tenant, d.room, d.document) = (k.tenant, k.room, k.document) RETURNING 1)",
        );
    }

    fn grant(&mut self, locks: &[&Lock]) {
        if locks.is_empty() {
            return;
        }
        let each = || locks.iter();
        self.part(
            "granted",
            "INSERT INTO document_locks (tenant, room, document, slot, lease_id, hold, fencing_token, owner_id,
                session_id, name, acquired_at, expires_at, due_at, ttl_seconds, metadata, document_version,
                extend_request_id, extend_fingerprint)
             SELECT * FROM UNNEST(",
            |columns| {
                columns.keys(each().map(|lock| &lock.key));
                columns.add("int[]", slots(locks).into_iter());
                columns.add("uuid[]", each().map(|lock| lock.lease_id));
                columns.add("bigint[]", each().map(|lock| i64::from(lock.hold)));
                columns.add("bigint[]", each().map(|lock| lock.fencing_token));
                columns.add("text[]", each().map(|lock| lock.holder.owner.as_str()));
                columns.add("text[]", each().map(|lock| lock.holder.session.as_ref().map(|s| s.as_str())));
                columns.add("text[]", each().map(|lock| lock.holder.name.as_deref()));
                columns.add("bigint[]", each().map(|lock| lock.acquired_at.millis()));
                columns.add("bigint[]", each().map(|lock| lock.expires_at.millis()));
                columns.add("bigint[]", each().map(|lock| lock.due_at.millis()));
                columns.add("int[]", each().map(|lock| signed(lock.ttl_seconds)));
                columns.add("text[]", each().map(|lock| lock.metadata.as_ref().map(|m| m.as_str())));
                columns.add("text[]", each().map(|lock| lock.document_version.as_ref().map(|v| v.as_str())));
                columns.add("text[]", each().map(|lock| request_id(lock)));
                columns.add("bytea[]", each().map(|lock| fingerprint(lock)));
            },
            ") RETURNING 1)",
        );
    }

    /// What can change on a lock that lives on.
    fn keep(&mut self, locks: &[&Lock]) {
        if locks.is_empty() {
            return;
        }
        let each = || locks.iter();
        self.part(
            "kept",
            "UPDATE document_locks AS l SET hold = k.hold, name = k.name, expires_at = k.expires_at,
                due_at = k.due_at, ttl_seconds = k.ttl_seconds, metadata = k.metadata,
                extend_request_id = k.extend_request_id, extend_fingerprint = k.extend_fingerprint
             FROM UNNEST(",
            |columns| {
                columns.keys(each().map(|lock| &lock.key));
                columns.add("int[]", slots(locks).into_iter());
                columns.add("bigint[]", each().map(|lock| i64::from(lock.hold)));
                columns.add("text[]", each().map(|lock| lock.holder.name.as_deref()));
                columns.add("bigint[]", each().map(|lock| lock.expires_at.millis()));
                columns.add("bigint[]", each().map(|lock| lock.due_at.millis()));
                columns.add("int[]", each().map(|lock| signed(lock.ttl_seconds)));
                columns.add("text[]", each().map(|lock| lock.metadata.as_ref().map(|m| m.as_str())));
                columns.add("text[]", each().map(|lock| request_id(lock)));
                columns.add("bytea[]", each().map(|lock| fingerprint(lock)));
            },
            ") AS k (tenant, room, document, slot, hold, name, expires_at, due_at, ttl_seconds, metadata,
                 extend_request_id, extend_fingerprint)
             WHERE (l.tenant, l.room, l.document, l.slot) = (k.tenant, k.room, k.document, k.slot) RETURNING 1)",
        );
    }

    /// Takes the next sequences. Nothing is waited for after `log_head`, and COMMIT follows at once.
    fn append(&mut self, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        self.has_events = true;
        let each = || events.iter();
        let rows: Vec<_> = each().map(EventRow::of).collect();
        let count = i64::try_from(events.len()).unwrap_or_default();
        // Counting them makes the other parts come first: whoever holds `log_head` holds up everyone else.
        let counted: Vec<_> =
            self.parts.iter().map(|part| format!(", (SELECT count(*) FROM {part}) AS {part}")).collect();
        let counted = counted.concat();
        self.part(
            "head",
            "UPDATE log_head SET sequence = sequence + e.count FROM UNNEST(",
            |columns| columns.add("bigint[]", std::iter::once(count)),
            &format!(") AS e (count){counted} RETURNING log_head.sequence, log_head.sequence - e.count AS base)"),
        );
        self.part(
            "appended",
            "INSERT INTO events (sequence, tenant, room, document, at, kind, lease_id, fencing_token, owner_id,
                session_id, reason, \"by\", note, held_ms, body)
             SELECT head.base + e.position, e.tenant, e.room, e.document, e.at, e.kind, e.lease_id, e.fencing_token,
                e.owner_id, e.session_id, e.reason, e.ended_by, e.note, e.held_ms, e.body
             FROM head, UNNEST(",
            |columns| {
                columns.keys(each().map(|event| &event.lock.key));
                columns.add("bigint[]", each().map(|event| event.at.millis()));
                columns.add("text[]", each().map(|event| event.kind.name()));
                columns.add("uuid[]", each().map(|event| event.lock.lease_id));
                columns.add("bigint[]", each().map(|event| event.lock.fencing_token));
                columns.add("text[]", each().map(|event| event.lock.holder.owner.as_str()));
                columns.add("text[]", each().map(|event| event.lock.holder.session.as_ref().map(|s| s.as_str())));
                columns.add("text[]", rows.iter().map(|row| row.reason));
                columns.add("text[]", rows.iter().map(|row| row.by));
                columns.add("text[]", rows.iter().map(|row| row.note));
                columns.add("bigint[]", rows.iter().map(|row| row.held_ms));
                columns.add("text[]", rows.iter().map(|row| row.body.as_str()));
            },
            ") WITH ORDINALITY AS e (tenant, room, document, at, kind, lease_id, fencing_token, owner_id, session_id, reason,
                 ended_by, note, held_ms, body, position))",
        );
    }
}

fn request_id(lock: &Lock) -> Option<&str> {
    lock.last_extend.as_ref().map(|memo| memo.request_id.as_str())
}

fn fingerprint(lock: &Lock) -> Option<&[u8]> {
    lock.last_extend.as_ref().map(|memo| memo.fingerprint.0.as_slice())
}

/// Whether nobody else has: only a memo past its retention is written over.
async fn remember(connection: &mut PgConnection, key: &MemoKey, memo: &Memo, retention_ms: i64) -> Result<bool> {
    let remembered = sqlx::query(
        "INSERT INTO request_memos (tenant, owner_id, request_id, fingerprint, locks, created_at)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (tenant, owner_id, request_id) DO UPDATE SET fingerprint = $4, locks = $5, created_at = $6
         WHERE request_memos.created_at <= $7",
    )
    .bind(key.tenant.as_str())
    .bind(key.owner.as_str())
    .bind(key.request_id.as_str())
    .bind(memo.fingerprint.0.as_slice())
    .bind(memo::to_text(&memo.locks))
    .bind(memo.created_at.millis())
    .bind(memo.created_at.plus_millis(-retention_ms).millis())
    .execute(connection)
    .await?;
    Ok(remembered.rows_affected() == 1)
}
