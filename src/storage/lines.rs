//! Waiting lines and asks as those read them who are not about to decide anything.

use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::{
    Queries, StorageError,
    entities::{lock_handover, lock_waiter},
    queries::{in_rooms, in_time, key},
};
use crate::{
    auth::RoomGlobs,
    locking::{
        Ask, AskOutcome, DocumentKey, Holder, HolderKind, LeaseId, Ticket, Timestamp,
        names::{OwnerId, RoomId, SessionId, TenantId},
    },
};

/// Somebody in a line, as admins see it.
#[derive(Debug)]
pub struct Waiter {
    pub holder: Holder,
    pub joined_at: Timestamp,
}

/// How many wait, and since when the one has that waits longest.
#[derive(Debug, Default)]
pub struct WaitingNow {
    pub count: u64,
    pub oldest: Option<Timestamp>,
}

impl Queries {
    /// Leases of the live tickets of a document, first to be served first.
    pub async fn line(&self, key: &DocumentKey, now: Timestamp, limit: u64) -> Result<Vec<LeaseId>, StorageError> {
        let tickets = in_line(key, now)
            .order_by_asc(lock_waiter::Column::Place)
            .limit(limit)
            .select_only()
            .column(lock_waiter::Column::LeaseId);
        Ok(in_time(tickets.into_tuple().all(self.reads())).await?)
    }

    /// The place in line of a ticket, counted from 1; none if it is not there any more.
    pub async fn position(&self, ticket: &Ticket, now: Timestamp) -> Result<Option<u64>, StorageError> {
        use lock_waiter::Column::{LeaseId, Place};
        let is_there = in_line(&ticket.key, now).filter(LeaseId.eq(ticket.lease_id)).count(self.reads());
        if in_time(is_there).await? == 0 {
            return Ok(None);
        }
        let before = in_line(&ticket.key, now).filter(Place.lte(ticket.place));
        Ok(Some(in_time(before.count(self.reads())).await?))
    }

    /// The place in line of a session, if it stands there.
    pub async fn position_of(
        &self,
        key: &DocumentKey,
        owner: &OwnerId,
        session: &SessionId,
        now: Timestamp,
    ) -> Result<Option<u64>, StorageError> {
        use lock_waiter::Column::{OwnerId, Place, SessionId};
        let own = in_line(key, now).filter(OwnerId.eq(owner.as_str())).filter(SessionId.eq(session.as_str()));
        let Some(own) = in_time(own.one(self.reads())).await? else { return Ok(None) };
        let before = in_line(key, now).filter(Place.lte(own.place));
        Ok(Some(in_time(before.count(self.reads())).await?))
    }

    /// Those who wait for a document, first to be served first.
    pub async fn waiters(&self, key: &DocumentKey, now: Timestamp, limit: u64) -> Result<Vec<Waiter>, StorageError> {
        let tickets = in_line(key, now).order_by_asc(lock_waiter::Column::Place).limit(limit);
        let rows = in_time(tickets.all(self.reads())).await?;
        let waiter = |row: lock_waiter::Model| Waiter {
            holder: Holder {
                owner: OwnerId::from_stored(row.owner_id),
                session: row.session_id.map(SessionId::from_stored),
                name: row.name.map(Into::into),
                kind: HolderKind::from_stored(row.kind.as_deref()),
            },
            joined_at: Timestamp::from_millis(row.joined_at),
        };
        Ok(rows.into_iter().map(waiter).collect())
    }

    /// Of all tenants, or of some rooms of one.
    pub async fn waiting_now(
        &self,
        of: Option<(&TenantId, &RoomGlobs)>,
        now: Timestamp,
    ) -> Result<WaitingNow, StorageError> {
        use lock_waiter::Column::{ExpiresAt, JoinedAt, Tenant};
        let mut tickets = lock_waiter::Entity::find().filter(ExpiresAt.gt(now.millis()));
        if let Some((tenant, rooms)) = of {
            let in_rooms = in_rooms(rooms, lock_waiter::Column::Room, self.dialect());
            tickets = tickets.filter(Tenant.eq(tenant.as_str())).filter(in_rooms);
        }
        let count = in_time(tickets.clone().count(self.reads())).await?;
        let oldest = tickets.order_by_asc(JoinedAt).limit(1).select_only().column(JoinedAt).into_tuple::<i64>();
        let oldest = in_time(oldest.one(self.reads())).await?.map(Timestamp::from_millis);
        Ok(WaitingNow { count, oldest })
    }

