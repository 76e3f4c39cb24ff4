//! Says whether the lock of a fencing token is live.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Call, DocumentName, Problem, view::Timed};
use crate::auth::Role;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"fencing_token": 1}))]
pub struct VerifyRequest {
    #[schema(minimum = 0)]
    fencing_token: i64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Verified {
    /// That token's lock lives.
    valid: bool,
    current_token: i64,
}

pub async fn run(call: &Call, name: DocumentName, request: VerifyRequest) -> Result<Timed<Verified>, Problem> {
    if request.fencing_token < 0 {
        return Err(Problem::invalid("fencing_token", "must not be negative"));
    }
    let key = call.key(Role::Viewer, name)?;
    let document = call.calls.queries.document(&key, &call.judged_at()).await?;
    let valid = document.locks.iter().any(|lock| lock.fencing_token == request.fencing_token);
    Ok(call.timed(Verified { valid, current_token: document.last_token }))
}
