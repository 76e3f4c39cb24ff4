//! Says who holds a document.

use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Call, DocumentName, Problem,
    view::{LockView, Timed},
};
use crate::auth::Role;

#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentView {
    /// The caller's own if it has one, else the oldest.
    #[schema(required)]
    lock: Option<LockView>,
    /// How many wait for it.
    waiting: u64,
    /// The token of the last grant, 0 if there never was one.
    last_token: i64,
}

pub async fn run(call: &Call, name: DocumentName) -> Result<Timed<DocumentView>, Problem> {
    let key = call.key(Role::Viewer, name)?;
    let document = call.calls.queries.document(&key, &call.judged_at()).await?;
    let now = call.now();
    let own = document.locks.iter().find(|lock| lock.holder.owner == call.caller.owner);
    let lock = own.or(document.locks.first()).map(|lock| LockView::new(lock, &call.caller, now));
    let answer = DocumentView { lock, waiting: document.waiting, last_token: document.last_token };
    Ok(Timed { answer, server_time: now })
}
