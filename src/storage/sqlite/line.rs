//! Waiting lines and asks, as a batch reads and writes them.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::load::{columns, text};
use crate::{
    locking::{
        Ask, AskNeeded, AskOutcome, DocumentKey, Fingerprint, Holder, HolderKind, LeaseId, Metadata, Request,
        TICKET_MS, Ticket, TicketNeeded, Timestamp,
        names::{OwnerId, RequestId, SessionId, TenantId},
    },
    storage::{batch::Batch, queries::key},
};

type Result<T> = std::result::Result<T, rusqlite::Error>;

columns!(TicketColumn: tenant, room, document, place, lease_id, owner_id, session_id, name, kind, ttl_seconds, metadata,
    request_id, fingerprint, joined_at, expires_at);
columns!(AskColumn: tenant, room, document, handover_id, lease_id, holder_id, owner_id, session_id, name, kind, message,
    asked_at, expires_at, outcome, answer);

/// Reads the lines and asks that the batch needs, once its locks and the rows of their documents are there.
pub(super) fn load(connection: &Connection, batch: &mut Batch<'_>, now: Timestamp) -> Result<()> {
    for (key, ends) in batch.line_keys() {
        let capacity = batch.state.documents.get(key).map_or(1, |row| row.capacity.max(1));
        let served = ends + capacity as usize;
        let tickets = front(connection, key, served + 1, now)?;
        let last_place = last_place(connection, key)?;
        batch.add_line(key, tickets, served, last_place);
        for ask in open_asks(connection, key)? {
            batch.add_ask(ask);
        }
    }
    let tickets: Vec<_> = batch.tickets_needed().collect();
    for (key, needed) in tickets {
        if let Some(ticket) = ticket_of(connection, key, needed, now)? {
            batch.add_ticket(ticket);
        }
    }
    let asks: Vec<_> = batch.asks_needed().collect();
    for (key, needed) in asks {
        if let Some(ask) = ask_of(connection, key, needed)? {
            batch.add_ask(ask);
        }
    }
    for owner in batch.waiters() {
        let count = tickets_of(connection, &owner.0, &owner.1, now)?;
        batch.state.owner_tickets.insert(owner, count);
    }
    Ok(())
}

fn select_tickets(rest: &str) -> String {
    format!("SELECT {} FROM lock_waiters {rest}", TicketColumn::LIST)
}

fn front(connection: &Connection, key: &DocumentKey, limit: usize, now: Timestamp) -> Result<Vec<Ticket>> {
    connection
        .prepare_cached(&select_tickets(
            "WHERE tenant = ?1 AND room = ?2 AND document = ?3 AND expires_at > ?4 ORDER BY place LIMIT ?5",
        ))?
        .query_map(
            params![
                key.tenant.as_str(),
                key.room.as_str(),
                key.document.as_str(),
                now.millis(),
                i64::try_from(limit).unwrap_or(i64::MAX)
            ],
            ticket,
        )?
        .collect()
}

fn last_place(connection: &Connection, key: &DocumentKey) -> Result<i64> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(place) FROM lock_waiters WHERE tenant = ?1 AND room = ?2 AND document = ?3")?
        .query_row([key.tenant.as_str(), key.room.as_str(), key.document.as_str()], |row| row.get(0))?;
    Ok(last.unwrap_or_default())
}

/// A live one: the session may have had another one before, which nobody has deleted yet.
fn ticket_of(
    connection: &Connection,
    key: &DocumentKey,
    needed: TicketNeeded<'_>,
    now: Timestamp,
) -> Result<Option<Ticket>> {
    connection
        .prepare_cached(&select_tickets(
            "WHERE owner_id = ?1 AND tenant = ?2 AND room = ?3 AND document = ?4 AND expires_at > ?8
               AND (lease_id = ?5 OR session_id = ?6 OR (?6 IS NULL AND request_id = ?7)) ORDER BY place LIMIT 1",
        ))?
        .query_row(
            params![
                needed.owner.as_str(),
                key.tenant.as_str(),
                key.room.as_str(),
                key.document.as_str(),
                needed.lease_id,
                needed.session.map(SessionId::as_str),
                needed.request_id.map(RequestId::as_str),
                now.millis(),
            ],
            ticket,
        )
        .optional()
}

