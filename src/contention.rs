//! Counts how often a lock was refused because someone else held it. The log has no events of refusals, so each server
//! counts its own since its start.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use parking_lot::Mutex;

use crate::{
    auth::RoomGlobs,
    locking::{
        DocumentKey, Outcome, Refusal,
        names::{DocumentId, RoomId, TenantId},
    },
};

/// How many tenants, and how many documents of each, have a count of their own. When there are more, the one with the
/// smallest count is dropped. A document that takes its place starts from that count, so that one that becomes hot
/// later is found too.
const TENANTS: usize = 200;
const DOCUMENTS: usize = 200;

#[derive(Debug, Default)]
pub struct Contention {
    tenants: Mutex<HashMap<TenantId, Tenant>>,
}

#[derive(Debug, Clone, Default)]
pub struct Tenant {
    pub refused: u64,
    pub documents: HashMap<(RoomId, DocumentId), u64>,
    /// All refusals, by code.
    pub codes: BTreeMap<&'static str, u64>,
}

impl Contention {
    pub fn note(&self, outcome: &Outcome) {
        for failed in &outcome.failed {
            if let Refusal::Held { .. } = failed.refusal {
                self.refused(&failed.key);
            }
        }
    }

    /// Counts a refusal of any kind; there are as many codes as the catalogue has.
    pub fn count(&self, tenant: &TenantId, code: &'static str) {
        let mut tenants = self.tenants.lock();
        if !tenants.contains_key(tenant) {
            make_room(&mut tenants, TENANTS, |tenant| tenant.refused);
        }
        *tenants.entry(tenant.clone()).or_default().codes.entry(code).or_default() += 1;
    }

    fn refused(&self, key: &DocumentKey) {
        let mut tenants = self.tenants.lock();
        if !tenants.contains_key(&key.tenant) {
            make_room(&mut tenants, TENANTS, |tenant| tenant.refused);
        }
        let tenant = tenants.entry(key.tenant.clone()).or_default();
        tenant.refused += 1;
        let name = (key.room.clone(), key.document.clone());
        if let Some(count) = tenant.documents.get_mut(&name) {
            *count += 1;
        } else {
            let inherited = make_room(&mut tenant.documents, DOCUMENTS, |count| *count);
            tenant.documents.insert(name, inherited.unwrap_or_default() + 1);
        }
    }

    /// Returns a tenant's counts for a caller who may see these rooms. If these are not all rooms, the total is that of
    /// the documents with a count of their own.
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

/// Removes the value of the smallest size and returns it, if the map is full.
fn make_room<K: Clone + Eq + Hash, V>(map: &mut HashMap<K, V>, max: usize, size: impl Fn(&V) -> u64) -> Option<V> {
    if map.len() < max {
        return None;
    }
    let smallest = map.iter().min_by_key(|(_, value)| size(value)).map(|(key, _)| key.clone());
    smallest.and_then(|key| map.remove(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, document: &str) -> DocumentKey {
        DocumentKey {
            tenant: TenantId::parse(tenant).unwrap(),
            room: RoomId::parse("room").unwrap(),
            document: DocumentId::parse(document).unwrap(),
        }
    }

    #[test]
    fn counters_are_bounded_and_find_what_is_hot_later() {
        let contention = Contention::default();
        for number in 0..10 * DOCUMENTS {
            contention.refused(&key("busy", &format!("cold-{number}")));
        }
        for _ in 0..1000 {
            contention.refused(&key("busy", "hot"));
        }
        for number in 0..10 * TENANTS {
            contention.refused(&key(&format!("tenant-{number}"), "main"));
        }
        assert_eq!(contention.tenants.lock().len(), TENANTS);
        let busy = contention.of(&TenantId::parse("busy").unwrap(), &RoomGlobs::all());
        assert_eq!((busy.refused, busy.documents.len()), (10 * DOCUMENTS as u64 + 1000, DOCUMENTS));
        let hottest =
            busy.documents.iter().max_by_key(|(_, count)| **count).map(|((_, document), _)| document.as_str());
        assert_eq!(hottest, Some("hot"));
    }
}
