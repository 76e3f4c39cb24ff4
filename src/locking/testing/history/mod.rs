//! Histories by chance.
//!
//! This folder, `core.rs` and `samples.rs` are also part of `tests/model`, which asks the same of both databases.

mod script;
mod steps;

use proptest::{collection::vec, prelude::*, sample::Select};

use self::{
    script::Script,
    steps::{Step, one_of, step},
};
use super::{
    core::Core,
    samples::{key, owner},
};
use crate::locking::{Command, DocumentKey, Expire, LeaseId, Policy, Timestamp, names::OwnerId};

pub const DOCUMENTS: u8 = 3;
pub const OWNERS: u8 = 3;

#[derive(Debug, Clone)]
pub struct History {
    /// 0: no limit.
    locks_per_owner: u32,
    waits_per_owner: u32,
    steps: Vec<Step>,
}

/// What is done.
#[derive(Debug, Clone)]
pub enum Act {
    Decide(Command),
    /// By the servers of those who wait; the others have gone.
    RenewTickets(Vec<LeaseId>),
    /// By a job, at any time.
    DeleteDeadTickets,
}

/// `pauses`: how many milliseconds may pass before a step.
pub fn history(pauses: Select<u32>) -> impl Strategy<Value = History> {
    (one_of(&[(6, 0), (1, 1), (1, 3)]), one_of(&[(6, 0), (1, 1), (1, 2)]), vec(step(pauses), 1..40))
        .prop_map(|(locks_per_owner, waits_per_owner, steps)| History { locks_per_owner, waits_per_owner, steps })
}

const SHORT_PAUSES: [(usize, u32); 12] = [
    (48, 0),
    (8, 1),
    (4, 999),
    (4, 1000),
    (1, 2999),
    (1, 3000),
    (2, 4999),
    (2, 5000),
    (1, 9999),
    (1, 10_000),
    (1, 15_000),
    (1, 30_000),
];

/// Just long enough, or not, for a lock to expire.
#[allow(dead_code, reason = "the rules by themselves can do with longer ones")]
pub fn short_pauses() -> Select<u32> {
    one_of(&SHORT_PAUSES)
}

/// Also long enough for everything to be forgotten.
#[allow(dead_code, reason = "a database would have to live through every second of them")]
pub fn long_pauses() -> Select<u32> {
    const DAY_MS: u32 = 86_400_000;
    let long = [(1, DAY_MS - 1), (1, DAY_MS), (1, 30 * DAY_MS)];
    one_of(&[&SHORT_PAUSES[..], &long].concat())
}

pub fn keys() -> Vec<DocumentKey> {
    (0..DOCUMENTS).map(key).collect()
}

pub fn owner_number(number: u8) -> OwnerId {
    owner(&format!("o{number}"))
}

impl History {
    pub fn policy(&self) -> Policy {
        let (locks_per_owner, waits_per_owner) = (self.locks_per_owner, self.waits_per_owner);
        Policy { locks_per_owner, waits_per_owner, ..Policy::default() }
    }

    pub fn play(&self) -> Play<'_> {
        Play { history: self, steps: self.steps.iter(), script: Script::default(), next: None }
    }
}

/// A history on its way. What comes next depends on what came of what was before.
pub struct Play<'h> {
    history: &'h History,
    steps: std::slice::Iter<'h, Step>,
    script: Script,
    /// Time has passed before it.
    next: Option<&'h Step>,
}

impl Play<'_> {
    /// The milliseconds that pass, and what is done then. `core` is where the rules have come to.
    pub fn next(&mut self, core: &Core, now: Timestamp) -> Option<(u32, Act)> {
        if let Some(step) = self.next.take() {
            return Some((0, self.script.act(step, core, now)));
        }
        let step = self.steps.next()?;
        let later = now.plus_millis(step.after_ms.into());
        // An overdue lock counts until it is noticed, which expiry does at once: see the limit as if it had.
        if self.history.locks_per_owner > 0 && step.after_ms > 0 {
            self.next = Some(step);
            return Some((step.after_ms, Act::Decide(Command::Expire(Expire { keys: keys() }))));
        }
        Some((step.after_ms, self.script.act(step, core, later)))
    }
}
