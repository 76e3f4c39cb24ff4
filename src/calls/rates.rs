//! `limits.requests_per_second`: a bucket of tokens for each owner, as deep as a second's worth.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{Code, Problem};
use crate::{
    auth::Caller,
    locking::{
        Timestamp,
        names::{OwnerId, TenantId},
    },
};

/// With more owners than this, those whose bucket is full again are forgotten: nothing is lost by it.
const OWNERS: usize = 10_000;

#[derive(Debug)]
pub struct Rates {
    /// 0: no limit.
    per_second: u32,
    buckets: Mutex<HashMap<(TenantId, OwnerId), Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// In thousandths of a request.
    level: i64,
    at: Timestamp,
}

impl Rates {
    pub fn new(per_second: u32) -> Self {
        Self { per_second, buckets: Mutex::default() }
    }

    /// Counts one request of the caller's; fails, with the time to wait, if its bucket is empty.
    pub fn admit(&self, caller: &Caller, now: Timestamp) -> Result<(), Problem> {
        if self.per_second == 0 {
            return Ok(());
        }
        let rate = i64::from(self.per_second);
        let full = rate * 1000;
        let refilled = |bucket: &Bucket| full.min(bucket.level.saturating_add(now.millis_since(bucket.at) * rate));
        let mut buckets = self.buckets.lock();
        if buckets.len() > OWNERS {
            buckets.retain(|_, bucket| refilled(bucket) < full);
        }
        let bucket =
            buckets.entry((caller.tenant.clone(), caller.owner.clone())).or_insert(Bucket { level: full, at: now });
        *bucket = Bucket { level: refilled(bucket), at: now };
        if bucket.level < 1000 {
            let wait_ms = (1000 - bucket.level + rate - 1) / rate;
            let detail = format!("One owner may send {rate} requests a second.");
            return Err(Problem::new(Code::RateLimited, detail).retry_after_ms(wait_ms));
        }
        bucket.level -= 1000;
        Ok(())
    }
}
