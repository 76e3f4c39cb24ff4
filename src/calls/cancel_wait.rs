//! Leaves a waiting line.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Call, DocumentName, Problem, view::Timed};
use crate::{
    auth::Role,
    locking::{Command, LeaveLine, TicketName, names::SessionId},
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

pub async fn run(call: &Call, name: DocumentName, request: CancelWaitRequest) -> Result<Timed<CancelledView>, Problem> {
    let key = call.key(Role::Editor, name)?;
    let ticket = TicketName::Session(request.session_id);
    let leave = LeaveLine { key, owner: call.caller.owner.clone(), ticket };
    let outcome = call.submit(Command::LeaveLine(leave)).await?;
    Ok(call.timed(CancelledView { cancelled: !outcome.done.is_empty() }))
}
