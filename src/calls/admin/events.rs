//! Lists the audit trail, which is the event log.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    auth::Role,
    calls::{Call, PageLimit, Problem, fields::number_text, view::Timed},
    locking::{
        EventName, Metadata, Timestamp,
        names::{DocumentId, OwnerId, RoomId},
    },
    storage::{
        event_log::Logged,
        queries::{EventFilter, Order},
    },
};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventParams {
    /// The last sequence known: events after it.
    #[serde(default, deserialize_with = "number_text")]
    #[param(nullable = false, minimum = 0)]
    after: Option<i64>,
    /// The first sequence known: events before it.
    #[serde(default, deserialize_with = "number_text")]
    #[param(nullable = false, minimum = 0)]
    before: Option<i64>,
    /// Events at this time or later, RFC 3339.
    #[param(nullable = false, format = DateTime)]
    since: Option<String>,
    /// Events before this time.
    #[param(nullable = false, format = DateTime)]
    until: Option<String>,
    /// Oldest first unless `desc`.
    #[param(nullable = false)]
    order: Option<OrderName>,
    #[param(nullable = false)]
    room: Option<RoomId>,
    #[param(nullable = false)]
    document: Option<DocumentId>,
    #[param(nullable = false)]
    owner: Option<OwnerId>,
    #[serde(rename = "type")]
    #[param(nullable = false)]
    kind: Option<EventName>,
    /// 100 unless given.
    #[serde(default, deserialize_with = "number_text")]
    #[param(nullable = false, minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Order)]
pub enum OrderName {
    Asc,
    Desc,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct EventPageView {
    /// Names the log: sequences of different epochs have nothing to do with each other.
    epoch: Uuid,
    items: Vec<EventView>,
    /// `after` of the next page; null on the last, and newest first.
    #[schema(required)]
    next_after: Option<i64>,
    /// `before` of the next page, newest first; null on the last.
    #[schema(required)]
    next_before: Option<i64>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub struct EventView {
    sequence: i64,
    r#type: EventName,
    at: Timestamp,
    room: String,
    document: String,
    #[schema(required)]
    lease_id: Option<Uuid>,
    fencing_token: i64,
    owner_id: String,
    #[schema(required)]
    session_id: Option<String>,
    #[schema(required)]
    name: Option<String>,
    acquired_at: Timestamp,
    #[schema(required)]
    metadata: Option<Metadata>,
    #[schema(required)]
    document_version: Option<String>,
    /// Of an end: `released`, `expired`, `taken_over`, `revoked` or `handed_over`.
    #[schema(required)]
    reason: Option<String>,
    /// Who ended it.
    #[schema(required)]
    by: Option<String>,
    /// The reason an admin gave.
    #[schema(required)]
    note: Option<String>,
    /// How long it was held.
    #[schema(required)]
    held_ms: Option<i64>,
    /// How long its holder stood in line for it.
    #[schema(required)]
    waited_ms: Option<i64>,
    /// Of an ask: its id, and how it ended.
    #[schema(required)]
    handover_id: Option<Uuid>,
    #[schema(required)]
    outcome: Option<String>,
}

impl From<Logged> for EventView {
    fn from(event: Logged) -> Self {
        Self {
            sequence: event.sequence,
            r#type: event.name,
            at: event.at,
            room: event.room,
            document: event.document,
            lease_id: event.lease_id,
            fencing_token: event.fencing_token,
            owner_id: event.owner_id,
            session_id: event.session_id,
            name: event.body.name,
            acquired_at: Timestamp::from_millis(event.body.acquired_at),
            metadata: event.body.metadata,
            document_version: event.body.document_version,
            reason: event.reason.map(|reason| reason.name().to_owned()),
            by: event.by,
            note: event.note,
            held_ms: event.held_ms,
            waited_ms: event.waited_ms,
            handover_id: event.body.ask.as_ref().map(|ask| ask.id),
            outcome: event.body.ask.and_then(|ask| ask.outcome),
        }
    }
}

pub async fn run(call: &Call, params: EventParams) -> Result<Timed<EventPageView>, Problem> {
    call.caller.require(Role::Admin)?;
    let after = params.after.unwrap_or_default();
    if after < 0 {
        return Err(Problem::invalid("after", "must not be negative"));
    }
    let order = match params.order {
        Some(OrderName::Desc) => Order::NewestFirst,
        Some(OrderName::Asc) | None => Order::OldestFirst,
    };
    let filter = EventFilter {
        after,
        before: params.before,
        since: params.since.as_deref().map(|text| time("since", text)).transpose()?,
        until: params.until.as_deref().map(|text| time("until", text)).transpose()?,
        order,
        room: params.room,
        document: params.document,
        owner: params.owner,
        name: params.kind,
    };
    let limit = PageLimit::parse(params.limit)?.items();
    let page = call.calls.queries.events(&call.caller.tenant, &call.caller.rooms, &filter, limit).await?;
    let next = page.events.last().filter(|_| page.has_more).map(|event| event.sequence);
    let (next_after, next_before) = match order {
        Order::OldestFirst => (next, None),
        Order::NewestFirst => (None, next),
    };
    let items = page.events.into_iter().map(EventView::from).collect();
    Ok(call.timed(EventPageView { epoch: page.epoch, items, next_after, next_before }))
}

fn time(field: &str, text: &str) -> Result<Timestamp, Problem> {
    let time = chrono::DateTime::parse_from_rfc3339(text);
    let time = time.map_err(|_| Problem::invalid(field, "must be a time such as 2027-01-15T08:00:00Z"))?;
    Ok(Timestamp::from_millis(time.timestamp_millis()))
}
