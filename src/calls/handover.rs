//! Asks for a lock that somebody holds, and the holder's answer.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    Call, Code, DocumentName, Problem, WaitTime,
    fields::number_text,
    message,
    view::{HandoverView, Timed},
    wait::{Receipt, is_unclaimed, receive},
};
use crate::{
    auth::Role,
    locking::{
        Answer, AnswerAsk, Ask, AskForLock, AskOutcome, CancelAsk, Command, Done, Lock, Named,
        names::{DocumentVersion, SessionId},
    },
};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = HandoverRequest, example = json!({"message": "typo in §2", "session_id": "tab-1"}))]
pub struct AskRequest {
    /// Shown to the holder. At most 500 bytes.
    #[schema(max_length = 500, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    message: Option<String>,
    /// The tab or process that gets the lock.
    session_id: Option<SessionId>,
}

impl AskRequest {
    pub fn new(message: Option<String>, session_id: Option<SessionId>) -> Self {
        Self { message, session_id }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = HandoverAnswer, example = json!({"grant": true, "document_version": "v3"}))]
pub struct AnswerRequest {
    grant: bool,
    #[schema(max_length = 500, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    message: Option<String>,
    /// With a grant: as what the holder has saved the document.
    document_version: Option<DocumentVersion>,
    /// If named, it must be the holder's.
    lease_id: Option<Uuid>,
    session_id: Option<SessionId>,
    /// Over a socket, which has no path to name it in.
    #[schema(ignore)]
    pub handover_id: Option<Uuid>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OutcomeParams {
    /// Wait up to this long for the answer.
    #[serde(default, deserialize_with = "number_text")]
    #[param(nullable = false, maximum = 55000)]
    wait_ms: Option<u32>,
}

/// Asks. While an ask of the same owner is open, that one is answered again.
pub async fn ask(call: &Call, name: DocumentName, request: AskRequest) -> Result<(Timed<HandoverView>, Ask), Problem> {
    let key = call.key(Role::Editor, name)?;
    let message = message(request.message)?;
    let asker = call.holder(request.session_id);
    let ask = done(call, Command::Ask(AskForLock { key, asker, message, id: call.new_lease_id() })).await?;
    Ok((call.timed(HandoverView::new(&ask, &call.caller, call.now())), ask))
}

/// Answers an ask in the holder's name.
pub async fn answer(
    call: &Call,
    name: DocumentName,
    id: Uuid,
    request: AnswerRequest,
) -> Result<Timed<HandoverView>, Problem> {
    let key = call.key(Role::Editor, name)?;
    let named = Named { lease_id: request.lease_id, session: request.session_id, hold: None };
    let answer = match (request.grant, request.document_version) {
        (true, document_version) => Answer::Grant { lease_id: call.new_lease_id(), document_version },
        (false, None) => Answer::Deny,
        (false, Some(_)) => return Err(Problem::invalid("document_version", "goes with `grant`: true")),
    };
    let message = message(request.message)?;
    let command = AnswerAsk { key, owner: call.caller.owner.clone(), named, id, answer, message };
    let ask = done(call, Command::Answer(command)).await?;
    Ok(call.timed(HandoverView::new(&ask, &call.caller, call.now())))
}

/// Takes an ask back.
pub async fn cancel(call: &Call, name: DocumentName, id: Uuid) -> Result<Timed<HandoverView>, Problem> {
    let key = call.key(Role::Editor, name)?;
    let ask = done(call, Command::CancelAsk(CancelAsk { key, owner: call.caller.owner.clone(), id })).await?;
    Ok(call.timed(HandoverView::new(&ask, &call.caller, call.now())))
}

/// Says how an ask stands; with `wait_ms`, as soon as it has an outcome. The asker is shown the lock that it was granted, and
/// claims it by this answer.
pub async fn outcome(
    call: &Call,
    name: DocumentName,
    id: Uuid,
    params: OutcomeParams,
) -> Result<(Timed<HandoverView>, Option<Receipt>), Problem> {
    let key = call.key(Role::Viewer, name)?;
    let wait = WaitTime::parse(params.wait_ms)?;
    // Before the look: an answer that comes in between is heard.
    let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
    call.calls.lines.await_answer(id, sender);
    let found = call.calls.queries.ask(&key, id).await?;
    let is_party = |ask: &Ask| ask.asker.owner == call.caller.owner || ask.holder == call.caller.owner;
    let mut ask = found.filter(is_party).ok_or_else(not_found)?;
    let mut granted = None;
    if let Some(wait) = wait.filter(|_| ask.outcome.is_none()) {
        tokio::select! {
            Some(answered) = answers.recv() => {
                let (answered, lock) = *answered;
                granted = Some(lock).filter(|_| answered.outcome == Some(AskOutcome::Granted));
                ask = answered;
            }
            () = call.calls.clock.sleep(wait.duration()) => {}
            () = call.calls.lines.drains() => {}
        }
    }
    let is_askers = ask.outcome == Some(AskOutcome::Granted) && ask.asker.owner == call.caller.owner;
    if is_askers && granted.is_none() {
        granted = granted_before(call, &ask).await?;
    }
    let view = HandoverView::new(&ask, &call.caller, call.now());
    let Some(lock) = granted.filter(|_| is_askers) else { return Ok((call.timed(view), None)) };
    if !is_unclaimed(&lock) {
        return Ok((call.timed(view.with_lock(&lock, &call.caller, call.now())), None));
    }
    let (claimed, receipt) = receive(call, &lock).await?;
    match claimed {
        Some(Done::Live { lock, .. }) => {
            Ok((call.timed(view.with_lock(&lock, &call.caller, call.now())), Some(receipt)))
        }
        _ => Ok((call.timed(view), None)),
    }
}

/// The lock of an ask that was granted before its asker came for the answer, or whose answer was lost, while it lives.
async fn granted_before(call: &Call, ask: &Ask) -> Result<Option<Lock>, Problem> {
    let document = call.calls.queries.document(&ask.key, &call.judged_at()).await?;
    let is_askers = |lock: &Lock| (&lock.holder.owner, &lock.holder.session) == (&ask.asker.owner, &ask.asker.session);
    // The last of its locks, should it have several.
    Ok(document.locks.into_iter().rev().find(is_askers))
}

fn not_found() -> Problem {
    Problem::new(Code::NotFound, "There is no such ask of yours.")
}

async fn done(call: &Call, command: Command) -> Result<Ask, Problem> {
    let done = call.submit(command).await?.single();
    match done.map_err(|refusal| call.refused(&refusal))? {
        Done::Asked(ask) => Ok(ask),
        Done::Live { .. } | Done::Ended { .. } | Done::Waiting { .. } | Done::LeftLine => Err(not_found()),
    }
}