fn tickets_of(connection: &Connection, tenant: &TenantId, owner: &OwnerId, now: Timestamp) -> Result<u32> {
    connection
        .prepare_cached("SELECT count(*) FROM lock_waiters WHERE owner_id = ?1 AND tenant = ?2 AND expires_at > ?3")?
        .query_row(params![owner.as_str(), tenant.as_str(), now.millis()], |row| row.get(0))
}

fn open_asks(connection: &Connection, key: &DocumentKey) -> Result<Vec<Ask>> {
    connection
        .prepare_cached(&format!(
            "SELECT {} FROM lock_handovers WHERE tenant = ?1 AND room = ?2 AND document = ?3 AND outcome IS NULL",
            AskColumn::LIST
        ))?
        .query_map([key.tenant.as_str(), key.room.as_str(), key.document.as_str()], ask)?
        .collect()
}

fn ask_of(connection: &Connection, key: &DocumentKey, needed: AskNeeded<'_>) -> Result<Option<Ask>> {
    let (tenant, room, document) = (key.tenant.as_str(), key.room.as_str(), key.document.as_str());
    match needed {
        AskNeeded::Id(id) => connection
            .prepare_cached(&format!(
                "SELECT {} FROM lock_handovers
                 WHERE handover_id = ?1 AND tenant = ?2 AND room = ?3 AND document = ?4",
                AskColumn::LIST
            ))?
            .query_row(params![id, tenant, room, document], ask),
        AskNeeded::LastOf(owner) => connection
            .prepare_cached(&format!(
                "SELECT {} FROM lock_handovers
                 WHERE owner_id = ?1 AND tenant = ?2 AND room = ?3 AND document = ?4 ORDER BY asked_at DESC LIMIT 1",
                AskColumn::LIST
            ))?
            .query_row(params![owner.as_str(), tenant, room, document], ask),
    }
    .optional()
}

fn ticket(row: &Row<'_>) -> Result<Ticket> {
    use TicketColumn as Column;
    let text = |column: Column| text(row, column as usize);
    let name = |column: Column| Ok::<_, rusqlite::Error>(text(column)?.unwrap_or_default());
    let id = text(Column::request_id)?.map(RequestId::from_stored);
    let fingerprint: Option<[u8; 16]> = row.get(Column::fingerprint as usize)?;
    Ok(Ticket {
        key: key(name(Column::tenant)?, name(Column::room)?, name(Column::document)?),
        place: row.get(Column::place as usize)?,
        lease_id: row.get(Column::lease_id as usize)?,
        holder: Holder {
            owner: OwnerId::from_stored(name(Column::owner_id)?),
            session: text(Column::session_id)?.map(SessionId::from_stored),
            name: text(Column::name)?.map(Into::into),
            kind: HolderKind::from_stored(text(Column::kind)?),
        },
        ttl_seconds: row.get(Column::ttl_seconds as usize)?,
        metadata: text(Column::metadata)?.and_then(Metadata::from_stored),
        request: id.zip(fingerprint).map(|(id, bytes)| Request { id, fingerprint: Fingerprint(bytes) }),
        joined_at: Timestamp::from_millis(row.get(Column::joined_at as usize)?),
        expires_at: Timestamp::from_millis(row.get(Column::expires_at as usize)?),
    })
}

fn ask(row: &Row<'_>) -> Result<Ask> {
    use AskColumn as Column;
    let text = |column: Column| text(row, column as usize);
    let name = |column: Column| Ok::<_, rusqlite::Error>(text(column)?.unwrap_or_default());
    Ok(Ask {
        id: row.get(Column::handover_id as usize)?,
        key: key(name(Column::tenant)?, name(Column::room)?, name(Column::document)?),
        lease_id: row.get(Column::lease_id as usize)?,
        holder: OwnerId::from_stored(name(Column::holder_id)?),
        asker: Holder {
            owner: OwnerId::from_stored(name(Column::owner_id)?),
            session: text(Column::session_id)?.map(SessionId::from_stored),
            name: text(Column::name)?.map(Into::into),
            kind: HolderKind::from_stored(text(Column::kind)?),
        },
        message: text(Column::message)?.map(Into::into),
        asked_at: Timestamp::from_millis(row.get(Column::asked_at as usize)?),
        expires_at: Timestamp::from_millis(row.get(Column::expires_at as usize)?),
        outcome: text(Column::outcome)?.and_then(AskOutcome::from_name),
        answer: text(Column::answer)?.map(Into::into),
    })
}

