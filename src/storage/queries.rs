//! Everything that is read outside a batch. What a caller is told is of its own tenant, and of one moment: several
//! statements share a transaction.

use std::time::Duration;

use sea_orm::{
    AccessMode, ColumnTrait, Condition, DatabaseConnection, DatabaseTransaction, DbErr, EntityTrait, IsolationLevel,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, TransactionTrait,
    sea_query::{BinOper, Expr, ExprTrait},
};
use uuid::Uuid;

use super::{
    StorageError,
    entities::{document, document_lock, event, lock_waiter, log_head},
    event_log::Logged,
};
use crate::{
    auth::RoomGlobs,
    locking::{
        Activity, DocumentKey, EventName, Holder, HolderKind, Lock, Metadata, Span, Timestamp,
        names::{DocumentId, DocumentVersion, OwnerId, RoomId, SessionId, TenantId},
    },
    time::liveness::{Judged, Outages},
};

#[derive(Debug, Clone)]
pub struct Queries {
    reads: DatabaseConnection,
    dialect: Dialect,
}

/// Which database a query is for, where the two differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// A document as anyone may see it.
#[derive(Debug)]
pub struct DocumentRead {
    /// Live ones, oldest first.
    pub locks: Vec<Lock>,
    pub last_token: i64,
    pub waiting: u64,
}

/// Selects locks of a tenant.
#[derive(Debug, Clone, Default)]
pub struct LockFilter {
    pub room: Option<RoomId>,
    pub owner: Option<OwnerId>,
    pub document: Option<DocumentId>,
}

/// The position of the last lock of a page. The next page starts after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockCursor {
    pub room: String,
    pub document: String,
    pub slot: i32,
}

#[derive(Debug)]
pub struct LockPage {
    pub locks: Vec<Lock>,
    pub next: Option<LockCursor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    #[default]
    OldestFirst,
    NewestFirst,
}

#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Sequences greater than this.
    pub after: i64,
    /// Sequences less than this.
    pub before: Option<i64>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub order: Order,
    pub room: Option<RoomId>,
    pub document: Option<DocumentId>,
    pub owner: Option<OwnerId>,
    pub name: Option<EventName>,
}

#[derive(Debug)]
pub struct EventPage {
    pub epoch: Uuid,
    pub events: Vec<Logged>,
    pub has_more: bool,
}

/// How long one statement may take. The database's own timeouts are shorter.
const PATIENCE: Duration = Duration::from_secs(6);

impl Queries {
    pub fn new(reads: DatabaseConnection, dialect: Dialect) -> Self {
        Self { reads, dialect }
    }

    pub async fn document(&self, key: &DocumentKey, judged: &Judged) -> Result<DocumentRead, StorageError> {
        let snapshot = self.snapshot().await?;
        let DocumentKey { tenant, room, document } = key;
        let name = (tenant.to_string(), room.to_string(), document.to_string());
        let row = in_time(document::Entity::find_by_id(name).one(&snapshot)).await?;
        let Some(row) = row else {
            return Ok(DocumentRead { locks: Vec::new(), last_token: 0, waiting: 0 });
        };
        let locks = in_time(
            document_lock::Entity::find()
                .filter(document_lock::Column::Document.eq(document.as_str()))
                .filter(live(tenant, judged).add(document_lock::Column::Room.eq(room.as_str())))
                .order_by_asc(document_lock::Column::FencingToken)
                .all(&snapshot),
        )
        .await?;
        let waiting = in_time(
            lock_waiter::Entity::find()
                .filter(lock_waiter::Column::Tenant.eq(tenant.as_str()))
                .filter(lock_waiter::Column::Room.eq(room.as_str()))
                .filter(lock_waiter::Column::Document.eq(document.as_str()))
                .filter(lock_waiter::Column::ExpiresAt.gt(judged.at.millis()))
                .count(&snapshot),
        )
        .await?;
        let locks = locks.into_iter().map(|row| lock(row, &judged.outages)).collect();
        Ok(DocumentRead { locks, last_token: row.fencing_token, waiting })
    }

    /// Returns a page of live locks, ordered by room, document and slot.
    pub async fn locks(
        &self,
        tenant: &TenantId,
        rooms: &RoomGlobs,
        filter: &LockFilter,
        after: Option<&LockCursor>,
        limit: u64,
        judged: &Judged,
    ) -> Result<LockPage, StorageError> {
        use document_lock::Column::{Document, Room, Slot};
        let mut query = document_lock::Entity::find().filter(matching(tenant, rooms, filter, judged, self.dialect));
        if let Some(LockCursor { room, document, slot }) = after {
            let position = Expr::tuple([Expr::col(Room), Expr::col(Document), Expr::col(Slot)]);
            query = query.filter(position.gt(Expr::tuple([
                Expr::val(room.as_str()),
                Expr::val(document.as_str()),
                Expr::val(*slot),
            ])));
        }
        let mut rows = in_time(
            query.order_by_asc(Room).order_by_asc(Document).order_by_asc(Slot).limit(limit + 1).all(&self.reads),
        )
        .await?;
        let has_more = rows.len() as u64 > limit;
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let next = rows.last().filter(|_| has_more).map(|row| LockCursor {
            room: row.room.clone(),
            document: row.document.clone(),
            slot: row.slot,
        });
        Ok(LockPage { locks: rows.into_iter().map(|row| lock(row, &judged.outages)).collect(), next })
    }

