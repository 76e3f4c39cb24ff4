//! Signs of life, outages and grace: what they mean. Pure; `heartbeat` gives the signs.
//!
//! 1. Every second a server that reaches the database writes `last_alive`.
//! 2. A `last_alive` more than 3 s ago is an outage, whatever its cause. The server that finds it writes one row of
//!    `outages` before anything is decided: locks that were live at `last_alive` have a whole span from `back` on. No
//!    lock's own row is touched, so this costs the same for one lock as for a million.
//! 3. [`Outages::end_of`] says when a lock really ends; storage applies it to every lock that it reads. A lock that is
//!    written again is written with its real end, and expiry rewrites those that nothing else does.
//! 4. A read in an outage, before its row is written, judges locks by the moment it began ([`Life::judged_at`]), which
//!    is what grace will make true.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::locking::Timestamp;

/// Nobody reached the database after `last_alive` until `back`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    pub last_alive: Timestamp,
    pub back: Timestamp,
}

/// Outages that the rows of some locks may not take into account yet, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outages(Vec<Outage>);

/// A condition on the rows of live locks. There is one for each outage, for rows written between it and the one before,
/// and one for rows written since the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveRows {
    pub written_from: Option<Timestamp>,
    pub written_before: Option<Timestamp>,
    pub expires_after: Timestamp,
    /// Locks whose span is not longer than this have ended since, in spite of grace.
    pub span_over_ms: i64,
}

impl Outages {
    /// How many outages are kept apart: each is a condition in every query for live locks.
    pub const MAX: usize = 32;

    pub fn new(mut outages: Vec<Outage>) -> Self {
        outages.sort_unstable_by_key(|outage| outage.back);
        while outages.len() > Self::MAX {
            merge_closest(&mut outages);
        }
        Self(outages)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Outage> {
        self.0.iter()
    }

    /// Returns the list with one more outage. The time before the very first sign of life is left out: there was no
    /// lock.
    #[must_use]
    pub fn and(&self, outage: Outage) -> Self {
        let matters = outage.last_alive != Timestamp::default();
        Self::new(self.0.iter().copied().chain(matters.then_some(outage)).collect())
    }

    /// Returns when a lock really ends whose row says `expires_at` and was written `span_ms` before that. Each outage
    /// since, if the lock was live when it began, has given it its whole span again.
    pub fn end_of(&self, expires_at: Timestamp, span_ms: i64) -> Timestamp {
        let written = expires_at.plus_millis(-span_ms);
        let since = self.0.partition_point(|outage| outage.back <= written);
        let lived_on = |end: Timestamp, outage: &Outage| {
            if end > outage.last_alive { Ok(outage.back.plus_millis(span_ms)) } else { Err(end) }
        };
        self.0[since..].iter().try_fold(expires_at, lived_on).unwrap_or_else(|ended| ended)
    }

    /// Returns conditions with which a database selects the rows of locks that are live at this moment: a row fits one
    /// of them if and only if [`Outages::end_of`] is after the moment.
    pub fn live_rows(&self, at: Timestamp) -> Vec<LiveRows> {
        let since_last = LiveRows {
            written_from: self.0.last().map(|outage| outage.back),
            written_before: None,
            expires_after: at,
            span_over_ms: 0,
        };
        let mut rows = vec![since_last];
        // From the last outage back: a lock must have lived through the time between any two later outages.
        let (mut until, mut span_over_ms) = (at, 0);
        for (index, outage) in self.0.iter().enumerate().rev() {
            span_over_ms = until.millis_since(outage.back).max(span_over_ms);
            rows.push(LiveRows {
                written_from: index.checked_sub(1).map(|before| self.0[before].back),
                written_before: Some(outage.back),
                expires_after: outage.last_alive,
                span_over_ms,
            });
            until = outage.last_alive;
        }
        rows
    }
}

/// Merges the two outages with the shortest time between them. A lock that ended in that time, and whose row has not
/// been written since, is live again: that is the price of a bounded list.
fn merge_closest(outages: &mut Vec<Outage>) {
    let between = |pair: &[Outage]| pair[1].last_alive.millis_since(pair[0].back);
    let closest = outages.windows(2).enumerate().min_by_key(|(_, pair)| between(pair)).map(|(index, _)| index);
    if let Some(index) = closest {
        outages[index].back = outages[index + 1].back;
        outages.remove(index + 1);
    }
}

/// What this server knows of signs of life.
#[derive(Debug)]
pub struct Life {
    known: RwLock<Known>,
}

#[derive(Debug)]
struct Known {
    last_alive: Timestamp,
    outages: Arc<Outages>,
}

/// What a read needs to decide whether a lock is live: a moment, and the outages before it.
#[derive(Debug, Clone)]
pub struct Judged {
    pub at: Timestamp,
    pub outages: Arc<Outages>,
}

impl Life {
    pub const BEAT_MS: i64 = 1000;
    pub const OUTAGE_MS: i64 = 3000;

