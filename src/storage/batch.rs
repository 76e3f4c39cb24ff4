//! One batch of commands on its way through a home of storage.
//!
//! The home, inside one transaction:
//! 1. loads the rows of [`Batch::document_keys`] into `state.documents` and the locks of [`Batch::keys`] into
//!    `state.locks`, under row locks, then [`Batch::memo_keys`], then the lines and asks of [`Batch::line_keys`] with the
//!    rows of those documents, then [`Batch::lookups`];
//! 2. reads the time and calls [`Batch::decide`];
//! 3. writes `changes` in order, appends `events` under the next sequences, commits.

use std::collections::{BTreeMap, BTreeSet};

use super::StorageError;
use crate::locking::{
    Ask, AskNeeded, Change, Command, Decision, DocumentKey, Event, Line, Lookup, MemoKey, Needs, Outcome, Policy,
    State, Ticket, TicketNeeded, Timestamp, decide,
    names::{OwnerId, TenantId},
};

/// What was committed.
#[derive(Debug, Default)]
pub struct Committed {
    /// One for each command. A command fails alone if its part was left to a transaction of its own.
    pub outcomes: Vec<Result<Outcome, StorageError>>,
    /// By transaction: there may have been several.
    pub appended: Vec<Appended>,
}

/// One step of expiry.
#[derive(Debug, Default)]
pub struct Expired {
    /// Locks whose time to be looked at had come; none if there are no more.
    pub looked_at: usize,
    pub appended: Option<Appended>,
    /// Documents whose overdue locks somebody wants: their lines are served by a command of their own.
    pub wanted: Vec<DocumentKey>,
}

/// Events as one transaction added them to the log; never none.
#[derive(Debug)]
pub struct Appended {
    /// The sequence of the first; the others follow without gap.
    pub first: i64,
    pub events: Vec<Event>,
}

impl Appended {
    /// After the sequence `base`.
    pub fn after(base: i64, events: Vec<Event>) -> Option<Self> {
        (!events.is_empty()).then_some(Self { first: base + 1, events })
    }
}

#[derive(Debug)]
pub struct Batch<'c> {
    commands: Vec<(&'c Command, Needs<'c>)>,
    pub state: State,
    pub outcomes: Vec<Outcome>,
    pub changes: Vec<Change>,
    pub events: Vec<Event>,
}

impl<'c> Batch<'c> {
    pub fn new(commands: impl IntoIterator<Item = &'c Command>, policy: Policy) -> Self {
        let commands = commands.into_iter().map(|command| (command, command.needs())).collect();
        let state = State::with_policy(policy);
        Self { commands, state, outcomes: Vec::new(), changes: Vec::new(), events: Vec::new() }
    }

