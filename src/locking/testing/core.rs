//! The rules by themselves: `decide` on a state that holds everything, because nothing of it is ever stored.

use super::history::{Act, keys};
use crate::locking::{
    Ask, Command, DocumentKey, DocumentRow, Done, Event, LeaseId, Lock, Outcome, Policy, Refusal, State, TICKET_MS,
    Ticket, Timestamp, decide,
};

pub struct Core {
    pub state: State,
    /// All that happened, in order.
    pub events: Vec<Event>,
}

/// What came of an act.
#[derive(Debug, PartialEq)]
pub enum Came {
    Decided(Outcome),
    /// Tickets that were to be renewed and are not there any more.
    Gone(Vec<LeaseId>),
    Deleted(usize),
}

impl Core {
    pub fn new(policy: Policy) -> Self {
        let mut state = State::with_policy(policy);
        state.documents = keys().into_iter().map(|key| (key, DocumentRow::default())).collect();
        Self { state, events: Vec::new() }
    }

    pub fn act(&mut self, act: &Act, now: Timestamp) -> Came {
        match act {
            Act::Decide(command) => Came::Decided(self.commit(command, now)),
            Act::RenewTickets(leases) => Came::Gone(self.renew_tickets(leases, now)),
            Act::DeleteDeadTickets => Came::Deleted(self.delete_dead_tickets(now)),
        }
    }

    pub fn commit(&mut self, command: &Command, now: Timestamp) -> Outcome {
        self.count(now);
        let decision = decide(&mut self.state, command, now).unwrap();
        self.events.extend(decision.events);
        as_seen(decision.outcome)
    }

    /// As a database counts whenever it is asked: locks that nobody has ended yet, and live tickets.
    fn count(&mut self, now: Timestamp) {
        let state = &mut self.state;
        (state.owner_locks, state.owner_tickets) = Default::default();
        for lock in state.locks.values().flatten() {
            *state.owner_locks.entry((lock.key.tenant.clone(), lock.holder.owner.clone())).or_default() += 1;
        }
        for ticket in state.lines.values().flat_map(|line| line.tickets.values()).filter(|ticket| ticket.is_live(now)) {
            *state.owner_tickets.entry((ticket.key.tenant.clone(), ticket.holder.owner.clone())).or_default() += 1;
        }
    }

    fn renew_tickets(&mut self, leases: &[LeaseId], now: Timestamp) -> Vec<LeaseId> {
        let mut gone = leases.to_vec();
        let tickets = self.state.lines.values_mut().flat_map(|line| line.tickets.values_mut());
        for ticket in tickets.filter(|ticket| ticket.is_live(now) && leases.contains(&ticket.lease_id)) {
            ticket.expires_at = now.plus_millis(TICKET_MS);
            gone.retain(|lease_id| *lease_id != ticket.lease_id);
        }
        gone
    }

    fn delete_dead_tickets(&mut self, now: Timestamp) -> usize {
        let count = |state: &State| state.lines.values().map(|line| line.tickets.len()).sum::<usize>();
        let before = count(&self.state);
        self.state.lines.values_mut().for_each(|line| line.tickets.retain(|_, ticket| ticket.is_live(now)));
        before - count(&self.state)
    }

    /// As everybody sees them, oldest first.
    pub fn live(&self, key: &DocumentKey, now: Timestamp) -> Vec<Lock> {
        let all = self.state.locks.get(key).map(Vec::as_slice).unwrap_or_default();
        let mut live: Vec<_> = all.iter().filter(|lock| lock.is_live(now)).map(seen).collect();
        live.sort_unstable_by_key(|lock| lock.fencing_token);
        live
    }

    /// Live tickets, the first to be served first.
    pub fn tickets(&self, key: &DocumentKey, now: Timestamp) -> Vec<&Ticket> {
        let tickets = self.state.lines.get(key).into_iter().flat_map(|line| line.tickets.values());
        tickets.filter(|ticket| ticket.is_live(now)).collect()
    }

    /// Their leases.
    pub fn line(&self, key: &DocumentKey, now: Timestamp) -> Vec<LeaseId> {
        self.tickets(key, now).into_iter().map(|ticket| ticket.lease_id).collect()
    }

    /// By id.
    pub fn open_asks(&self) -> Vec<Ask> {
        let open = self.state.asks.values().flatten().filter(|ask| ask.outcome.is_none());
        let mut open: Vec<_> = open.cloned().collect();
        open.sort_unstable_by_key(|ask| ask.id);
        open
    }
}

/// Without what only expiry, heartbeats and the line need to know.
pub fn seen(lock: &Lock) -> Lock {
    Lock { due_at: lock.expires_at, is_wanted: false, extend_ids: Vec::new(), ..lock.clone() }
}

pub fn as_seen(mut outcome: Outcome) -> Outcome {
    for done in &mut outcome.done {
        match done {
            Done::Live { lock, .. } => *lock = seen(lock),
            Done::Waiting { ticket, lock, .. } => {
                **lock = seen(lock);
                // Which numbers places have, nobody is told.
                *ticket = Ticket { place: 0, ..ticket.clone() };
            }
            Done::Ended { .. } | Done::LeftLine | Done::Asked(_) => {}
        }
    }
    for failed in &mut outcome.failed {
        if let Refusal::Held { lock, .. } | Refusal::NotOwner { lock } | Refusal::TakeOverForbidden { lock } =
            &mut failed.refusal
        {
            **lock = seen(lock);
        }
    }
    outcome
}
