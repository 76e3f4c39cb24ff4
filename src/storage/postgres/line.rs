//! Waiting lines and asks, as a batch reads them under the locks of its documents. Few batches have any.

use sea_orm::sqlx::{self, PgConnection, Row as _, postgres::PgRow};
use uuid::Uuid;

use super::load::{columns, key_of, moment, unsigned};
use crate::{
    locking::{
        ASK_MS, Ask, AskNeeded, AskOutcome, DocumentKey, Fingerprint, Holder, HolderKind, LeaseId, Metadata, Request,
        TICKET_MS, Ticket, TicketNeeded, Timestamp,
        names::{OwnerId, RequestId, SessionId, TenantId},
    },
    storage::batch::Batch,
};

type Result<T> = std::result::Result<T, sqlx::Error>;

/// Reads the lines and asks that the batch needs, once its locks and the rows of their documents are there. Documents
/// without a row are not locked, and have neither.
pub(super) async fn load(connection: &mut PgConnection, batch: &mut Batch<'_>, now: Timestamp) -> Result<()> {
    let lines: Vec<(DocumentKey, usize)> = batch
        .line_keys()
        .into_iter()
        .filter_map(|(key, ends)| {
            let row = batch.state.documents.get(key)?;
            Some((key.clone(), ends + row.capacity.max(1) as usize))
        })
        .collect();
    if !lines.is_empty() {
        fronts(connection, batch, &lines, now).await?;
        open_asks(connection, batch, &lines).await?;
    }
    let tickets: Vec<_> = batch.tickets_needed().collect();
    for (key, needed) in tickets {
        if let Some(ticket) = ticket_of(connection, key, needed, now).await? {
            batch.add_ticket(ticket);
        }
    }
    let asks: Vec<_> = batch.asks_needed().collect();
    for (key, needed) in asks {
        if let Some(ask) = ask_of(connection, key, needed).await? {
            batch.add_ask(ask);
        }
    }
    count_tickets(connection, batch, now).await
}

async fn fronts(
    connection: &mut PgConnection,
    batch: &mut Batch<'_>,
    lines: &[(DocumentKey, usize)],
    now: Timestamp,
) -> Result<()> {
    let (tenants, rooms, documents) = columns(lines.iter().map(|(key, _)| key));
    // One more than can be served tells whether there are more.
    let limits: Vec<_> = lines.iter().map(|(_, served)| i64::try_from(served + 1).unwrap_or(i64::MAX)).collect();
    let rows = sqlx::query(
        "SELECT k.position, (SELECT max(l.place) FROM lock_waiters AS l
              WHERE (l.tenant, l.room, l.document) = (k.tenant, k.room, k.document)) AS last_place, w.*
         FROM UNNEST($1::text[], $2::text[], $3::text[], $4::bigint[])
            WITH ORDINALITY AS k (tenant, room, document, front, position)
         LEFT JOIN LATERAL (SELECT * FROM lock_waiters AS w
            WHERE w.tenant = k.tenant AND w.room = k.room AND w.document = k.document AND w.expires_at > $5
            ORDER BY w.place LIMIT k.front) AS w ON true
         ORDER BY k.position, w.place",
    )
    .bind(tenants)
    .bind(rooms)
    .bind(documents)
    .bind(limits)
    .bind(now.millis())
    .fetch_all(connection)
    .await?;
    for (position, (key, served)) in (1_i64..).zip(lines) {
        let (mut tickets, mut last_place) = (Vec::new(), 0);
        for row in &rows {
            if row.try_get::<i64, _>("position")? == position {
                last_place = row.try_get::<Option<i64>, _>("last_place")?.unwrap_or_default();
                if row.try_get::<Option<i64>, _>("place")?.is_some() {
                    tickets.push(ticket(row)?);
                }
            }
        }
        batch.add_line(key, tickets, *served, last_place);
    }
    Ok(())
}

async fn open_asks(connection: &mut PgConnection, batch: &mut Batch<'_>, lines: &[(DocumentKey, usize)]) -> Result<()> {
    let (tenants, rooms, documents) = columns(lines.iter().map(|(key, _)| key));
    let rows = sqlx::query(
        "SELECT h.* FROM UNNEST($1::text[], $2::text[], $3::text[]) AS k (tenant, room, document)
         JOIN lock_handovers AS h ON (h.tenant, h.room, h.document) = (k.tenant, k.room, k.document)
         WHERE h.outcome IS NULL",
    )
    .bind(tenants)
    .bind(rooms)
    .bind(documents)
    .fetch_all(connection)
    .await?;
    for row in &rows {
        batch.add_ask(ask(row)?);
    }
    Ok(())
}

