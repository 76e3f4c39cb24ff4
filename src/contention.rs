//! How often locks were refused because someone had them: the log has no entry for what did not happen.
//! Counted by each server since its start.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::{
    auth::RoomGlobs,
    locking::{
        DocumentKey, Outcome, Refusal,
        names::{DocumentId, RoomId, TenantId},
    },
};

/// Documents counted singly, per tenant; refusals beyond them still count in the total.
const DOCUMENTS: usize = 1000;

#[derive(Debug, Default)]
pub struct Contention {
    tenants: Mutex<HashMap<TenantId, Tenant>>,
}

#[derive(Debug, Clone, Default)]
pub struct Tenant {
    pub refused: u64,
    pub documents: HashMap<(RoomId, DocumentId), u64>,
}

impl Contention {
    pub fn note(&self, outcome: &Outcome) {
        for failed in &outcome.failed {
            if let Refusal::Held { .. } = failed.refusal {
                self.refused(&failed.key);
            }
        }
    }

    fn refused(&self, key: &DocumentKey) {
        let mut tenants = self.tenants.lock();
        let tenant = tenants.entry(key.tenant.clone()).or_default();
        tenant.refused += 1;
        let name = (key.room.clone(), key.document.clone());
        if tenant.documents.len() < DOCUMENTS || tenant.documents.contains_key(&name) {
            *tenant.documents.entry(name).or_default() += 1;
        }
    }

    /// Returns the counts as a caller sees them that may see these rooms: if not all, only documents counted singly.
    pub fn of(&self, tenant: &TenantId, rooms: &RoomGlobs) -> Tenant {
        let tenants = self.tenants.lock();
        let mut seen = tenants.get(tenant).cloned().unwrap_or_default();
        if rooms.patterns().is_some() {
            seen.documents.retain(|(room, _), _| rooms.allow(room));
            seen.refused = seen.documents.values().sum();
        }
        seen
    }
}
