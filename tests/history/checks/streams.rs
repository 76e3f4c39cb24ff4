//! No event is lost, doubled or reordered for any follower, whatever reconnects there were, and every snapshot is the log's
//! state at its sequence.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Findings, Planted, right,
    samples::{Sample, expired, notice, seen},
    wrong,
};
use crate::{
    followers::{ALL_ROOMS, Notice, Visit},
    history::History,
    log::{Event, Happened},
    record::{Moment, Name},
};

/// Whoever has missed more is given a snapshot.
const REPLAYED: usize = 1000;

pub fn check(history: &History) -> Findings {
    let mut findings =
        Findings::of("streams: every follower hears every event once, in order; snapshots are the log's state");
    let mut rooms: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in &history.log {
        rooms.entry(event.room()).or_default().push(event);
        rooms.entry(ALL_ROOMS).or_default().push(event);
    }
    let none = Vec::new();
    let mut known: BTreeMap<(&Name, &Name), i64> = BTreeMap::new();
    for visit in &history.visits {
        let events = rooms.get(&*visit.room).unwrap_or(&none);
        if let Some(sequence) = visit.sequence {
            one(history, visit, sequence, events, &mut findings);
            known.insert((&visit.follower, &visit.room), visit.known().unwrap_or_default());
        }
    }
    // What is not resumed cannot know what happened before it came back.
    for ((follower, room), known) in known.into_iter().filter(|((_, room), _)| ***room != *ALL_ROOMS) {
        let last = rooms.get(&**room).and_then(|events| events.last()).map_or(0, |event| event.sequence);
        findings.check(known >= last, room, Moment::ZERO, || {
            format!("{follower} has heard of {room} up to {known} and never of {last}")
        });
    }
    findings
}

fn one(history: &History, visit: &Visit, sequence: i64, events: &[&Event], findings: &mut Findings) {
    let Visit { follower, room, server, after, recovered, .. } = visit;
    let whose = format!("{follower} in {room} on server {server} after {after:?}, from {sequence}");
    let between = |from: i64, until: i64| {
        events.iter().filter(move |event| event.sequence > from && event.sequence <= until).copied()
    };
    let at = visit.heard.first().map_or(visit.opened, |notice| notice.heard);
    if !recovered && let Some(after) = after {
        let missed = between(*after, sequence).count();
        findings.check(missed > REPLAYED, room, at, || {
            format!("{whose}: a snapshot instead of the {missed} events that were missed")
        });
    }
    if !recovered && **room != *ALL_ROOMS {
        let shown: BTreeSet<_> =
            visit.locks.iter().map(|lock| (lock.key.clone(), lock.token, lock.owner.clone())).collect();
        let state = state(between(history.start, sequence));
        findings.check(shown == state && shown.len() == visit.locks.len(), room, at, || {
            let extra: Vec<_> = shown.difference(&state).collect();
            let missing: Vec<_> = state.difference(&shown).collect();
            format!("{whose}: a snapshot with {extra:?} too many, and without {missing:?}")
        });
    }
    let base = after.filter(|_| *recovered).unwrap_or(sequence).max(history.start);
    let heard: Vec<&Notice> = visit.heard.iter().filter(|notice| notice.sequence > history.start).collect();
    let end = heard.last().map_or(base, |notice| notice.sequence);
    let end = if *recovered { end.max(sequence) } else { end };
    findings.checked += heard.len();
    let expected: Vec<&Event> = between(base, end).collect();
    let first_other = (0..expected.len().max(heard.len())).find(|place| {
        !matches!((expected.get(*place), heard.get(*place)), (Some(event), Some(notice)) if is_same(event, notice))
    });
    let key = first_other.and_then(|place| expected.get(place)).map_or(room, |event| &event.key);
    let at = first_other.and_then(|place| heard.get(place)).map_or(at, |notice| notice.heard);
    findings.check(first_other.is_none(), key, at, || {
        let place = first_other.unwrap_or_default();
        let (event, heard) = (expected.get(place).map(|event| event.told()), heard.get(place));
        format!("{whose}: heard {heard:?} where the log has {event:?}")
    });
}

fn is_same(event: &Event, notice: &Notice) -> bool {
    event.sequence == notice.sequence
        && event.key == notice.key
        && event.token == notice.token
        && event.happened == notice.happened
        && notice.owner.as_ref().is_none_or(|owner| *owner == event.owner)
}

/// Who holds what after these events.
fn state<'h>(events: impl Iterator<Item = &'h Event>) -> BTreeSet<(Name, i64, Name)> {
    let mut live = BTreeSet::new();
    for event in events {
        let lock = (event.key.clone(), event.token, event.owner.clone());
        if event.is_lock() {
            live.insert(lock);
        } else {
            live.remove(&lock);
        }
    }
    live
}

pub fn planted() -> Vec<Planted> {
    let life = |sample: Sample, number: u128, at| {
        sample.event(at, "ann", number, Happened::Locked).event(at + 9, "ann", number, expired())
    };
    let log = || life(life(Sample::default(), 1, 0), 2, 20);
    let notices = |sequences: &[i64]| -> Vec<Notice> {
        let history = log().history();
        sequences
            .iter()
            .filter_map(|sequence| history.log.iter().find(|event| event.sequence == *sequence))
            .map(notice)
            .collect()
    };
    let back = |after, sequence, recovered, heard: &[i64]| {
        let visit = Visit { after, sequence: Some(sequence), recovered, heard: notices(heard), ..Visit::default() };
        log().heard(&[1, 2]).visit(visit).history()
    };
    let snapshot = |locks| {
        let visit = Visit { sequence: Some(3), locks, heard: notices(&[4]), ..Visit::default() };
        log().visit(visit).history()
    };
    let mut other = log().heard(&[1, 2, 3, 4]).history();
    other.visits[0].heard[1].token = 7;
    let held = || seen("ann", 2, 500);
    vec![
        right("every event", check, log().heard(&[1, 2, 3, 4]).history()),
        wrong("one that is left out", check, log().heard(&[1, 3, 4]).history()),
        wrong("one that comes twice", check, log().heard(&[1, 2, 2, 3, 4]).history()),
        wrong("two that change places", check, log().heard(&[1, 3, 2, 4]).history()),
        wrong("one that is told otherwise", check, other),
        wrong("an end that is never heard of", check, log().heard(&[1, 2, 3]).history()),
        right("back, with what was missed", check, back(Some(2), 3, true, &[3, 4])),
        wrong("back, without what was missed", check, back(Some(2), 3, true, &[4])),
        wrong("back, with what was known", check, back(Some(2), 3, true, &[2, 3, 4])),
        wrong("a snapshot that was not needed", check, back(Some(2), 4, false, &[])),
        right("a snapshot", check, snapshot(vec![held()])),
        wrong("a snapshot without a lock", check, snapshot(Vec::new())),
        wrong("a snapshot with a lock that had ended", check, snapshot(vec![held(), seen("ann", 1, 500)])),
        wrong("a snapshot with a lock twice", check, snapshot(vec![held(), held()])),
    ]
}
