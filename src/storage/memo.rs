//! What request ids did, as the texts both databases keep.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::locking::{MemoLock, names::RequestId};

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    lease_id: Uuid,
    fencing_token: i64,
    resumed: bool,
}

pub(super) fn to_text(locks: &[MemoLock]) -> String {
    let stored: Vec<_> = locks
        .iter()
        .map(|&MemoLock { lease_id, fencing_token, resumed }| Stored { lease_id, fencing_token, resumed })
        .collect();
    serde_json::to_string(&stored).unwrap_or_default()
}

/// A text that nobody here has written counts as a request that did nothing.
pub(super) fn from_text(text: &str) -> Vec<MemoLock> {
    let stored: Vec<Stored> = serde_json::from_str(text).unwrap_or_default();
    stored
        .into_iter()
        .map(|Stored { lease_id, fencing_token, resumed }| MemoLock { lease_id, fencing_token, resumed })
        .collect()
}

/// Nothing for a lock whose heartbeats had no ids, as nearly all.
pub(super) fn ids_to_text(ids: &[RequestId]) -> Option<String> {
    (!ids.is_empty()).then(|| serde_json::to_string(ids).unwrap_or_default())
}

/// A text that nobody here has written counts as no ids.
pub(super) fn ids_from_text(text: Option<&str>) -> Vec<RequestId> {
    text.map(|text| serde_json::from_str(text).unwrap_or_default()).unwrap_or_default()
}