    pub fn new(last_alive: Timestamp) -> Self {
        Self { known: RwLock::new(Known { last_alive, outages: Arc::default() }) }
    }

    pub fn is_outage(last_alive: Timestamp, now: Timestamp) -> bool {
        now.millis_since(last_alive) > Self::OUTAGE_MS
    }

    /// Takes what was read or written in one transaction. Several writers call this; an older reading changes nothing.
    pub fn seen(&self, last_alive: Timestamp, outages: &Arc<Outages>) {
        let mut known = self.known.write();
        if last_alive >= known.last_alive {
            *known = Known { last_alive, outages: Arc::clone(outages) };
        }
    }

    /// Returns whether the database has been reached in the last 3 s.
    pub fn is_alive(&self, now: Timestamp) -> bool {
        !Self::is_outage(self.known.read().last_alive, now)
    }

    pub fn judged_at(&self, now: Timestamp) -> Judged {
        let known = self.known.read();
        let at = if Self::is_outage(known.last_alive, now) { known.last_alive } else { now };
        Judged { at, outages: Arc::clone(&known.outages) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn outage(last_alive: i64, back: i64) -> Outage {
        Outage { last_alive: at(last_alive), back: at(back) }
    }

    #[test]
    fn a_lock_that_was_alive_gets_its_whole_span_from_the_end_of_the_outage() {
        let outages = Outages::new(vec![outage(10_000, 60_000)]);
        assert_eq!(outages.end_of(at(10_001), 30_000), at(90_000));
        assert_eq!(outages.end_of(at(10_000), 30_000), at(10_000), "it had ended before");
        assert_eq!(outages.end_of(at(91_000), 30_000), at(91_000), "it was written since");
    }

    #[test]
    fn a_lock_that_ended_between_two_outages_stays_ended() {
        let outages = Outages::new(vec![outage(10_000, 20_000), outage(60_000, 70_000)]);
        assert_eq!(outages.end_of(at(11_000), 30_000), at(50_000));
        assert_eq!(outages.end_of(at(11_000), 41_000), at(111_000));
    }

    #[test]
    fn the_list_of_outages_is_bounded_and_keeps_the_last() {
        let many = (0..1000).map(|index| outage(index * 5000, index * 5000 + 4000)).collect();
        let outages = Outages::new(many);
        assert_eq!(outages.iter().count(), Outages::MAX);
        assert_eq!(outages.iter().last().map(|outage| outage.back), Some(at(999 * 5000 + 4000)));
        assert_eq!(outages.end_of(at(1), 30_000), at(999 * 5000 + 4000 + 30_000));
    }

    #[test]
    fn an_older_reading_of_life_changes_nothing() {
        let life = Life::new(at(0));
        let outages = Arc::new(Outages::new(vec![outage(0, 10_000)]));
        life.seen(at(10_000), &outages);
        life.seen(at(9000), &Arc::default());
        assert_eq!(life.judged_at(at(10_500)).outages, outages);
        assert_eq!(life.judged_at(at(20_000)).at, at(10_000), "an outage is judged by its beginning");
    }

    fn outages() -> impl Strategy<Value = Outages> {
        vec((0..8000_i64, 3001..9000_i64), 0..5).prop_map(|gaps| {
            let mut time = 0;
            let next = |(alive, away): (i64, i64)| {
                let last_alive = time + alive;
                time = last_alive + away;
                outage(last_alive, time)
            };
            Outages::new(gaps.into_iter().map(next).collect())
        })
    }

    proptest! {
        #[test]
        fn live_rows_select_what_has_not_ended(
            outages in outages(),
            expires_at in 0..60_000_i64,
            span_ms in prop_oneof![Just(1000_i64), Just(5000), Just(30_000), 1..40_000_i64],
            after in 0..20_000_i64,
        ) {
            let now = outages.iter().last().map_or(after, |outage| outage.back.millis() + after);
            let written = expires_at - span_ms;
            let fits = |rows: &LiveRows| {
                rows.written_from.is_none_or(|from| written >= from.millis())
                    && rows.written_before.is_none_or(|before| written < before.millis())
                    && expires_at > rows.expires_after.millis()
                    && span_ms > rows.span_over_ms
            };
            let is_live = outages.end_of(at(expires_at), span_ms) > at(now);
            prop_assert_eq!(outages.live_rows(at(now)).iter().any(fits), is_live);
        }
    }
}
