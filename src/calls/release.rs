//! The goodbye of a page that is being closed or reloaded.

use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Call, DocumentName, Linger, Problem,
    view::{DoneView, Timed},
};
use crate::{
    auth::Role,
    locking::{Command, Release},
};

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"lease_id": "01a1e884-dddf-78aa-85ad-c748c6ad7220", "hold": 1, "linger_ms": 3000}))]
pub struct ReleaseRequest {
    lease_id: Uuid,
    /// As the last answer told it: if the page came back and resumed the lock, its old goodbye does nothing.
    #[schema(minimum = 1)]
    hold: u32,
    /// Keep the lock this long, so that a reload can resume it. 0: unlock at once.
    #[schema(maximum = 10000)]
    linger_ms: Option<u32>,
    /// The token, where no header can be sent.
    pub access_token: Option<String>,
}

/// The token is never printed.
impl std::fmt::Debug for ReleaseRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReleaseRequest").field("lease_id", &self.lease_id).finish_non_exhaustive()
    }
}

pub async fn run(call: &Call, name: DocumentName, request: ReleaseRequest) -> Result<Timed<DoneView>, Problem> {
    let linger = Linger::parse(request.linger_ms.unwrap_or_default())?;
    let key = call.key(Role::Editor, name)?;
    let owner = call.caller.owner.clone();
    let ReleaseRequest { lease_id, hold, .. } = request;
    call.one(Command::Release(Release { key, owner, lease_id, hold, linger_ms: linger.millis() })).await
}
