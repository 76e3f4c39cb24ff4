//! One round, whole: what was asked and answered, what was done to the servers, what followers heard, and the log.
//!
//! The log has the server's times, which are stepped, and the calls have the clients'. They are joined by order alone: an
//! event is not older than the first request that can have caused it, and not younger than the first answer or notice
//! that tells of it; and since the log is in the order of commits, neither is older than what bounds an event before
//! it, nor younger than what bounds one after it.

use std::collections::HashMap;

use uuid::Uuid;

use crate::{
    followers::Visit,
    log::{Committed, Event, Reason},
    record::{Call, Moment, NEVER, Name, Seen, Trouble},
    request::Verb,
};

/// Where a lease begins and ends in the log.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    pub lock: usize,
    pub end: Option<usize>,
}

#[derive(Debug, Default)]
pub struct History {
    pub calls: Vec<Call>,
    pub troubles: Vec<Trouble>,
    pub visits: Vec<Visit>,
    pub log: Vec<Event>,
    pub committed: Vec<Committed>,
    /// The log's last sequence before the round.
    pub start: i64,
    leases: HashMap<Uuid, Lease>,
    events: HashMap<Name, Vec<usize>>,
    calls_of: HashMap<Name, Vec<usize>>,
    tags: HashMap<u64, Vec<usize>>,
    requests: HashMap<(Name, Name), Vec<usize>>,
}

impl History {
    pub fn new(start: i64, calls: Vec<Call>, troubles: Vec<Trouble>, visits: Vec<Visit>, log: Vec<Event>) -> Self {
        let mut history = Self { calls, troubles, visits, log, start, ..Self::default() };
        history.index();
        history.committed = history.bounds();
        history
    }

    fn index(&mut self) {
        for (index, event) in self.log.iter().enumerate() {
            self.events.entry(event.key.clone()).or_default().push(index);
            if event.is_lock() {
                self.leases.entry(event.lease).or_insert(Lease { lock: index, end: None });
            } else if let Some(lease) = self.leases.get_mut(&event.lease) {
                lease.end.get_or_insert(index);
            }
        }
        for (index, call) in self.calls.iter().enumerate() {
            for key in call.request.keys() {
                self.calls_of.entry(key).or_default().push(index);
            }
            if let Some(tag) = call.request.tag {
                self.tags.entry(tag).or_default().push(index);
            }
            if let Some(id) = &call.request.id {
                self.requests.entry((call.owner.clone(), id.clone())).or_default().push(index);
            }
        }
    }

    fn bounds(&self) -> Vec<Committed> {
        let unknown = Committed { not_before: Moment::ZERO, not_after: NEVER };
        let mut bounds = vec![unknown; self.log.len()];
        for (bound, event) in bounds.iter_mut().zip(&self.log).filter(|(_, event)| event.is_lock()) {
            let sent = event.tag.into_iter().flat_map(|tag| self.sent_with_tag(tag));
            bound.not_before = sent.map(|call| call.invoked).min().unwrap_or_default();
        }
        for call in &self.calls {
            for lease in call.answer.live().iter().filter_map(|seen| self.lease(seen.lease?)) {
                bounds[lease.lock].not_after = bounds[lease.lock].not_after.min(call.settled);
            }
            for ended in call.answer.ended() {
                // A token that was given twice tells nothing of either lease.
                let leases: Vec<Lease> = self.grants(&ended.key, ended.token).collect();
                let [Lease { end: Some(end), .. }] = leases[..] else { continue };
                bounds[end].not_after = bounds[end].not_after.min(call.settled);
                let first = self.sent_alike(call).map(|call| call.invoked).min().unwrap_or(call.invoked);
                bounds[end].not_before = bounds[end].not_before.max(first);
            }
        }
        for notice in self.visits.iter().flat_map(|visit| &visit.heard) {
            let index = usize::try_from(notice.sequence - self.start - 1).ok();
            if let Some(bound) = index.and_then(|index| bounds.get_mut(index)) {
                bound.not_after = bound.not_after.min(notice.heard);
            }
        }
        let mut earliest = Moment::ZERO;
        for bound in &mut bounds {
            earliest = earliest.max(bound.not_before);
            bound.not_before = earliest;
        }
        let mut latest = NEVER;
        for bound in bounds.iter_mut().rev() {
            latest = latest.min(bound.not_after);
            bound.not_after = latest;
        }
        bounds
    }

