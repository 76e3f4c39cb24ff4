//! What may be asked, by chance.

use std::fmt;

use proptest::{
    prelude::*,
    sample::{Select, select},
};

use super::OWNERS;
use crate::locking::Activity;

#[derive(Debug, Clone)]
pub(super) struct Step {
    pub after_ms: u32,
    pub kind: Kind,
    pub documents: &'static [u8],
    pub owner: u8,
    pub session: Option<u8>,
    pub ttl: Option<u32>,
    pub takeover: Option<(Option<i64>, bool)>,
    pub capacity: Option<u32>,
    pub version: Option<u8>,
    pub request: Option<u8>,
    pub target: Target,
    pub said: Said,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Lock,
    /// In line, if it is held.
    Wait,
    Extend,
    Unlock,
    Release,
    ForceUnlock,
    Expire,
    Renew,
    LeaveLine,
    Ask,
    Answer,
    CancelAsk,
    /// By the servers of those who wait: of the last few that were asked for.
    RenewTickets,
    DeleteDeadTickets,
    /// What was asked so many steps ago is sent once more, word for word.
    Again(usize),
}

/// Which lock, ticket or ask is meant, and what is named of it. Mostly one that is there, or there would be few successes.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Target {
    /// One of those that are there on the first of the documents, if any, rather than of all that were ever asked for.
    pub is_there: bool,
    /// Counted back from the newest.
    pub back: usize,
    /// The caller is the one whose it is, not the step's own owner.
    pub is_own: bool,
    pub names_lease: bool,
    pub session: NamedSession,
}

#[derive(Debug, Clone, Copy, Hash)]
pub(super) enum NamedSession {
    None,
    OfLock,
    OfStep,
}

/// What only some commands say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    /// The hold and the linger of a release.
    pub goodbye: (u32, u32),
    pub activity: Option<Activity>,
    /// Of a heartbeat.
    pub hold: Option<u32>,
    /// The answer to an ask.
    pub grants: bool,
}

/// Draws one of these, each as often as its number says, and shrinks towards the first. `prop_oneof!` would seed a generator
/// for every alternative, which takes most of the time of a debug build.
pub(super) fn one_of<T: Clone + fmt::Debug + 'static>(choices: &[(usize, T)]) -> Select<T> {
    select(choices.iter().flat_map(|(times, choice)| vec![choice.clone(); *times]).collect::<Vec<_>>())
}

fn kind() -> Select<Kind> {
    one_of(&[
        (6, Kind::Lock),
        (10, Kind::Wait),
        (6, Kind::Extend),
        (5, Kind::Unlock),
        (2, Kind::Release),
        (2, Kind::ForceUnlock),
        (1, Kind::Expire),
        (2, Kind::Renew),
        (2, Kind::LeaveLine),
        (4, Kind::Ask),
        (4, Kind::Answer),
        (1, Kind::CancelAsk),
        (2, Kind::RenewTickets),
        (1, Kind::DeleteDeadTickets),
        (2, Kind::Again(0)),
        (1, Kind::Again(1)),
        (1, Kind::Again(3)),
    ])
}

fn documents() -> Select<&'static [u8]> {
    one_of(&[(20, &[0]), (2, &[1]), (2, &[2]), (1, &[0, 1]), (1, &[2, 0, 2]), (1, &[2, 1, 0])])
}

fn target() -> impl Strategy<Value = Target> {
    let session = one_of(&[(2, NamedSession::None), (5, NamedSession::OfLock), (1, NamedSession::OfStep)]);
    let is_there = one_of(&[(4, true), (1, false)]);
    let is_own = one_of(&[(6, true), (1, false)]);
    let names_lease = one_of(&[(1, false), (1, true)]);
    (is_there, one_of(&[(3, 0), (2, 1), (2, 2), (1, 3)]), is_own, names_lease, session).prop_map(
        |(is_there, back, is_own, names_lease, session)| Target { is_there, back, is_own, names_lease, session },
    )
}

fn takeover() -> Select<Option<(Option<i64>, bool)>> {
    let chosen = [(None, false), (None, true), (Some(2), false), (Some(1), true), (Some(2), true), (Some(3), true)];
    let chosen = chosen.map(|takeover| (1, Some(takeover)));
    one_of(&[&[(24, None)], &chosen[..]].concat())
}

fn said() -> impl Strategy<Value = Said> {
    let activity = [(6, None), (1, Some(Activity::Active)), (1, Some(Activity::Idle)), (1, Some(Activity::Away))];
    (
        one_of(&[(2, (1, 0)), (2, (1, 3000)), (1, (2, 3000))]),
        one_of(&activity),
        one_of(&[(8, None), (2, Some(1)), (1, Some(2))]),
        one_of(&[(3, true), (1, false)]),
    )
        .prop_map(|(goodbye, activity, hold, grants)| Said { goodbye, activity, hold, grants })
}

pub(super) fn step(after_ms: Select<u32>) -> impl Strategy<Value = Step> {
    let request: Vec<_> = (0..6).map(|id| (1, Some(id))).chain([(14, None)]).rev().collect();
    (
        after_ms,
        kind(),
        documents(),
        0..OWNERS,
        one_of(&[(2, None), (1, Some(0)), (1, Some(1))]),
        one_of(&[(3, None), (1, Some(1)), (2, Some(5)), (3, Some(100_000))]),
        takeover(),
        one_of(&[(12, None), (1, Some(1)), (4, Some(2)), (1, Some(3))]),
        one_of(&[(5, None), (1, Some(1)), (1, Some(2))]),
        one_of(&request),
        target(),
        said(),
    )
        .prop_map(
            |(after_ms, kind, documents, owner, session, ttl, takeover, capacity, version, request, target, said)| {
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
                    said,
                }
            },
        )
}
