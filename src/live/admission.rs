//! How many sockets and streams there may be, of whom and from where.

use std::{collections::HashMap, hash::Hash, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use prometheus::IntGauge;
use tokio::sync::Semaphore;

use crate::{
    auth::Caller,
    locking::names::{OwnerId, TenantId},
};

/// How many joins of one owner read the database at a time: whoever subscribes in a loop waits for itself.
const READS_AT_ONCE: usize = 2;

/// Counts sockets and streams against the limits of the settings. A limit of 0 is none.
#[derive(Debug)]
pub struct Admission {
    per_owner: u32,
    per_address: u32,
    counts: Mutex<Counts>,
    gauge: IntGauge,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    owners: HashMap<(TenantId, OwnerId), u32>,
    addresses: HashMap<IpAddr, u32>,
    /// The turns to read of each owner that has sockets.
    turns: HashMap<(TenantId, OwnerId), Arc<Semaphore>>,
}

/// Held by a socket or stream until it ends.
#[derive(Debug)]
pub struct Place {
    admission: Arc<Admission>,
    address: Option<IpAddr>,
    owner: Option<(TenantId, OwnerId)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

impl Admission {
    pub fn new(per_owner: u32, per_address: u32, gauge: IntGauge) -> Arc<Self> {
        Arc::new(Self { per_owner, per_address, counts: Mutex::default(), gauge })
    }

    /// Gives a place even to one too many, which has to be told so.
    pub fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> (Place, Result<(), TooMany>) {
        let mut counts = self.counts.lock();
        counts.all += 1;
        self.gauge.inc();
        let fits = address.map_or(Ok(()), |address| one_more(&mut counts.addresses, address, self.per_address));
        (Place { admission: Arc::clone(self), address: address.filter(|_| fits.is_ok()), owner: None }, fits)
    }

    pub fn count(&self) -> usize {
        self.counts.lock().all
    }
}

impl Place {
    /// Counts the socket as the caller's; returns the turns in which its owner's sockets read the database.
    pub fn belongs_to(&mut self, caller: &Caller) -> Result<Arc<Semaphore>, TooMany> {
        let owner = (caller.tenant.clone(), caller.owner.clone());
        let mut counts = self.admission.counts.lock();
        one_more(&mut counts.owners, owner.clone(), self.admission.per_owner)?;
        let turns = counts.turns.entry(owner.clone()).or_insert_with(|| Arc::new(Semaphore::new(READS_AT_ONCE)));
        self.owner = Some(owner);
        Ok(Arc::clone(turns))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.admission.counts.lock();
        counts.all -= 1;
        self.admission.gauge.dec();
        if let Some(address) = self.address {
            one_less(&mut counts.addresses, &address);
        }
        if let Some(owner) = &self.owner {
            one_less(&mut counts.owners, owner);
            if !counts.owners.contains_key(owner) {
                counts.turns.remove(owner);
            }
        }
    }
}

fn one_more<K: Hash + Eq>(counts: &mut HashMap<K, u32>, key: K, limit: u32) -> Result<(), TooMany> {
    let count = counts.entry(key).or_default();
    if limit != 0 && *count >= limit {
        return Err(TooMany);
    }
    *count += 1;
    Ok(())
}

fn one_less<K: Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