    pub fn lease(&self, lease: Uuid) -> Option<Lease> {
        self.leases.get(&lease).copied()
    }

    /// Of one document, each with the event that granted it.
    pub fn leases_of(&self, key: &str) -> impl Iterator<Item = (&Event, Lease)> {
        let locks = self.events_of(key).iter().map(|index| &self.log[*index]).filter(|event| event.is_lock());
        locks.filter_map(|event| Some((event, self.lease(event.lease)?)))
    }

    /// Indices into the log.
    pub fn events_of(&self, key: &str) -> &[usize] {
        self.events.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn keys(&self) -> impl Iterator<Item = &Name> {
        self.events.keys()
    }

    pub fn calls_on(&self, key: &str) -> impl Iterator<Item = &Call> {
        self.calls_of.get(key).into_iter().flatten().map(|index| &self.calls[*index])
    }

    pub fn sent_with_tag(&self, tag: u64) -> impl Iterator<Item = &Call> {
        self.tags.get(&tag).into_iter().flatten().map(|index| &self.calls[*index])
    }

    /// By owner and id, all that was sent with it.
    pub fn requests(&self) -> impl Iterator<Item = Vec<&Call>> {
        self.requests.values().map(|indices| indices.iter().map(|index| &self.calls[*index]).collect())
    }

    /// Every time the same request was sent; once, if it has no id.
    pub fn sent_alike<'h>(&'h self, call: &'h Call) -> impl Iterator<Item = &'h Call> {
        let id = call.request.id.clone();
        let with_id = id.and_then(|id| self.requests.get(&(call.owner.clone(), id)));
        let others = with_id.into_iter().flatten().map(|index| &self.calls[*index]);
        let others = others.filter(|other| other.request == call.request);
        others.chain(call.request.id.is_none().then_some(call))
    }

    /// Leases that the log gave this token to; more than one only if something is very wrong.
    pub fn grants(&self, key: &str, token: i64) -> impl Iterator<Item = Lease> {
        self.leases_of(key).filter(move |(event, _)| event.token == token).map(|(_, lease)| lease)
    }

    /// Whether it can have been live, by the log, at a moment between these two.
    pub fn was_live(&self, lease: Lease, from: Moment, until: Moment) -> bool {
        let ended = lease.end.map_or(NEVER, |end| self.committed[end].not_after);
        self.committed[lease.lock].not_before <= until && ended >= from
    }

    /// Whether it must have been live, by the log, from the one moment to the other.
    pub fn stayed_live(&self, lease: Lease, from: Moment, until: Moment) -> bool {
        let ended = lease.end.map_or(NEVER, |end| self.committed[end].not_before);
        self.committed[lease.lock].not_after < from && ended > until
    }

    /// Whether the log can have had this lock at a moment of the call.
    pub fn shows(&self, seen: &Seen, call: &Call) -> bool {
        self.grants(&seen.key, seen.token).any(|lease| {
            let event = &self.log[lease.lock];
            event.owner == seen.owner
                && seen.lease.is_none_or(|shown| shown == event.lease)
                && self.was_live(lease, call.invoked, call.returned())
        })
    }

    /// Whether more than one server was asked.
    pub fn has_several_servers(&self) -> bool {
        self.calls.iter().any(|call| call.server > 0)
    }

    pub fn reason(&self, lease: Lease) -> Option<Reason> {
        lease.end.and_then(|end| self.log[end].reason())
    }

    /// The most that anyone asked for.
    pub fn largest_capacity(&self, key: &str) -> usize {
        let asked =
            self.calls_on(key).filter(|call| call.verb() == Verb::Lock).filter_map(|call| call.request.capacity);
        asked.max().unwrap_or(1) as usize
    }
}