    pub async fn count_locks(
        &self,
        tenant: &TenantId,
        rooms: &RoomGlobs,
        filter: &LockFilter,
        judged: &Judged,
    ) -> Result<u64, StorageError> {
        Ok(in_time(
            document_lock::Entity::find()
                .filter(matching(tenant, rooms, filter, judged, self.dialect))
                .count(&self.reads),
        )
        .await?)
    }

    /// Counts the locks of all tenants, for the server's own metrics. Overdue ones that are not ended yet count too.
    pub async fn count_all_locks(&self) -> Result<u64, StorageError> {
        Ok(in_time(document_lock::Entity::find().count(&self.reads)).await?)
    }

    pub async fn lock_by_lease(
        &self,
        tenant: &TenantId,
        lease_id: Uuid,
        judged: &Judged,
    ) -> Result<Option<Lock>, StorageError> {
        let row = in_time(
            document_lock::Entity::find()
                .filter(live(tenant, judged).add(document_lock::Column::LeaseId.eq(lease_id)))
                .one(&self.reads),
        )
        .await?;
        Ok(row.map(|row| lock(row, &judged.outages)))
    }

    /// Returns whether there is a lock that expiry has to look at.
    pub async fn is_any_due(&self, now: Timestamp) -> Result<bool, StorageError> {
        use document_lock::Column::{DueAt, Slot};
        let due = document_lock::Entity::find().select_only().column(Slot).filter(DueAt.lte(now.millis())).limit(1);
        Ok(in_time(due.into_tuple::<i32>().one(&self.reads)).await?.is_some())
    }

    pub async fn events(
        &self,
        tenant: &TenantId,
        rooms: &RoomGlobs,
        filter: &EventFilter,
        limit: u64,
    ) -> Result<EventPage, StorageError> {
        let snapshot = self.snapshot().await?;
        let mut condition = Condition::all()
            .add(event::Column::Tenant.eq(tenant.as_str()))
            .add(event::Column::Sequence.gt(filter.after))
            .add(in_rooms(rooms, event::Column::Room, self.dialect));
        if let Some(room) = &filter.room {
            condition = condition.add(event::Column::Room.eq(room.as_str()));
        }
        if let Some(document) = &filter.document {
            condition = condition.add(event::Column::Document.eq(document.as_str()));
        }
        if let Some(before) = filter.before {
            condition = condition.add(event::Column::Sequence.lt(before));
        }
        if let Some(since) = filter.since {
            condition = condition.add(event::Column::At.gte(since.millis()));
        }
        if let Some(until) = filter.until {
            condition = condition.add(event::Column::At.lt(until.millis()));
        }
        if let Some(owner) = &filter.owner {
            condition = condition.add(event::Column::OwnerId.eq(owner.as_str()));
        }
        if let Some(name) = filter.name {
            condition = condition.add(event::Column::Kind.eq(name.as_str()));
        }
        let order = match filter.order {
            Order::OldestFirst => sea_orm::Order::Asc,
            Order::NewestFirst => sea_orm::Order::Desc,
        };
        let mut rows = in_time(
            event::Entity::find()
                .filter(condition)
                .order_by(event::Column::Sequence, order)
                .limit(limit + 1)
                .all(&snapshot),
        )
        .await?;
        let has_more = rows.len() as u64 > limit;
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let head = in_time(log_head::Entity::find().one(&snapshot)).await?;
        let events = rows.into_iter().map(Logged::try_from).collect::<Result<_, _>>()?;
        Ok(EventPage { epoch: head.map(|head| head.epoch).unwrap_or_default(), events, has_more })
    }

    pub(super) fn reads(&self) -> &DatabaseConnection {
        &self.reads
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Begins a transaction that sees one moment. A task of its own does it, and finishes even if the caller is
    /// cancelled: a connection that went back into the pool in the middle of a BEGIN would fail its next user. Once
    /// begun, a transaction that is dropped is rolled back.
    pub(super) async fn snapshot(&self) -> Result<DatabaseTransaction, DbErr> {
        let Self { reads, dialect } = self.clone();
        let begun = tokio::spawn(async move {
            match dialect {
                // SQLite has no isolation levels to choose from: each of its transactions sees one moment.
                Dialect::Sqlite => reads.begin().await,
                Dialect::Postgres => {
                    reads.begin_with_config(Some(IsolationLevel::RepeatableRead), Some(AccessMode::ReadOnly)).await
                }
            }
        });
        in_time(async { begun.await.unwrap_or_else(|error| Err(DbErr::Custom(error.to_string()))) }).await
    }
}

/// Fails if the read takes too long: a database that hangs without closing its connections must not block those who
/// read, expiry among them.
pub(super) async fn in_time<T>(read: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(answer) => answer,
        Err(_) => Err(DbErr::Custom("the database does not answer".to_owned())),
    }
}

