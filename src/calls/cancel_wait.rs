//! Leaves a waiting line.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Call, DocumentName, Problem, view::Timed};
use crate::{
    auth::Role,
    locking::{Command, DocumentKey, LeaveLine, TicketName, names::SessionId},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelWaitRequest {
    /// Which of the caller's sessions stands in line.
    session_id: SessionId,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CancelledView {
    /// False if there was neither a ticket nor a grant that nobody has claimed.
    cancelled: bool,
}

/// Answers whether there was anything to cancel, and says which session's wait for which document is over.
pub async fn run(
    call: &Call,
    name: DocumentName,
    request: CancelWaitRequest,
) -> Result<(Timed<CancelledView>, DocumentKey, SessionId), Problem> {
    let (key, session) = (call.key(Role::Editor, name)?, request.session_id);
    let ticket = TicketName::Session(session.clone());
    let leave = LeaveLine { key: key.clone(), owner: call.caller.owner.clone(), ticket };
    let outcome = call.submit(Command::LeaveLine(leave)).await?;
    Ok((call.timed(CancelledView { cancelled: !outcome.done.is_empty() }), key, session))
}
