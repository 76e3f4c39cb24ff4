//! Names by number, and a moment to call now.

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
