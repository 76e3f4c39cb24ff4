//! Which of the caller's locks a heartbeat or an unlock means, and which refusal it gets if there is none.
//!
//! What is named selects among the caller's locks on the document:
//! 1. a live one that matches is the target;
//! 2. a lease that was the caller's and has ended says how it ended, whoever holds the document now;
//! 3. if the caller has a live lock here, the names do not fit it: mismatch;
//! 4. a session whose last lock here has ended says how;
//! 5. otherwise the document is someone else's, or nobody's.
//!
//! With nothing named, the caller spoke of the document: someone else's comes before how its own last lock ended.

use super::{DocumentKey, EndReason, Lock, OwnerId, Refusal, State, Timestamp, live_locks};
use crate::locking::{Lookup, Named, Which};

impl Named {
    /// The narrowest thing named.
    pub(in crate::locking) fn which(&self) -> Which {
        match (self.lease_id, &self.session) {
            (Some(lease_id), _) => Which::Lease(lease_id),
            (None, Some(session)) => Which::Session(session.clone()),
            (None, None) => Which::Any,
        }
    }

    /// Whether everything that is named is this lock's.
    pub(super) fn fits(&self, lock: &Lock) -> bool {
        self.lease_id.is_none_or(|lease_id| lease_id == lock.lease_id)
            && (self.session.is_none() || self.session == lock.holder.session)
            && self.hold.is_none_or(|hold| hold == lock.hold)
    }
}

pub(super) fn target<'s>(
    state: &'s State,
    key: &DocumentKey,
    owner: &OwnerId,
    named: &Named,
    now: Timestamp,
) -> Result<&'s Lock, Refusal> {
    let which = named.which();
    let (own, others): (Vec<&Lock>, Vec<&Lock>) =
        live_locks(state, key, now).partition(|lock| lock.holder.owner == *owner);
    let found = match &which {
        Which::Any => own.iter().filter(|lock| lock.holder.session.is_none() && own.len() == 1).copied().next(),
        Which::Lease(_) | Which::Session(_) => own.iter().find(|lock| which.means(lock)).copied(),
    };
    if let Some(lock) = found {
        return if named.fits(lock) { Ok(lock) } else { Err(Refusal::Mismatch) };
    }
    let ended = ended(state, key, owner, &which, now).map(Refusal::Ended);
    let oldest = others.iter().min_by_key(|lock| lock.fencing_token);
    let not_owner = oldest.map(|lock| Refusal::NotOwner { lock: Box::new((*lock).clone()) });
    Err(match (which, ended) {
        (Which::Lease(_), Some(ended)) => ended,
        _ if !own.is_empty() => Refusal::Mismatch,
        (Which::Lease(_) | Which::Session(_), ended) => ended.or(not_owner).unwrap_or(Refusal::NotFound),
        (Which::Any, ended) => not_owner.or(ended).unwrap_or(Refusal::NotFound),
    })
}

/// A named lease is remembered as long as the log, anything else for a day; in both cases by the clock, not by
/// whether a job has deleted it.
fn ended(state: &State, key: &DocumentKey, owner: &OwnerId, which: &Which, now: Timestamp) -> Option<EndReason> {
    const DAY_MS: i64 = 86_400_000;
    let memory_ms = match which {
        Which::Lease(_) => state.policy.event_retention_ms,
        Which::Session(_) | Which::Any => DAY_MS.min(state.policy.event_retention_ms),
    };
    let oldest = now.plus_millis(-memory_ms);
    let lookup = Lookup { key: key.clone(), owner: owner.clone(), which: which.clone() };
    let ending = state.endings.get(&lookup).filter(|ending| ending.at > oldest);
    ending.map(|ending| ending.reason)
}