    fn needs(&self) -> impl Iterator<Item = &Needs<'c>> {
        self.commands.iter().map(|(_, needs)| needs)
    }

    /// Documents whose locks are needed, in the order in which rows are locked.
    pub fn keys(&self) -> BTreeSet<&'c DocumentKey> {
        self.needs().flat_map(|needs| needs.keys.iter().copied()).collect()
    }

    /// Documents whose own rows are needed too, in the same order.
    pub fn document_keys(&self) -> BTreeSet<&'c DocumentKey> {
        self.needs().filter(|needs| needs.rows).flat_map(|needs| needs.keys.iter().copied()).collect()
    }

    /// Documents that may get a lock, in the same order.
    pub fn wanted(&self) -> BTreeSet<&'c DocumentKey> {
        let granting = self.needs().filter(|needs| needs.grants_to.is_some());
        granting.flat_map(|needs| needs.keys.iter().copied()).collect()
    }

    pub fn memo_keys(&self) -> BTreeSet<MemoKey> {
        self.needs().filter_map(|needs| needs.memo.clone()).collect()
    }

    /// Owners who may get one lock more.
    pub fn lockers(&self) -> BTreeSet<(TenantId, OwnerId)> {
        self.needs()
            .filter_map(|needs| needs.grants_to)
            .map(|(tenant, owner)| (tenant.clone(), owner.clone()))
            .collect()
    }

    /// Owners who may get one ticket more.
    pub fn waiters(&self) -> BTreeSet<(TenantId, OwnerId)> {
        let waiting = self.needs().filter(|needs| needs.ticket.is_some());
        let owners = waiting.filter_map(|needs| needs.grants_to);
        owners.map(|(tenant, owner)| (tenant.clone(), owner.clone())).collect()
    }

    /// Documents whose lines and asks are needed, with how many tickets may be served beyond the document's capacity.
    /// Once locks are loaded: a lock that is wanted says that somebody is there.
    pub fn line_keys(&self) -> BTreeMap<&'c DocumentKey, usize> {
        let mut keys = BTreeMap::new();
        for needs in self.needs() {
            for key in needs.keys.iter().filter(|key| needs.lines || is_wanted(&self.state, key)) {
                *keys.entry(*key).or_default() += needs.ends;
            }
        }
        keys
    }

    /// Tickets that may stand anywhere in the line of a document.
    pub fn tickets_needed(&self) -> impl Iterator<Item = (&'c DocumentKey, TicketNeeded<'c>)> {
        self.needs().filter_map(|needs| Some((*needs.keys.first()?, needs.ticket?)))
    }

    /// Asks that may have ended.
    pub fn asks_needed(&self) -> impl Iterator<Item = (&'c DocumentKey, AskNeeded<'c>)> {
        self.needs().filter_map(|needs| Some((*needs.keys.first()?, needs.ask?)))
    }

    /// Adds what was read of a document's line, smallest place first: at most `served` tickets and the one after them.
    pub fn add_line(&mut self, key: &DocumentKey, mut tickets: Vec<Ticket>, served: usize, last_place: i64) {
        let read_to =
            (tickets.len() > served).then(|| tickets.get(served.wrapping_sub(1)).map_or(0, |last| last.place));
        tickets.truncate(served);
        let tickets = tickets.into_iter().map(|ticket| (ticket.place, ticket)).collect();
        self.state.lines.insert(key.clone(), Line { tickets, read_to, last_place });
    }

    pub fn add_ticket(&mut self, ticket: Ticket) {
        self.state.lines.entry(ticket.key.clone()).or_default().tickets.insert(ticket.place, ticket);
    }

    pub fn add_ask(&mut self, ask: Ask) {
        let asks = self.state.asks.entry(ask.key.clone()).or_default();
        if asks.iter().all(|known| known.id != ask.id) {
            asks.push(ask);
        }
    }

    /// Once documents and memos are loaded.
    pub fn lookups(&self) -> BTreeSet<Lookup> {
        self.needs().flat_map(|needs| self.state.lookups(needs)).collect()
    }

    /// Each command on the state the previous one left.
    pub fn decide(&mut self, now: Timestamp) -> Result<(), StorageError> {
        self.decide_if(now, |_, _, _| true).map(drop)
    }

    /// The same, but decisions that are not accepted are not written: their commands are answered by their positions. Such a
    /// command must be alone on its documents, since the state has gone on as if it had been accepted. `accepts` also hears
    /// whether somebody wanted one of those documents' locks before.
    pub fn decide_if(
        &mut self,
        now: Timestamp,
        accepts: impl Fn(&Needs<'_>, bool, &Decision) -> bool,
    ) -> Result<Vec<usize>, StorageError> {
        let mut undecided = Vec::new();
        for (position, (command, needs)) in self.commands.iter().enumerate() {
            let is_wanted = needs.keys.iter().any(|key| is_wanted(&self.state, key));
            let decision = decide(&mut self.state, command, now);
            let decision = decision.map_err(|not_read| StorageError::Conflict(not_read.to_string()))?;
            if !accepts(needs, is_wanted, &decision) {
                undecided.push(position);
                self.outcomes.push(Outcome::default());
                continue;
            }
            self.outcomes.push(decision.outcome);
            self.changes.extend(decision.changes);
            self.events.extend(decision.events);
        }
        Ok(undecided)
    }

    /// What its transaction has committed, after the sequence `base`.
    pub fn committed(self, base: i64) -> Committed {
        let appended = Appended::after(base, self.events).into_iter().collect();
        Committed { outcomes: self.outcomes.into_iter().map(Ok).collect(), appended }
    }
}

fn is_wanted(state: &State, key: &DocumentKey) -> bool {
    state.locks.get(key).is_some_and(|locks| locks.iter().any(|lock| lock.is_wanted))
}
