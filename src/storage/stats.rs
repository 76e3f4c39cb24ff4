//! Figures for admins, from the log of the last hour.

use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait, Order},
};

use super::{
    Queries, StorageError,
    entities::{event, log_head},
    queries::in_rooms,
};
use crate::{
    auth::RoomGlobs,
    locking::{EventName, Timestamp, names::TenantId},
};

const HOTTEST: u64 = 10;

#[derive(Debug)]
pub struct Stats {
    pub grants: i64,
    /// Ends by reason.
    pub ends: Vec<(String, i64)>,
    pub held_ms: Spread,
    pub waited_ms: Spread,
    /// Room, document and how often it was locked; most often first.
    pub hottest: Vec<(String, String, i64)>,
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Spread {
    pub count: i64,
    pub p50: Option<i64>,
    pub p95: Option<i64>,
    pub max: Option<i64>,
}

impl Queries {
    pub async fn stats(&self, tenant: &TenantId, rooms: &RoomGlobs, since: Timestamp) -> Result<Stats, StorageError> {
        use event::Column::{Document, HeldMs, Kind, Reason, Room, Sequence, Tenant, WaitedMs};
        let snapshot = self.snapshot().await?;
        let first = first_since(&snapshot, since).await?;
        let events = event::Entity::find()
            .filter(Sequence.gte(first))
            .filter(Tenant.eq(tenant.as_str()))
            .filter(in_rooms(rooms, Room, self.dialect()));
        let grants = events.clone().filter(Kind.eq(EventName::DocumentLocked.as_str()));
        let ends = events.clone().filter(Reason.is_not_null());
        let count = || Expr::col(Sequence).count();

        let ends = ends.select_only().column(Reason).expr(count()).group_by(Reason).into_tuple().all(&snapshot).await?;
        let hottest = grants
            .clone()
            .select_only()
            .columns([Room, Document])
            .expr(count())
            .group_by(Room)
            .group_by(Document)
            .order_by(count(), Order::Desc)
            .order_by_asc(Room)
            .order_by_asc(Document)
            .limit(HOTTEST)
            .into_tuple()
            .all(&snapshot)
            .await?;
        let grants = grants.select_only().expr(count()).into_tuple().one(&snapshot).await?.unwrap_or_default();
        Ok(Stats {
            grants,
            ends,
            held_ms: spread(&snapshot, events.clone(), HeldMs).await?,
            waited_ms: spread(&snapshot, events, WaitedMs).await?,
            hottest,
        })
    }
}

/// Returns the sequence of the first event at or after a time. The log is gap-free and its times never fall, so it is
/// found by halving.
async fn first_since(snapshot: &impl ConnectionTrait, since: Timestamp) -> Result<i64, StorageError> {
    let head = log_head::Entity::find().one(snapshot).await?.map_or(0, |head| head.sequence);
    let (mut low, mut high) = (1, head + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        // An event that has been pruned is older than any time asked for.
        let at = event::Entity::find_by_id(middle).one(snapshot).await?.map_or(i64::MIN, |event| event.at);
        if at < since.millis() {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

async fn spread(
    snapshot: &impl ConnectionTrait,
    events: sea_orm::Select<event::Entity>,
    column: event::Column,
) -> Result<Spread, StorageError> {
    let values = events.filter(column.is_not_null()).select_only();
    let count: i64 =
        values.clone().expr(Expr::col(column).count()).into_tuple().one(snapshot).await?.unwrap_or_default();
    if count == 0 {
        return Ok(Spread::default());
    }
    let values = values.column(column).order_by_asc(column);
    let at = async |rank: i64| -> Result<Option<i64>, StorageError> {
        let offset = u64::try_from(rank).unwrap_or_default();
        Ok(values.clone().offset(offset).limit(1).into_tuple().one(snapshot).await?)
    };
    Ok(Spread {
        count,
        p50: at((count - 1) / 2).await?,
        p95: at((count - 1) * 95 / 100).await?,
        max: at(count - 1).await?,
    })
}
