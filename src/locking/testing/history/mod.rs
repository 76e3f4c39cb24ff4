//! What may be asked, by chance, as commands.
//!
//! This folder, `core.rs` and `samples.rs` are also part of `tests/model`, which asks the same of both databases.

mod script;

use std::fmt;

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Select, select},
};

use self::script::Script;
use super::samples::{key, owner};
use crate::locking::{Command, DocumentKey, Expire, names::OwnerId};

pub const DOCUMENTS: u8 = 3;
pub const OWNERS: u8 = 3;

#[derive(Debug, Clone)]
pub struct History {
    /// 0: no limit.
    pub locks_per_owner: u32,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Step {
    after_ms: u32,
    kind: Kind,
    documents: &'static [u8],
    owner: u8,
    session: Option<u8>,
    ttl: Option<u32>,
    takeover: Option<(Option<i64>, bool)>,
    capacity: Option<u32>,
    version: Option<u8>,
    request: Option<u8>,
    target: Target,
    goodbye: (u32, u32),
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Lock,
    Extend,
    Unlock,
    Release,
    ForceUnlock,
    Expire,
    /// What was asked so many steps ago is sent once more, word for word.
    Again(usize),
}

/// Which lock is meant, and what is named of it. Mostly one that was asked for, or there would be few successes.
#[derive(Debug, Clone, Copy, Hash)]
struct Target {
    /// Counted back from the newest lock that was asked for on the first of the documents.
    lock: usize,
    /// The caller is whoever asked for it, not the step's own owner.
    is_asker: bool,
    names_lease: bool,
    session: NamedSession,
}

#[derive(Debug, Clone, Copy, Hash)]
enum NamedSession {
    None,
    OfLock,
    OfStep,
}

/// Draws one of these, each as often as its number says, and shrinks towards the first. `prop_oneof!` would seed a generator
/// for every alternative, which takes most of the time of a debug build.
fn one_of<T: Clone + fmt::Debug + 'static>(choices: &[(usize, T)]) -> Select<T> {
    select(choices.iter().flat_map(|(times, choice)| vec![choice.clone(); *times]).collect::<Vec<_>>())
}

fn kind() -> Select<Kind> {
    one_of(&[
        (8, Kind::Lock),
        (5, Kind::Extend),
        (3, Kind::Unlock),
        (2, Kind::Release),
        (1, Kind::ForceUnlock),
        (1, Kind::Expire),
        (1, Kind::Again(0)),
        (1, Kind::Again(1)),
        (1, Kind::Again(3)),
    ])
}

fn documents() -> Select<&'static [u8]> {
    one_of(&[(4, &[0]), (4, &[1]), (4, &[2]), (1, &[0, 1]), (1, &[2, 0, 2]), (1, &[2, 1, 0])])
}

fn target() -> impl Strategy<Value = Target> {
    let session = one_of(&[(2, NamedSession::None), (2, NamedSession::OfLock), (1, NamedSession::OfStep)]);
    let is_asker = one_of(&[(3, true), (1, false)]);
    let names_lease = one_of(&[(3, false), (2, true)]);
    (one_of(&[(3, 0), (1, 1), (1, 2)]), is_asker, names_lease, session)
        .prop_map(|(lock, is_asker, names_lease, session)| Target { lock, is_asker, names_lease, session })
}

fn takeover() -> Select<Option<(Option<i64>, bool)>> {
    let chosen = [(None, false), (None, true), (Some(2), false), (Some(1), true), (Some(2), true), (Some(3), true)];
    let chosen = chosen.map(|takeover| (1, Some(takeover)));
    one_of(&[&[(14, None)], &chosen[..]].concat())
}

fn step(after_ms: Select<u32>) -> impl Strategy<Value = Step> {
    let request: Vec<_> = (0..6).map(|id| (1, Some(id))).chain([(14, None)]).rev().collect();
    (
        after_ms,
        kind(),
        documents(),
        0..OWNERS,
        one_of(&[(2, None), (1, Some(0)), (1, Some(1))]),
        one_of(&[(3, None), (1, Some(1)), (3, Some(5)), (2, Some(100_000))]),
        takeover(),
        one_of(&[(6, None), (2, Some(1)), (2, Some(2)), (1, Some(3))]),
        one_of(&[(8, None), (1, Some(1)), (1, Some(2))]),
        one_of(&request),
        target(),
        one_of(&[(2, (1, 0)), (2, (1, 3000)), (1, (2, 3000))]),
    )
        .prop_map(
            |(
                after_ms,
                kind,
                documents,
                owner,
                session,
                ttl,
                takeover,
                capacity,
                version,
                request,
                target,
                goodbye,
            )| {
                Step {
                    after_ms,
                    kind,
                    documents,
                    owner,
                    session,
                    ttl,
                    takeover,
                    capacity,
                    version,
                    request,
                    target,
                    goodbye,
                }
            },
        )
}

/// `pauses`: how many milliseconds may pass before a step.
pub fn history(pauses: Select<u32>) -> impl Strategy<Value = History> {
    (one_of(&[(6, 0), (1, 1), (1, 3)]), vec(step(pauses), 1..40))
        .prop_map(|(locks_per_owner, steps)| History { locks_per_owner, steps })
}

const SHORT_PAUSES: [(usize, u32); 9] =
    [(24, 0), (4, 1), (4, 999), (4, 1000), (1, 2999), (1, 3000), (1, 4999), (1, 5000), (1, 30_000)];

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
    let often = SHORT_PAUSES.map(|(times, pause)| (2 * times, pause));
    one_of(&[&often[..], &long].concat())
}

pub fn keys() -> Vec<DocumentKey> {
    (0..DOCUMENTS).map(key).collect()
}

pub fn owner_number(number: u8) -> OwnerId {
    owner(&format!("o{number}"))
}

impl History {
    /// Each with the milliseconds that pass before it.
    pub fn commands(&self) -> Vec<(u32, Command)> {
        let mut script = Script::default();
        for step in &self.steps {
            let mut after_ms = step.after_ms;
            // An overdue lock counts until it is noticed, which expiry does at once: see the limit as if it had.
            if self.locks_per_owner > 0 && after_ms > 0 {
                script.commands.push((after_ms, Command::Expire(Expire { keys: keys() })));
                after_ms = 0;
            }
            let command = script.command(step);
            script.commands.push((after_ms, command));
        }
        script.commands
    }
}
