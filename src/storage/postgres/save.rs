//! Writing what a batch decided, by one statement.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sea_orm::sqlx::{self, Encode, PgConnection, Postgres, QueryBuilder, Row as _, Type, query_builder::Separated};
use uuid::Uuid;

use super::{Failure, load::columns};
use crate::{
    locking::{
        Ask, AskOutcome, Change, DocumentKey, DocumentRow, Event, Holder, LeaseId, Lock, Memo, MemoKey, Ticket,
        names::DocumentVersion,
    },
    storage::{batch::Batch, event_log::Row as EventRow, memo},
};

type Result<T> = std::result::Result<T, sqlx::Error>;

/// Parts of a statement that answer something.
const HEAD: &str = "head";
const REMEMBERED: &str = "remembered";

/// Answers the sequence of the last event, if there was one. The log is only written under this epoch.
pub(super) async fn save(
    connection: &mut PgConnection,
    batch: &Batch<'_>,
    epoch: Uuid,
) -> std::result::Result<Option<i64>, Failure> {
    let net = Net::of(&batch.changes);
    let mut writing = Writing::new();
    writing.end(&net.ended);
    if net.grants_what_it_ended() {
        // Within one statement the new row would meet the old one.
        writing.run(connection).await?;
        writing = Writing::new();
    }
    // Memos first: they may have to wait for another server, which needs `log_head` to go on.
    writing.remember(REMEMBERED, &net.memos, batch.state.policy.memo_retention_ms);
    writing.remember("remembered_if_unused", &net.memos_if_unused, batch.state.policy.memo_retention_ms);
    writing.forget(&net.forgotten);
    writing.documents(&net.documents);
    writing.versions(&net.versions);
    writing.grant(&net.granted);
    writing.keep(&net.kept);
    writing.dequeue(&net.dequeued);
    writing.queue(&net.queued);
    writing.asks(&net.asks);
    writing.append(&batch.events, epoch);
    let written = writing.run(connection).await?;
    if written.remembered != net.memos.len() {
        // On another document, so neither waited for the other. The next look sees it.
        return Err(Failure::Again("another server has just used the same request id".to_owned()));
    }
    if written.sequence.is_none() && !batch.events.is_empty() {
        // The next look sees which it is.
        return Err(Failure::Again("the log has got another epoch".to_owned()));
    }
    Ok(written.sequence)
}

/// Appends events and nothing else. Answers the sequence of the last.
pub(super) async fn append(connection: &mut PgConnection, events: &[Event], epoch: Uuid) -> Result<Option<i64>> {
    let mut writing = Writing::new();
    writing.append(events, epoch);
    Ok(writing.run(connection).await?.sequence)
}

/// What is left of the changes when all have happened: one statement may not touch a row twice.
#[derive(Default)]
struct Net<'b> {
    documents: BTreeMap<&'b DocumentKey, DocumentRow>,
    versions: BTreeMap<&'b DocumentKey, &'b DocumentVersion>,
    granted: Vec<&'b Lock>,
    kept: Vec<&'b Lock>,
    ended: Vec<&'b Lock>,
    memos: BTreeMap<&'b MemoKey, &'b Memo>,
    /// Those that give way to another request with the same id.
    memos_if_unused: BTreeMap<&'b MemoKey, &'b Memo>,
    forgotten: BTreeSet<&'b MemoKey>,
    queued: Vec<&'b Ticket>,
    dequeued: Vec<&'b Ticket>,
    asks: Vec<&'b Ask>,
}

