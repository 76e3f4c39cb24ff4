//! Shows one document: its locks, its line, open asks and the last events.

use serde::Serialize;
use utoipa::ToSchema;

use super::events::EventView;
use crate::{
    auth::{Role, RoomGlobs},
    calls::{
        Call, DocumentName, Problem,
        view::{HandoverView, HolderView, LockView, Timed},
    },
    locking::Timestamp,
    storage::queries::{EventFilter, Order},
};

/// How many of those in line, and of the last events, are shown.
const SHOWN: u64 = 100;
const LAST_EVENTS: u64 = 50;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AdminDocument)]
pub struct DocumentDetail {
    /// Oldest first.
    locks: Vec<LockView>,
    last_token: i64,
    /// How many wait; the first hundred are in `line`.
    waiting: u64,
    line: Vec<WaiterView>,
    handovers: Vec<HandoverView>,
    /// Newest first.
    events: Vec<EventView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Waiter)]
pub struct WaiterView {
    holder: HolderView,
    joined_at: Timestamp,
    #[schema(minimum = 0)]
    waited_ms: i64,
}

pub async fn run(call: &Call, name: DocumentName) -> Result<Timed<DocumentDetail>, Problem> {
    let key = call.key(Role::Admin, name)?;
    let (queries, caller, now) = (&call.calls.queries, &call.caller, call.now());
    let document = queries.document(&key, &call.judged_at()).await?;
    let line = queries.waiters(&key, now, SHOWN).await?;
    let asks = queries.open_asks(&key.tenant, &key.room, None, SHOWN).await?;
    let filter = EventFilter {
        room: Some(key.room.clone()),
        document: Some(key.document.clone()),
        order: Order::NewestFirst,
        ..EventFilter::default()
    };
    let events = queries.events(&key.tenant, &RoomGlobs::all(), &filter, LAST_EVENTS).await?;
    let waiter = |waiter: &crate::storage::lines::Waiter| WaiterView {
        holder: HolderView::shown(&waiter.holder, true),
        joined_at: waiter.joined_at,
        waited_ms: now.millis_since(waiter.joined_at).max(0),
    };
    Ok(call.timed(DocumentDetail {
        locks: document.locks.iter().map(|lock| LockView::new(lock, caller, now)).collect(),
        last_token: document.last_token,
        waiting: document.waiting,
        line: line.iter().map(waiter).collect(),
        handovers: asks.iter().filter(|ask| ask.key == key).map(|ask| HandoverView::new(ask, caller, now)).collect(),
        events: events.events.into_iter().map(EventView::from).collect(),
    }))
}