/// Selects the live locks of a tenant, by their rows and by the outages that the rows may not take into account yet.
fn live(tenant: &TenantId, judged: &Judged) -> Condition {
    use document_lock::Column::{ClaimMs, ExpiresAt, LingerMs, Tenant, TtlSeconds};
    // The same as `Lock::span_ms`. It fits into 32 bits: the longest ttl is a day, 86,400,000 ms.
    let span = || Expr::col(LingerMs).if_null(Expr::col(ClaimMs).if_null(Expr::col(TtlSeconds).mul(1000)));
    let written = || Expr::col(ExpiresAt).sub(span());
    let rows = judged.outages.live_rows(judged.at).into_iter().map(|rows| {
        let mut fits = Condition::all().add(ExpiresAt.gt(rows.expires_after.millis()));
        if let Some(from) = rows.written_from {
            fits = fits.add(written().gte(from.millis()));
        }
        if let Some(before) = rows.written_before {
            fits = fits.add(written().lt(before.millis())).add(span().gt(rows.span_over_ms));
        }
        fits
    });
    Condition::all().add(Tenant.eq(tenant.as_str())).add(rows.fold(Condition::any(), Condition::add))
}

fn matching(tenant: &TenantId, rooms: &RoomGlobs, filter: &LockFilter, judged: &Judged, dialect: Dialect) -> Condition {
    let mut condition = live(tenant, judged).add(in_rooms(rooms, document_lock::Column::Room, dialect));
    if let Some(room) = &filter.room {
        condition = condition.add(document_lock::Column::Room.eq(room.as_str()));
    }
    if let Some(owner) = &filter.owner {
        condition = condition.add(document_lock::Column::OwnerId.eq(owner.as_str()));
    }
    if let Some(document) = &filter.document {
        condition = condition.add(document_lock::Column::Document.eq(document.as_str()));
    }
    condition
}

/// Selects the rooms that the patterns allow. The wildcards `*` and `?` become those of the database; characters that
/// are wildcards only to the database are escaped.
pub(super) fn in_rooms(rooms: &RoomGlobs, room: impl ColumnTrait, dialect: Dialect) -> Condition {
    let Some(globs) = rooms.patterns() else { return Condition::all() };
    globs.iter().fold(Condition::any().add(Expr::val(1).eq(0)), |any, glob| {
        let room = Expr::col(room.as_column_ref());
        any.add(match dialect {
            Dialect::Sqlite => room.binary(BinOper::Custom("GLOB"), Expr::val(glob.replace('[', "[[]"))),
            Dialect::Postgres => room.like(
                glob.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_").replace('*', "%").replace('?', "_"),
            ),
        })
    })
}

pub(super) fn key(tenant: &str, room: &str, document: &str) -> DocumentKey {
    DocumentKey {
        tenant: TenantId::from_stored(tenant),
        room: RoomId::from_stored(room),
        document: DocumentId::from_stored(document),
    }
}

fn unsigned(number: i32) -> u32 {
    number.try_into().unwrap_or_default()
}

/// Returns the lock of a row, with its real end.
pub(super) fn lock(row: document_lock::Model, outages: &Outages) -> Lock {
    let mut lock = Lock {
        key: key(&row.tenant, &row.room, &row.document),
        slot: row.slot.try_into().unwrap_or_default(),
        lease_id: row.lease_id,
        hold: row.hold.try_into().unwrap_or(u32::MAX),
        fencing_token: row.fencing_token,
        holder: Holder {
            owner: OwnerId::from_stored(row.owner_id),
            session: row.session_id.map(SessionId::from_stored),
            name: row.name.map(Into::into),
            kind: HolderKind::from_stored(row.kind.as_deref()),
        },
        acquired_at: Timestamp::from_millis(row.acquired_at),
        expires_at: Timestamp::from_millis(row.expires_at),
        due_at: Timestamp::from_millis(row.due_at),
        ttl_seconds: row.ttl_seconds.try_into().unwrap_or_default(),
        metadata: row.metadata.and_then(Metadata::from_stored),
        document_version: row.document_version.map(DocumentVersion::from_stored),
        span: Span::from_stored(row.linger_ms.map(unsigned), row.claim_ms.map(unsigned)),
        activity: Activity::from_stored(row.activity.as_deref()),
        active_at: Timestamp::from_millis(row.active_at.unwrap_or(row.acquired_at)),
        is_wanted: row.is_wanted,
        // Only decisions need them, and batches load their locks themselves.
        extend_ids: Vec::new(),
    };
    lock.expires_at = outages.end_of(lock.expires_at, lock.span_ms());
    lock
}