impl<'b> Net<'b> {
    fn of(changes: &'b [Change]) -> Self {
        let mut net = Self::default();
        // Whether the row is new, and the lock as it is at the end.
        let mut locks: HashMap<LeaseId, (bool, &Lock, bool)> = HashMap::new();
        // Whether it stays, by lease.
        let mut tickets: BTreeMap<LeaseId, (&Ticket, bool)> = BTreeMap::new();
        let mut asks: BTreeMap<Uuid, &Ask> = BTreeMap::new();
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
                Change::Document { key, row } => {
                    net.documents.insert(key, row.clone());
                    net.versions.remove(key);
                }
                Change::Version { key, version } => match net.documents.get_mut(key) {
                    Some(row) => row.version = Some(version.clone()),
                    None => {
                        net.versions.insert(key, version);
                    }
                },
                Change::Remember { key, memo, if_unused } => {
                    if *if_unused {
                        net.memos_if_unused.entry(key).or_insert(memo);
                    } else {
                        net.memos.insert(key, memo);
                    }
                    net.forgotten.remove(key);
                }
                Change::Forget(key) => {
                    net.memos.remove(key);
                    net.forgotten.insert(key);
                }
                Change::Queue(ticket) => {
                    tickets.insert(ticket.lease_id, (ticket, true));
                }
                Change::Dequeue(ticket) => {
                    tickets.insert(ticket.lease_id, (ticket, false));
                }
                Change::Ask(ask) | Change::Answer(ask) => {
                    asks.insert(ask.id, ask);
                }
            }
        }
        net.memos_if_unused.retain(|key, _| !net.memos.contains_key(key));
        net.asks = asks.into_values().collect();
        for (ticket, stays) in tickets.into_values() {
            if stays { net.queued.push(ticket) } else { net.dequeued.push(ticket) }
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
/// it changes is locked already, but for memos and `log_head`.
struct Writing {
    sql: QueryBuilder<Postgres>,
    parts: Vec<&'static str>,
}

/// What a statement has done.
#[derive(Default)]
struct Written {
    /// The last one it has taken from the log's head.
    sequence: Option<i64>,
    remembered: usize,
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

    fn memo_keys<'k>(&mut self, keys: impl Iterator<Item = &'k MemoKey> + Clone) {
        self.add("text[]", keys.clone().map(|key| key.tenant.as_str()));
        self.add("text[]", keys.clone().map(|key| key.owner.as_str()));
        self.add("text[]", keys.map(|key| key.request_id.as_str()));
    }

    fn holders<'h>(&mut self, holders: impl Iterator<Item = &'h Holder> + Clone) {
        self.add("text[]", holders.clone().map(|holder| holder.owner.as_str()));
        self.add("text[]", holders.clone().map(|holder| holder.session.as_ref().map(|session| session.as_str())));
        self.add("text[]", holders.clone().map(|holder| holder.name.as_deref()));
        self.add("text[]", holders.map(|holder| holder.kind.name()));
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
        Self { sql: QueryBuilder::new("WITH "), parts: Vec::new() }
    }

    async fn run(mut self, connection: &mut PgConnection) -> Result<Written> {
        if self.parts.is_empty() {
            return Ok(Written::default());
        }
        let has = |part| self.parts.contains(&part);
        self.sql.push(if has(HEAD) { " SELECT (SELECT sequence FROM head)" } else { " SELECT NULL::bigint" });
        self.sql.push(if has(REMEMBERED) { ", (SELECT count(*) FROM remembered)" } else { ", 0::bigint" });
        let row = self.sql.build().fetch_one(connection).await?;
        let remembered: i64 = row.try_get(1)?;
        Ok(Written { sequence: row.try_get(0)?, remembered: usize::try_from(remembered).unwrap_or_default() })
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

    /// Only a memo past its retention is written over.
    fn remember(&mut self, part: &'static str, memos: &BTreeMap<&MemoKey, &Memo>, retention_ms: i64) {
        if memos.is_empty() {
            return;
        }
        self.part(
            part,
            "INSERT INTO request_memos AS m (tenant, owner_id, request_id, fingerprint, locks, created_at)
             SELECT k.tenant, k.owner_id, k.request_id, k.fingerprint, k.locks, k.created_at FROM UNNEST(",
            |columns| {
                columns.memo_keys(memos.keys().copied());
                columns.add("bytea[]", memos.values().map(|memo| memo.fingerprint.0.as_slice()));
                columns.add("text[]", memos.values().map(|memo| memo::to_text(&memo.locks)));
                columns.add("bigint[]", memos.values().map(|memo| memo.created_at.millis()));
            },
            &format!(
                ") AS k (tenant, owner_id, request_id, fingerprint, locks, created_at)
                 ON CONFLICT (tenant, owner_id, request_id) DO UPDATE
                 SET fingerprint = excluded.fingerprint, locks = excluded.locks, created_at = excluded.created_at
                 WHERE m.created_at <= excluded.created_at - {retention_ms} RETURNING 1)"
            ),
        );
    }

    fn forget(&mut self, memos: &BTreeSet<&MemoKey>) {
        if memos.is_empty() {
            return;
        }
        self.part(
            "forgotten",
            "DELETE FROM request_memos AS m USING UNNEST(",
            |columns| columns.memo_keys(memos.iter().copied()),
            ") AS k (tenant, owner_id, request_id)
             WHERE (m.tenant, m.owner_id, m.request_id) = (k.tenant, k.owner_id, k.request_id) RETURNING 1)",
        );
    }

    fn versions(&mut self, versions: &BTreeMap<&DocumentKey, &DocumentVersion>) {
        if versions.is_empty() {
            return;
        }
        self.part(
            "versioned",
            "UPDATE documents AS d SET document_version = k.document_version FROM UNNEST(",
            |columns| {
                columns.keys(versions.keys().copied());
                columns.add("text[]", versions.values().map(|version| version.as_str()));
            },
            ") AS k (tenant, room, document, document_version)
             WHERE (d.tenant, d.room, d.document) = (k.tenant, k.room, k.document) RETURNING 1)",
        );
    }

    fn documents(&mut self, documents: &BTreeMap<&DocumentKey, DocumentRow>) {
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
                columns.add("bigint[]", documents.values().map(|row| row.fencing_token));
                columns.add("int[]", documents.values().map(|row| signed(row.capacity)));
                columns.add("text[]", documents.values().map(|row| row.version.as_ref().map(|v| v.as_str())));
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
                session_id, name, acquired_at, expires_at, due_at, ttl_seconds, linger_ms, metadata, document_version,
                extend_ids, kind, claim_ms, activity, active_at, is_wanted)
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
                columns.add("int[]", each().map(|lock| lock.span.linger_ms().map(signed)));
                columns.add("text[]", each().map(|lock| lock.metadata.as_ref().map(|m| m.as_str())));
                columns.add("text[]", each().map(|lock| lock.document_version.as_ref().map(|v| v.as_str())));
                columns.add("text[]", each().map(|lock| memo::ids_to_text(&lock.extend_ids)));
                columns.add("text[]", each().map(|lock| lock.holder.kind.name()));
                columns.add("int[]", each().map(|lock| lock.span.claim_ms().map(signed)));
                columns.add("text[]", each().map(|lock| lock.activity.name()));
                columns.add("bigint[]", each().map(|lock| lock.active_at.millis()));
                columns.add("bool[]", each().map(|lock| lock.is_wanted));
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
                due_at = k.due_at, ttl_seconds = k.ttl_seconds, linger_ms = k.linger_ms, metadata = k.metadata,
                extend_ids = k.extend_ids, document_version = k.document_version, kind = k.kind,
                claim_ms = k.claim_ms, activity = k.activity, active_at = k.active_at, is_wanted = k.is_wanted
             FROM UNNEST(",
            |columns| {
                columns.keys(each().map(|lock| &lock.key));
                columns.add("int[]", slots(locks).into_iter());
                columns.add("bigint[]", each().map(|lock| i64::from(lock.hold)));
                columns.add("text[]", each().map(|lock| lock.holder.name.as_deref()));
                columns.add("bigint[]", each().map(|lock| lock.expires_at.millis()));
                columns.add("bigint[]", each().map(|lock| lock.due_at.millis()));
                columns.add("int[]", each().map(|lock| signed(lock.ttl_seconds)));
                columns.add("int[]", each().map(|lock| lock.span.linger_ms().map(signed)));
                columns.add("text[]", each().map(|lock| lock.metadata.as_ref().map(|m| m.as_str())));
                columns.add("text[]", each().map(|lock| memo::ids_to_text(&lock.extend_ids)));
                columns.add("text[]", each().map(|lock| lock.document_version.as_ref().map(|v| v.as_str())));
                columns.add("text[]", each().map(|lock| lock.holder.kind.name()));
                columns.add("int[]", each().map(|lock| lock.span.claim_ms().map(signed)));
                columns.add("text[]", each().map(|lock| lock.activity.name()));
                columns.add("bigint[]", each().map(|lock| lock.active_at.millis()));
                columns.add("bool[]", each().map(|lock| lock.is_wanted));
            },
            ") AS k (tenant, room, document, slot, hold, name, expires_at, due_at, ttl_seconds, linger_ms, metadata,
                 extend_ids, document_version, kind, claim_ms, activity, active_at, is_wanted)
             WHERE (l.tenant, l.room, l.document, l.slot) = (k.tenant, k.room, k.document, k.slot) RETURNING 1)",
        );
    }

    fn queue(&mut self, tickets: &[&Ticket]) {
        if tickets.is_empty() {
            return;
        }
        let each = || tickets.iter();
        self.part(
            "queued",
            "INSERT INTO lock_waiters (tenant, room, document, place, lease_id, owner_id, session_id, name, kind,
                ttl_seconds, metadata, request_id, fingerprint, joined_at, expires_at)
             SELECT * FROM UNNEST(",
            |columns| {
                columns.keys(each().map(|ticket| &ticket.key));
                columns.add("bigint[]", each().map(|ticket| ticket.place));
                columns.add("uuid[]", each().map(|ticket| ticket.lease_id));
                columns.holders(each().map(|ticket| &ticket.holder));
                columns.add("int[]", each().map(|ticket| signed(ticket.ttl_seconds)));
                columns.add("text[]", each().map(|ticket| ticket.metadata.as_ref().map(|m| m.as_str())));
                columns.add("text[]", each().map(|ticket| ticket.request.as_ref().map(|request| request.id.as_str())));
                let fingerprints = each().map(|ticket| ticket.request.as_ref().map(|r| r.fingerprint.0.as_slice()));
                columns.add("bytea[]", fingerprints);
                columns.add("bigint[]", each().map(|ticket| ticket.joined_at.millis()));
                columns.add("bigint[]", each().map(|ticket| ticket.expires_at.millis()));
            },
            ") ON CONFLICT (tenant, room, document, place) DO UPDATE SET name = excluded.name, kind = excluded.kind,
                ttl_seconds = excluded.ttl_seconds, metadata = excluded.metadata, request_id = excluded.request_id,
                fingerprint = excluded.fingerprint, expires_at = excluded.expires_at RETURNING 1)",
        );
    }

    fn dequeue(&mut self, tickets: &[&Ticket]) {
        if tickets.is_empty() {
            return;
        }
        self.part(
            "dequeued",
            "DELETE FROM lock_waiters AS w USING UNNEST(",
            |columns| columns.add("uuid[]", tickets.iter().map(|ticket| ticket.lease_id)),
            ") AS k (lease_id) WHERE w.lease_id = k.lease_id RETURNING 1)",
        );
    }

    fn asks(&mut self, asks: &[&Ask]) {
        if asks.is_empty() {
            return;
        }
        let each = || asks.iter();
        self.part(
            "asked",
            "INSERT INTO lock_handovers (tenant, room, document, handover_id, lease_id, holder_id, owner_id, session_id,
                name, kind, message, asked_at, expires_at, outcome, answer)
             SELECT * FROM UNNEST(",
            |columns| {
                columns.keys(each().map(|ask| &ask.key));
                columns.add("uuid[]", each().map(|ask| ask.id));
                columns.add("uuid[]", each().map(|ask| ask.lease_id));
                columns.add("text[]", each().map(|ask| ask.holder.as_str()));
                columns.holders(each().map(|ask| &ask.asker));
                columns.add("text[]", each().map(|ask| ask.message.as_deref()));
                columns.add("bigint[]", each().map(|ask| ask.asked_at.millis()));
                columns.add("bigint[]", each().map(|ask| ask.expires_at.millis()));
                columns.add("text[]", each().map(|ask| ask.outcome.map(AskOutcome::name)));
                columns.add("text[]", each().map(|ask| ask.answer.as_deref()));
            },
            ") ON CONFLICT (handover_id) DO UPDATE SET outcome = excluded.outcome, answer = excluded.answer
             RETURNING 1)",
        );
    }

    /// Takes the next sequences. Nothing is waited for after `log_head`, and COMMIT follows at once.
    fn append(&mut self, events: &[Event], epoch: Uuid) {
        if events.is_empty() {
            return;
        }
        let each = || events.iter();
        let rows: Vec<_> = each().map(EventRow::of).collect();
        let count = i64::try_from(events.len()).unwrap_or_default();
        // Counting them makes the other parts come first: whoever holds `log_head` holds up everyone else.
        let counted: Vec<_> =
            self.parts.iter().map(|part| format!(", (SELECT count(*) FROM {part}) AS {part}")).collect();
        let counted = counted.concat();
        self.part(
            HEAD,
            "UPDATE log_head SET sequence = sequence + e.count FROM UNNEST(",
            |columns| {
                columns.add("bigint[]", std::iter::once(count));
                columns.add("uuid[]", std::iter::once(epoch));
            },
            &format!(
                ") AS e (count, epoch){counted} WHERE log_head.epoch = e.epoch
                 RETURNING log_head.sequence, log_head.sequence - e.count AS base)"
            ),
        );
        self.part(
            "appended",
            "INSERT INTO events (sequence, tenant, room, document, at, kind, lease_id, fencing_token, owner_id,
                session_id, reason, \"by\", note, held_ms, ended_at, body, recipient, waited_ms)
             SELECT head.base + e.position, e.tenant, e.room, e.document, e.at, e.kind, e.lease_id, e.fencing_token,
                e.owner_id, e.session_id, e.reason, e.ended_by, e.note, e.held_ms, e.ended_at, e.body,
                e.recipient, e.waited_ms
             FROM head, UNNEST(",
            |columns| {
                columns.keys(each().map(|event| &event.lock.key));
                columns.add("bigint[]", each().map(|event| event.at.millis()));
                columns.add("text[]", each().map(|event| event.kind.name().as_str()));
                columns.add("uuid[]", each().map(|event| event.lock.lease_id));
                columns.add("bigint[]", each().map(|event| event.lock.fencing_token));
                columns.add("text[]", each().map(|event| event.lock.holder.owner.as_str()));
                columns.add("text[]", each().map(|event| event.lock.holder.session.as_ref().map(|s| s.as_str())));
                columns.add("text[]", rows.iter().map(|row| row.reason));
                columns.add("text[]", rows.iter().map(|row| row.by));
                columns.add("text[]", rows.iter().map(|row| row.note));
                columns.add("bigint[]", rows.iter().map(|row| row.held_ms));
                columns.add("bigint[]", rows.iter().map(|row| row.ended_at));
                columns.add("text[]", rows.iter().map(|row| row.body.as_str()));
                columns.add("text[]", rows.iter().map(|row| row.recipient));
                columns.add("bigint[]", rows.iter().map(|row| row.waited_ms));
            },
            ") WITH ORDINALITY AS e (tenant, room, document, at, kind, lease_id, fencing_token, owner_id, session_id, reason,
                 ended_by, note, held_ms, ended_at, body, recipient, waited_ms, position))",
        );
    }
}
