//! Says how busy a tenant is, and where.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    auth::Role,
    calls::{Call, Problem, view::Timed},
    contention::Tenant,
    locking::{
        AskOutcome, EndReason, Timestamp,
        names::{DocumentId, RoomId},
    },
    storage::{
        queries::LockFilter,
        stats::{Spread, Stats},
    },
};

const WINDOW_SECONDS: u32 = 3600;

#[derive(Debug, Serialize, ToSchema)]
pub struct StatsView {
    /// Live locks now.
    locks: u64,
    /// The last hour, from the event log.
    window_seconds: u32,
    grants: i64,
    grants_per_minute: f64,
    ends: Ends,
    /// How long locks that ended had been held.
    hold_ms: SpreadView,
    /// How long those who waited in line had to wait.
    wait_ms: SpreadView,
    /// Those in waiting lines now.
    waiting: WaitingView,
    /// Asks of the last hour by how they ended; `open` for those that have not.
    handovers: BTreeMap<&'static str, u64>,
    /// Commands refused by a rule, by code. Counted by this server since it started.
    refusals: BTreeMap<&'static str, u64>,
    contention: ContentionView,
    /// Documents locked most often.
    hottest: Vec<Hot>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Waiting)]
pub struct WaitingView {
    count: u64,
    /// How long the one has waited that waits longest; null if nobody waits.
    #[schema(required)]
    oldest_ms: Option<i64>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Ends {
    released: i64,
    expired: i64,
    taken_over: i64,
    revoked: i64,
    handed_over: i64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Spread)]
pub struct SpreadView {
    count: i64,
    #[schema(required)]
    p50: Option<i64>,
    #[schema(required)]
    p95: Option<i64>,
    #[schema(required)]
    max: Option<i64>,
}

/// Counted by this server since it started.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Contention)]
pub struct ContentionView {
    since: Timestamp,
    /// Locks refused because someone had the document.
    refused: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HotDocument)]
pub struct Hot {
    room: RoomId,
    document: DocumentId,
    grants: i64,
    /// Of this server since it started.
    refused: u64,
}

/// What is known beside the log.
struct Now {
    locks: u64,
    waiting: WaitingView,
    handovers: BTreeMap<&'static str, u64>,
}

impl StatsView {
    fn new(stats: Stats, contention: &Tenant, now: Now, since: Timestamp) -> Self {
        let mut ends = Ends::default();
        for (reason, count) in stats.ends {
            match EndReason::from_name(&reason) {
                Some(EndReason::Released) => ends.released = count,
                Some(EndReason::Expired) => ends.expired = count,
                Some(EndReason::TakenOver) => ends.taken_over = count,
                Some(EndReason::Revoked) => ends.revoked = count,
                Some(EndReason::HandedOver) => ends.handed_over = count,
                None => {}
            }
        }
        let hottest = stats.hottest.into_iter().map(|(room, document, grants)| {
            let name = (RoomId::from_stored(room), DocumentId::from_stored(document));
            let refused = contention.documents.get(&name).copied().unwrap_or_default();
            Hot { room: name.0, document: name.1, grants, refused }
        });
        #[expect(clippy::cast_precision_loss, reason = "a rate for people to read")]
        let grants_per_minute = stats.grants as f64 * 60.0 / f64::from(WINDOW_SECONDS);
        let Now { locks, waiting, handovers } = now;
        Self {
            locks,
            waiting,
            handovers,
            refusals: contention.codes.clone(),
            window_seconds: WINDOW_SECONDS,
            grants: stats.grants,
            grants_per_minute,
            ends,
            hold_ms: stats.held_ms.into(),
            wait_ms: stats.waited_ms.into(),
            contention: ContentionView { since, refused: contention.refused },
            hottest: hottest.collect(),
        }
    }
}

impl From<Spread> for SpreadView {
    fn from(Spread { count, p50, p95, max }: Spread) -> Self {
        Self { count, p50, p95, max }
    }
}

pub async fn run(call: &Call) -> Result<Timed<StatsView>, Problem> {
    call.caller.require(Role::Admin)?;
    let (tenant, rooms, queries) = (&call.caller.tenant, &call.caller.rooms, &call.calls.queries);
    let window = call.now().plus_millis(-i64::from(WINDOW_SECONDS) * 1000);
    let stats = queries.stats(tenant, rooms, window).await?;
    let waiting = queries.waiting_now(Some((tenant, rooms)), call.now()).await?;
    let asks = queries.asks_by_outcome(tenant, rooms, window).await?;
    let now = Now {
        locks: queries.count_locks(tenant, rooms, &LockFilter::default(), &call.judged_at()).await?,
        waiting: WaitingView {
            count: waiting.count,
            oldest_ms: waiting.oldest.map(|oldest| call.now().millis_since(oldest)),
        },
        handovers: asks.into_iter().map(|(outcome, count)| (outcome.map_or("open", AskOutcome::name), count)).collect(),
    };
    Ok(call.timed(StatsView::new(stats, &call.calls.contention.of(tenant, rooms), now, call.calls.started_at)))
}