/// A live one: the session may have had another one before, which nobody has deleted yet.
async fn ticket_of(
    connection: &mut PgConnection,
    key: &DocumentKey,
    needed: TicketNeeded<'_>,
    now: Timestamp,
) -> Result<Option<Ticket>> {
    let row = sqlx::query(
        "SELECT * FROM lock_waiters WHERE owner_id = $1 AND tenant = $2 AND room = $3 AND document = $4
           AND expires_at > $8 AND (lease_id = $5 OR session_id = $6 OR ($6 IS NULL AND request_id = $7))
         ORDER BY place LIMIT 1",
    )
    .bind(needed.owner.as_str())
    .bind(key.tenant.as_str())
    .bind(key.room.as_str())
    .bind(key.document.as_str())
    .bind(needed.lease_id)
    .bind(needed.session.map(SessionId::as_str))
    .bind(needed.request_id.map(RequestId::as_str))
    .bind(now.millis())
    .fetch_optional(connection)
    .await?;
    row.as_ref().map(ticket).transpose()
}

async fn ask_of(connection: &mut PgConnection, key: &DocumentKey, needed: AskNeeded<'_>) -> Result<Option<Ask>> {
    let query = match needed {
        AskNeeded::Id(id) => sqlx::query(
            "SELECT * FROM lock_handovers WHERE tenant = $1 AND room = $2 AND document = $3 AND handover_id = $4",
        )
        .bind(key.tenant.as_str())
        .bind(key.room.as_str())
        .bind(key.document.as_str())
        .bind(id),
        AskNeeded::LastOf(owner) => sqlx::query(
            "SELECT * FROM lock_handovers WHERE tenant = $1 AND room = $2 AND document = $3 AND owner_id = $4
             ORDER BY asked_at DESC LIMIT 1",
        )
        .bind(key.tenant.as_str())
        .bind(key.room.as_str())
        .bind(key.document.as_str())
        .bind(owner.as_str()),
    };
    query.fetch_optional(connection).await?.as_ref().map(ask).transpose()
}

/// Counted only where there is a limit, and no further than it.
async fn count_tickets(connection: &mut PgConnection, batch: &mut Batch<'_>, now: Timestamp) -> Result<()> {
    let (limit, waiters) = (batch.state.policy.waits_per_owner, batch.waiters());
    if limit == 0 || waiters.is_empty() {
        return Ok(());
    }
    let tenants: Vec<_> = waiters.iter().map(|(tenant, _)| tenant.as_str()).collect();
    let owners: Vec<_> = waiters.iter().map(|(_, owner)| owner.as_str()).collect();
    let rows = sqlx::query(
        "SELECT k.tenant, k.owner_id, (SELECT count(*) FROM
           (SELECT 1 FROM lock_waiters AS w
            WHERE w.owner_id = k.owner_id AND w.tenant = k.tenant AND w.expires_at > $4 LIMIT $3) AS counted) AS tickets
         FROM UNNEST($1::text[], $2::text[]) AS k (tenant, owner_id)",
    )
    .bind(tenants)
    .bind(owners)
    .bind(i64::from(limit))
    .bind(now.millis())
    .fetch_all(connection)
    .await?;
    for row in rows {
        let tenant = TenantId::from_stored(row.try_get::<String, _>("tenant")?);
        let owner = OwnerId::from_stored(row.try_get::<String, _>("owner_id")?);
        let tickets = u32::try_from(row.try_get::<i64, _>("tickets")?).unwrap_or(u32::MAX);
        batch.state.owner_tickets.insert((tenant, owner), tickets);
    }
    Ok(())
}

fn holder(row: &PgRow) -> Result<Holder> {
    Ok(Holder {
        owner: OwnerId::from_stored(row.try_get::<String, _>("owner_id")?),
        session: row.try_get::<Option<String>, _>("session_id")?.map(SessionId::from_stored),
        name: row.try_get::<Option<String>, _>("name")?.map(Into::into),
        kind: HolderKind::from_stored(row.try_get("kind")?),
    })
}

