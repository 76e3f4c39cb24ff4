//! Locks a document, at once or when it is its turn.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    Call, Capacity, DocumentName, Keep, Problem, Ttl, WaitTime, metadata,
    request_id::not_compared,
    view::{DoneView, Timed},
    wait::{Receipt, wait_for},
};
use crate::{
    auth::{Caller, Role},
    locking::{
        Command, Lock, LockDocuments, TakeOver, Wanted,
        names::{DocumentVersion, RequestId, SessionId},
    },
};

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"ttl_seconds": 30, "session_id": "tab-1"}))]
pub struct LockRequest {
    /// How long it lives past its last heartbeat. 30 unless given; at most what `locks.max_ttl_seconds` allows.
    #[schema(minimum = 1, maximum = 86400)]
    ttl_seconds: Option<u32>,
    /// The tab or process: the same session gets the same lock again.
    session_id: Option<SessionId>,
    /// Sent again, the request acts no second time. Also as header `Idempotency-Key`.
    #[serde(skip_serializing_if = "not_compared")]
    request_id: Option<RequestId>,
    /// Take the lock from whoever has it: one's own always, others' with the permission.
    takeover: Option<bool>,
    /// With `takeover`: only from the holder of this token.
    expected_token: Option<i64>,
    /// How many may hold the document at once. 1 unless given.
    #[schema(minimum = 1, maximum = 1000)]
    capacity: Option<u32>,
    /// Shown to others. At most 2 KiB.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The version the editor starts from, if no holder has left one yet.
    document_version: Option<DocumentVersion>,
    /// Stand in line for up to this long if somebody has it. When the time is up the place in line is kept for 15 s.
    #[serde(skip_serializing_if = "not_compared")]
    #[schema(maximum = 55000)]
    wait_ms: Option<u32>,
    /// Over a socket: the server extends the lock as long as the socket answers pings.
    #[serde(skip_serializing_if = "not_compared")]
    #[schema(ignore)]
    pub keep: Option<Keep>,
}

/// Over HTTP. With a receipt if somebody waited: the lock is given up unless the answer is written.
pub async fn run(
    call: &Call,
    name: DocumentName,
    request: LockRequest,
) -> Result<(Timed<DoneView>, Option<Receipt>), Problem> {
    if request.keep.is_some() {
        return Err(Problem::invalid("keep", "goes with a WebSocket"));
    }
    let wait = WaitTime::parse(request.wait_ms)?;
    let command = command(call, name, request, wait.is_some())?;
    match wait {
        None => Ok((lock_now(call, command).await?.0, None)),
        Some(wait) => wait_for(call, command, wait).await,
    }
}

/// Over a socket, which does not wait for an answer: its `wait` is a message of its own.
pub async fn run_without_waiting(
    call: &Call,
    name: DocumentName,
    request: LockRequest,
) -> Result<(Timed<DoneView>, Option<Lock>), Problem> {
    if request.wait_ms.is_some() {
        return Err(Problem::invalid("wait_ms", "is for HTTP: send `wait` over a socket"));
    }
    lock_now(call, command(call, name, request, false)?).await
}

/// Who has a ticket is told its position with the refusal.
async fn lock_now(call: &Call, command: LockDocuments) -> Result<(Timed<DoneView>, Option<Lock>), Problem> {
    let place = command.wanted.first().map(|wanted| wanted.key.clone()).zip(command.holder.session.clone());
    let locked = call.one_lock(Command::Lock(command)).await;
    match (locked, place) {
        (Err(problem), Some((key, session))) if problem.code == super::Code::LockHeld => {
            let position = call.calls.queries.position_of(&key, &call.caller.owner, &session, call.now()).await?;
            Err(position.into_iter().fold(problem, |problem, position| problem.with("position", position)))
        }
        (locked, _) => locked,
    }
}

pub(super) fn command(
    call: &Call,
    name: DocumentName,
    request: LockRequest,
    waits: bool,
) -> Result<LockDocuments, Problem> {
    let key = call.key(Role::Editor, name)?;
    let id = call.request(request.request_id.as_ref(), "lock", std::slice::from_ref(&key), &request)?;
    Ok(LockDocuments {
        tenant: key.tenant.clone(),
        wanted: vec![Wanted { key, lease_id: call.new_lease_id() }],
        ttl_seconds: call.ttl(request.ttl_seconds)?.map(Ttl::seconds),
        takeover: takeover(&call.caller, request.takeover, request.expected_token)?,
        capacity: request.capacity.map(Capacity::parse).transpose()?.map(Capacity::count),
        metadata: metadata(request.metadata.as_ref())?,
        document_version: request.document_version,
        holder: call.holder(request.session_id),
        request: id,
        waits,
    })
}

fn takeover(caller: &Caller, wanted: Option<bool>, expected_token: Option<i64>) -> Result<Option<TakeOver>, Problem> {
    match (wanted.unwrap_or_default(), expected_token) {
        (false, Some(_)) => Err(Problem::invalid("expected_token", "goes with `takeover`: true")),
        (false, None) => Ok(None),
        (true, expected_token) => Ok(Some(TakeOver { expected_token, of_others: caller.may_take_over })),
    }
}
