//! One batch of commands on its way through a home of storage.
//!
//! The home, inside one transaction:
//! 1. locks and loads [`Batch::keys`] into `state.documents`, then [`Batch::memo_keys`], then [`Batch::lookups`];
//! 2. reads the time and calls [`Batch::decide`];
//! 3. writes `changes` in order, appends `events` under the next sequences, commits.

use std::collections::BTreeSet;

use crate::locking::{
    Change, Command, DocumentKey, Event, Lookup, MemoKey, Outcome, Policy, State, Timestamp, decide,
    names::{OwnerId, TenantId},
};

#[derive(Debug)]
pub struct Batch<'c> {
    commands: &'c [Command],
    pub state: State,
    pub outcomes: Vec<Outcome>,
    pub changes: Vec<Change>,
    pub events: Vec<Event>,
}

impl<'c> Batch<'c> {
    pub fn new(commands: &'c [Command], policy: Policy) -> Self {
        let state = State::with_policy(policy);
        Self { commands, state, outcomes: Vec::new(), changes: Vec::new(), events: Vec::new() }
    }

    /// In the order in which rows are locked.
    pub fn keys(&self) -> BTreeSet<&'c DocumentKey> {
        self.commands.iter().flat_map(Command::keys).collect()
    }

    pub fn memo_keys(&self) -> BTreeSet<MemoKey> {
        self.commands.iter().filter_map(Command::memo_key).collect()
    }

    /// Owners who may get one lock more.
    pub fn lockers(&self) -> impl Iterator<Item = (TenantId, OwnerId)> + use<'c> {
        self.commands.iter().filter_map(|command| match command {
            Command::Lock(lock) => Some((lock.tenant.clone(), lock.holder.owner.clone())),
            Command::Extend(_)
            | Command::Unlock(_)
            | Command::Release(_)
            | Command::ForceUnlock(_)
            | Command::Expire(_) => None,
        })
    }

    /// Once documents and memos are loaded.
    pub fn lookups(&self) -> BTreeSet<Lookup> {
        self.commands.iter().flat_map(|command| self.state.lookups(command)).collect()
    }

    /// Each command on the state the previous one left.
    pub fn decide(&mut self, now: Timestamp) {
        for command in self.commands {
            let decision = decide(&self.state, command, now);
            for change in &decision.changes {
                self.state.apply(change);
            }
            self.outcomes.push(decision.outcome);
            self.changes.extend(decision.changes);
            self.events.extend(decision.events);
        }
    }
}