    pub async fn is_any_ticket_dead(&self, now: Timestamp) -> Result<bool, StorageError> {
        use lock_waiter::Column::{ExpiresAt, Place};
        let dead = lock_waiter::Entity::find().filter(ExpiresAt.lte(now.millis())).limit(1).select_only().column(Place);
        Ok(in_time(dead.into_tuple::<i64>().one(self.reads())).await?.is_some())
    }

    pub async fn documents_with_due_asks(&self, now: Timestamp, limit: u64) -> Result<Vec<DocumentKey>, StorageError> {
        use lock_handover::Column::{Document, ExpiresAt, Outcome, Room, Tenant};
        let due = lock_handover::Entity::find()
            .filter(Outcome.is_null())
            .filter(ExpiresAt.lte(now.millis()))
            .limit(limit)
            .select_only()
            .columns([Tenant, Room, Document]);
        let rows: Vec<(String, String, String)> = in_time(due.into_tuple().all(self.reads())).await?;
        let mut keys: Vec<_> = rows.iter().map(|(tenant, room, document)| key(tenant, room, document)).collect();
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    pub async fn ask(&self, key: &DocumentKey, id: Uuid) -> Result<Option<Ask>, StorageError> {
        let row = in_time(lock_handover::Entity::find_by_id(id).one(self.reads())).await?;
        Ok(row.map(ask).filter(|ask| ask.key == *key))
    }

    /// Open asks for the locks of one holder in a room; for those of all holders if none is given.
    pub async fn open_asks(
        &self,
        tenant: &TenantId,
        room: &RoomId,
        holder: Option<&OwnerId>,
        limit: u64,
    ) -> Result<Vec<Ask>, StorageError> {
        use lock_handover::Column::{AskedAt, HolderId, Outcome, Room, Tenant};
        let mut open = lock_handover::Entity::find()
            .filter(Tenant.eq(tenant.as_str()))
            .filter(Room.eq(room.as_str()))
            .filter(Outcome.is_null());
        if let Some(holder) = holder {
            open = open.filter(HolderId.eq(holder.as_str()));
        }
        let rows = in_time(open.order_by_asc(AskedAt).limit(limit).all(self.reads())).await?;
        Ok(rows.into_iter().map(ask).collect())
    }

    /// How many asks since then had each outcome; `open` for those that have none yet.
    pub async fn asks_by_outcome(
        &self,
        tenant: &TenantId,
        rooms: &RoomGlobs,
        since: Timestamp,
    ) -> Result<Vec<(Option<AskOutcome>, u64)>, StorageError> {
        use lock_handover::Column::{AskedAt, Outcome, Tenant};
        let counted = lock_handover::Entity::find()
            .filter(Tenant.eq(tenant.as_str()))
            .filter(AskedAt.gte(since.millis()))
            .filter(in_rooms(rooms, lock_handover::Column::Room, self.dialect()))
            .select_only()
            .column(Outcome)
            .column_as(AskedAt.count(), "asks")
            .group_by(Outcome);
        let rows: Vec<(Option<String>, i64)> = in_time(counted.into_tuple().all(self.reads())).await?;
        let outcome = |(name, count): (Option<String>, i64)| {
            (name.as_deref().and_then(AskOutcome::from_name), u64::try_from(count).unwrap_or_default())
        };
        Ok(rows.into_iter().map(outcome).collect())
    }
}

fn in_line(key: &DocumentKey, now: Timestamp) -> sea_orm::Select<lock_waiter::Entity> {
    use lock_waiter::Column::{Document, ExpiresAt, Room, Tenant};
    lock_waiter::Entity::find()
        .filter(Tenant.eq(key.tenant.as_str()))
        .filter(Room.eq(key.room.as_str()))
        .filter(Document.eq(key.document.as_str()))
        .filter(ExpiresAt.gt(now.millis()))
}

fn ask(row: lock_handover::Model) -> Ask {
    Ask {
        id: row.handover_id,
        key: key(&row.tenant, &row.room, &row.document),
        lease_id: row.lease_id,
        holder: OwnerId::from_stored(row.holder_id),
        asker: Holder {
            owner: OwnerId::from_stored(row.owner_id),
            session: row.session_id.map(SessionId::from_stored),
            name: row.name.map(Into::into),
            kind: HolderKind::from_stored(row.kind.as_deref()),
        },
        message: row.message.map(Into::into),
        asked_at: Timestamp::from_millis(row.asked_at),
        expires_at: Timestamp::from_millis(row.expires_at),
        outcome: row.outcome.as_deref().and_then(AskOutcome::from_name),
        answer: row.answer.map(Into::into),
    }
}
