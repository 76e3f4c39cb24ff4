//! Names by number, and a moment to call now.

use uuid::Uuid;

use crate::locking::{
    DocumentKey, LeaseId, Timestamp,
    names::{DocumentId, OwnerId, RoomId, SessionId, TenantId},
};

pub const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub fn key(document: u8) -> DocumentKey {
    DocumentKey {
        tenant: TenantId::default_tenant(),
        room: RoomId::from_stored("room"),
        document: DocumentId::from_stored(format!("d{document}")),
    }
}

pub fn owner(name: &str) -> OwnerId {
    OwnerId::from_stored(name)
}

pub fn session(name: &str) -> SessionId {
    SessionId::from_stored(name)
}

pub fn lease(number: u128) -> LeaseId {
    LeaseId::from_u128(number)
}

/// The lease that the `number`th ticket built by [`super::state`] will have when it is served.
#[allow(dead_code, reason = "histories name leases by when they were asked for")]
pub fn ticket_lease(number: u128) -> LeaseId {
    lease(100 + number)
}

pub fn ask_id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}
