//! The rules by themselves: `decide` on a state that holds everything, because nothing of it is ever stored.

use super::history::{OWNERS, keys, owner_number};
use crate::locking::{
    Command, DocumentKey, DocumentRow, Event, Lock, Outcome, Policy, State, Timestamp, decide, names::TenantId,
};

pub struct Core {
    pub state: State,
    /// All that happened, in order.
    pub events: Vec<Event>,
}

impl Core {
    pub fn new(policy: Policy) -> Self {
        let mut state = State::with_policy(policy);
        state.documents = keys().into_iter().map(|key| (key, DocumentRow::default())).collect();
        let owners = (0..OWNERS).map(|number| ((TenantId::default_tenant(), owner_number(number)), 0));
        state.owner_locks = owners.collect();
        state.owner_tickets = state.owner_locks.clone();
        Self { state, events: Vec::new() }
    }

    pub fn commit(&mut self, command: &Command, now: Timestamp) -> Outcome {
        let decision = decide(&mut self.state, command, now).unwrap();
        self.events.extend(decision.events);
        decision.outcome
    }

    /// As everybody sees them, oldest first.
    pub fn live(&self, key: &DocumentKey, now: Timestamp) -> Vec<Lock> {
        let all = self.state.locks.get(key).map(Vec::as_slice).unwrap_or_default();
        let mut live: Vec<_> = all.iter().filter(|lock| lock.is_live(now)).map(seen).collect();
        live.sort_unstable_by_key(|lock| lock.fencing_token);
        live
    }
}

/// Without what only expiry, heartbeats and the line need to know.
pub fn seen(lock: &Lock) -> Lock {
    Lock { due_at: lock.expires_at, is_wanted: false, extend_ids: Vec::new(), ..lock.clone() }
}