fn ticket(row: &PgRow) -> Result<Ticket> {
    let id = row.try_get::<Option<String>, _>("request_id")?.map(RequestId::from_stored);
    let fingerprint: Option<&[u8]> = row.try_get("fingerprint")?;
    let fingerprint = fingerprint.map(|bytes| Fingerprint(bytes.try_into().unwrap_or_default()));
    Ok(Ticket {
        key: key_of(row)?,
        place: row.try_get("place")?,
        lease_id: row.try_get("lease_id")?,
        holder: holder(row)?,
        ttl_seconds: unsigned(row.try_get("ttl_seconds")?),
        metadata: row.try_get::<Option<String>, _>("metadata")?.and_then(Metadata::from_stored),
        request: id.zip(fingerprint).map(|(id, fingerprint)| Request { id, fingerprint }),
        joined_at: moment(row, "joined_at")?,
        expires_at: moment(row, "expires_at")?,
    })
}

fn ask(row: &PgRow) -> Result<Ask> {
    let outcome: Option<&str> = row.try_get("outcome")?;
    Ok(Ask {
        id: row.try_get::<Uuid, _>("handover_id")?,
        key: key_of(row)?,
        lease_id: row.try_get("lease_id")?,
        holder: OwnerId::from_stored(row.try_get::<String, _>("holder_id")?),
        asker: holder(row)?,
        message: row.try_get::<Option<String>, _>("message")?.map(Into::into),
        asked_at: moment(row, "asked_at")?,
        expires_at: moment(row, "expires_at")?,
        outcome: outcome.and_then(AskOutcome::from_name),
        answer: row.try_get::<Option<String>, _>("answer")?.map(Into::into),
    })
}

/// Gives tickets another life, but for those that somebody is just serving or renewing. Returns those that are not there
/// any more.
pub(super) async fn renew_tickets(
    connection: &mut PgConnection,
    tickets: &[LeaseId],
    now: Timestamp,
) -> Result<Vec<LeaseId>> {
    sqlx::query(
        "UPDATE lock_waiters SET expires_at = $2 WHERE lease_id IN
           (SELECT lease_id FROM lock_waiters WHERE lease_id = ANY($1) AND expires_at > $3 FOR UPDATE SKIP LOCKED)",
    )
    .bind(tickets)
    .bind(now.plus_millis(TICKET_MS).millis())
    .bind(now.millis())
    .execute(&mut *connection)
    .await?;
    sqlx::query_scalar(
        "SELECT k.lease_id FROM UNNEST($1::uuid[]) AS k (lease_id)
         WHERE NOT EXISTS (SELECT 1 FROM lock_waiters AS w WHERE w.lease_id = k.lease_id AND w.expires_at > $2)",
    )
    .bind(tickets)
    .bind(now.millis())
    .fetch_all(connection)
    .await
}

/// Deletes up to `limit` tickets that nobody has renewed; returns how many there were.
pub(super) async fn delete_dead_tickets(connection: &mut PgConnection, now: Timestamp, limit: u32) -> Result<usize> {
    let deleted = sqlx::query(
        "DELETE FROM lock_waiters WHERE lease_id IN
           (SELECT lease_id FROM lock_waiters WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
            FOR UPDATE SKIP LOCKED)",
    )
    .bind(now.millis())
    .bind(i64::from(limit))
    .execute(connection)
    .await?;
    Ok(usize::try_from(deleted.rows_affected()).unwrap_or(usize::MAX))
}

/// After an outage: tickets and asks that were alive when it began have their whole time again.
pub(super) async fn grant_grace(connection: &mut PgConnection, last_alive: Timestamp, now: Timestamp) -> Result<()> {
    for (sql, life_ms) in [
        ("UPDATE lock_waiters SET expires_at = $1 WHERE expires_at > $2 AND expires_at < $1", TICKET_MS),
        ("UPDATE lock_handovers SET expires_at = $1 WHERE expires_at > $2 AND expires_at < $1", ASK_MS),
    ] {
        let expires_at = now.plus_millis(life_ms).millis();
        sqlx::query(sql).bind(expires_at).bind(last_alive.millis()).execute(&mut *connection).await?;
    }
    Ok(())
}