/// A new ticket, or one that was asked for again.
pub(super) fn queue(connection: &Connection, ticket: &Ticket) -> Result<()> {
    connection
        .prepare_cached(&format!(
            "INSERT INTO lock_waiters ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
             ON CONFLICT (tenant, room, document, place) DO UPDATE SET name = ?8, kind = ?9, ttl_seconds = ?10, metadata = ?11,
                request_id = ?12, fingerprint = ?13, expires_at = ?15",
            TicketColumn::LIST
        ))?
        .execute(params![
            ticket.key.tenant.as_str(),
            ticket.key.room.as_str(),
            ticket.key.document.as_str(),
            ticket.place,
            ticket.lease_id,
            ticket.holder.owner.as_str(),
            ticket.holder.session.as_ref().map(SessionId::as_str),
            ticket.holder.name.as_deref(),
            ticket.holder.kind.name(),
            ticket.ttl_seconds,
            ticket.metadata.as_ref().map(Metadata::as_str),
            ticket.request.as_ref().map(|request| request.id.as_str()),
            ticket.request.as_ref().map(|request| request.fingerprint.0),
            ticket.joined_at.millis(),
            ticket.expires_at.millis(),
        ])?;
    Ok(())
}

pub(super) fn dequeue(connection: &Connection, ticket: &Ticket) -> Result<()> {
    connection.prepare_cached("DELETE FROM lock_waiters WHERE lease_id = ?1")?.execute([ticket.lease_id])?;
    Ok(())
}

/// A new ask, or one that has got its outcome.
pub(super) fn save_ask(connection: &Connection, ask: &Ask) -> Result<()> {
    connection
        .prepare_cached(&format!(
            "INSERT INTO lock_handovers ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
             ON CONFLICT (handover_id) DO UPDATE SET outcome = ?14, answer = ?15",
            AskColumn::LIST
        ))?
        .execute(params![
            ask.key.tenant.as_str(),
            ask.key.room.as_str(),
            ask.key.document.as_str(),
            ask.id,
            ask.lease_id,
            ask.holder.as_str(),
            ask.asker.owner.as_str(),
            ask.asker.session.as_ref().map(SessionId::as_str),
            ask.asker.name.as_deref(),
            ask.asker.kind.name(),
            ask.message.as_deref(),
            ask.asked_at.millis(),
            ask.expires_at.millis(),
            ask.outcome.map(AskOutcome::name),
            ask.answer.as_deref(),
        ])?;
    Ok(())
}

/// Gives tickets another life. Returns those that are not there any more.
pub(super) fn renew_tickets(connection: &Connection, tickets: &[LeaseId], now: Timestamp) -> Result<Vec<LeaseId>> {
    let mut renew =
        connection.prepare_cached("UPDATE lock_waiters SET expires_at = ?2 WHERE lease_id = ?1 AND expires_at > ?3")?;
    let mut gone = Vec::new();
    for lease_id in tickets {
        if renew.execute(params![lease_id, now.plus_millis(TICKET_MS).millis(), now.millis()])? == 0 {
            gone.push(*lease_id);
        }
    }
    Ok(gone)
}

/// Deletes up to `limit` tickets that nobody has renewed; returns how many there were.
pub(super) fn delete_dead_tickets(connection: &Connection, now: Timestamp, limit: u32) -> Result<usize> {
    connection
        .prepare_cached(
            "DELETE FROM lock_waiters WHERE (tenant, room, document, place) IN
               (SELECT tenant, room, document, place FROM lock_waiters WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
        )?
        .execute(params![now.millis(), limit])
}

/// After an outage: tickets and asks that were alive when it began have their whole time again.
pub(super) fn grant_grace(connection: &Connection, last_alive: Timestamp, now: Timestamp) -> Result<()> {
    for (table, life_ms) in [("lock_waiters", TICKET_MS), ("lock_handovers", crate::locking::ASK_MS)] {
        let sql = format!("UPDATE {table} SET expires_at = ?1 WHERE expires_at > ?2 AND expires_at < ?1");
        connection.execute(&sql, [now.plus_millis(life_ms).millis(), last_alive.millis()])?;
    }
    Ok(())
}

/// Deletes asks that are older than anyone remembers; returns how many.
pub(super) fn prune_asks(connection: &Connection, before: Timestamp, limit: u32) -> Result<usize> {
    connection.execute(
        "DELETE FROM lock_handovers WHERE handover_id IN
           (SELECT handover_id FROM lock_handovers WHERE asked_at <= ?1 AND outcome IS NOT NULL LIMIT ?2)",
        params![before.millis(), limit],
    )
}
