//! `/api/admin/…`: the lock table, the audit trail and figures, for admins of a tenant.

mod events;
mod locks;
mod stats;
mod unlock;

pub use events::{__path_events, EventType, events};
pub use locks::{__path_locks, locks};
pub use stats::{__path_stats, stats};
pub use unlock::{__path_unlock_matching, __path_unlock_one, unlock_matching, unlock_one};
