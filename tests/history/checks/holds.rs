//! What clients can count on, by their own clock and without the log: from the answer that grants a lock until the
//! moment that `expires_in_ms`, counted from before the request was sent, tells; longer with every heartbeat that succeeds;
//! but not past the moment when anyone sent something that may have ended it.

use std::collections::HashMap;

use uuid::Uuid;

use crate::{
    history::History,
    record::{Call, Moment, NEVER, Name, Seen},
    request::Verb,
};

#[derive(Debug, Clone)]
pub struct Hold {
    pub key: Name,
    pub lease: Uuid,
    pub token: i64,
    pub owner: Name,
    /// From here on nobody else can have had it.
    pub from: Moment,
    pub until: Moment,
    /// By the server's clock, the least `expires_at` that can have been the last word on it; none if that is not known.
    pub promised: Option<i64>,
    words: Vec<Word>,
    ended: Moment,
}

/// What a request has made, or may have made, of a lock's end.
#[derive(Debug, Clone)]
struct Word {
    sent: Moment,
    /// Never, if it was not answered.
    returned: Moment,
    deadline: Moment,
    expires_at: Option<i64>,
}

impl Hold {
    /// Whether there is any moment at which it is certain.
    pub fn is_certain(&self) -> bool {
        self.from < self.until
    }

    /// Whether its holder could count on it from the one moment to the other. That is less than that nobody else can have
    /// had it: a lock that is overdue has ended for those who look, and may yet be given grace.
    pub fn covers(&self, from: Moment, until: Moment) -> bool {
        let newest = self.words.iter().filter(|word| word.returned < from).map(|word| word.sent).max();
        let Some(newest) = newest.filter(|_| self.ended > until) else { return false };
        let in_force = self.words.iter().filter(|word| word.sent <= until && word.returned >= newest);
        in_force.map(|word| word.deadline).min().is_some_and(|deadline| deadline > until)
    }
}

/// One lease as its holder saw it.
struct Lease<'h> {
    id: Uuid,
    seen: &'h Seen,
    /// Without session, or not known: it can be meant by a request that names nothing.
    session: Option<&'h Name>,
    calls: Vec<(&'h Call, &'h Seen)>,
}

/// Every lease that was answered, by document, in the order in which they begin.
pub fn all(history: &History) -> HashMap<Name, Vec<Hold>> {
    let mut leases: HashMap<Uuid, Lease> = HashMap::new();
    for call in &history.calls {
        for seen in call.answer.live() {
            let Some(id) = seen.lease else { continue };
            let lease = leases.entry(id).or_insert_with(|| {
                let session = if call.verb() == Verb::Lock { call.request.session.as_ref() } else { None };
                Lease { id, seen, session, calls: Vec::new() }
            });
            lease.calls.push((call, seen));
        }
    }
    let enders: Vec<&Call> = history.calls.iter().filter(|call| call.verb() == Verb::ForceMatching).collect();
    let mut holds: HashMap<Name, Vec<Hold>> = HashMap::new();
    for lease in leases.values() {
        let on_it: Vec<&Call> = history.calls_on(&lease.seen.key).chain(enders.iter().copied()).collect();
        let hold = lease.hold(&on_it);
        holds.entry(hold.key.clone()).or_default().push(hold);
    }
    for holds in holds.values_mut() {
        holds.sort_by_key(|hold| hold.from);
    }
    holds
}

impl Lease<'_> {
    fn hold(&self, on_it: &[&Call]) -> Hold {
        let first_answer = self.calls.iter().map(|(call, _)| call.settled).min().unwrap_or(NEVER);
        let first_sent = self.calls.iter().map(|(call, _)| call.invoked).min().unwrap_or(NEVER);
        // Whoever is answered by a live lock has proved that it had lived until then.
        let proved = self.calls.iter().map(|(call, _)| call.invoked).max().unwrap_or_default();
        let enders = on_it.iter().filter(|call| call.returned() >= first_sent && self.may_be_ended_by(call));
        let ended = enders.map(|call| call.invoked).min().unwrap_or(NEVER);
        let words = self.words(on_it);
        // The last word is one after which no other was certainly sent.
        let newest = self.calls.iter().map(|(call, _)| call.invoked).max().unwrap_or_default();
        let last: Vec<_> = words.iter().filter(|word| word.returned >= newest).collect();
        let deadline = last.iter().map(|word| word.deadline).min().unwrap_or_default();
        let promised: Option<Vec<i64>> = last.iter().map(|word| word.expires_at).collect();
        Hold {
            key: self.seen.key.clone(),
            lease: self.id,
            token: self.seen.token,
            owner: self.seen.owner.clone(),
            from: first_answer,
            until: deadline.max(proved).min(ended),
            promised: promised.and_then(|promised| promised.into_iter().min()),
            words,
            ended,
        }
    }

    fn words(&self, on_it: &[&Call]) -> Vec<Word> {
        let millis = |millis: i64| Moment::from_millis(millis.unsigned_abs());
        let word = |call: &Call, lives_ms: i64, expires_at: Option<i64>| Word {
            sent: call.invoked,
            returned: call.returned(),
            deadline: call.invoked + millis(lives_ms),
            expires_at,
        };
        let told = self.calls.iter().map(|(call, seen)| word(call, seen.expires_in_ms, Some(seen.expires_at)));
        let untold = on_it.iter().filter(|call| call.answer.is_open() && self.may_be_moved_by(call));
        let untold = untold.map(|call| match call.verb() {
            Verb::Release => word(call, i64::from(call.request.linger_ms), None),
            _ => word(call, i64::from(call.request.ttl_seconds.unwrap_or(1)) * 1000, None),
        });
        told.chain(untold).collect()
    }

    fn is_its_owner(&self, call: &Call) -> bool {
        call.owner == self.seen.owner
    }

    fn is_named_by(&self, call: &Call) -> bool {
        call.request.lease.is_none_or(|lease| lease == self.id)
            && (call.request.session.is_none()
                || self.session.is_none()
                || call.request.session.as_ref() == self.session)
    }

    /// Extended, resumed, or left to linger.
    fn may_be_moved_by(&self, call: &Call) -> bool {
        let is_a_move = match call.verb() {
            Verb::Heartbeat | Verb::Release => true,
            Verb::Lock => call.request.session.is_some(),
            _ => false,
        };
        is_a_move && self.is_its_owner(call) && self.is_named_by(call)
    }

    fn may_be_ended_by(&self, call: &Call) -> bool {
        let request = &call.request;
        let has_ended_it =
            || call.answer.ended().iter().any(|end| end.key == self.seen.key && end.token == self.seen.token);
        match call.verb() {
            Verb::Unlock | Verb::Release => {
                self.is_its_owner(call) && self.is_named_by(call) && (call.answer.is_open() || has_ended_it())
            }
            Verb::ForceUnlock => request.lease == Some(self.id) && (call.answer.is_open() || has_ended_it()),
            Verb::ForceMatching => {
                let is_refused = !call.answer.failed().is_empty();
                !is_refused
                    && request.is_about(&self.seen.key)
                    && request.filter_owner.as_ref().is_none_or(|owner| *owner == self.seen.owner)
            }
            Verb::Lock if request.takeover => {
                let got_another = call.answer.live().iter().any(|seen| seen.lease != Some(self.id) && !seen.resumed);
                let may_mean_it = request.expected_token.is_none_or(|token| token == self.seen.token);
                may_mean_it && (call.answer.is_open() || got_another)
            }
            Verb::Lock | Verb::Heartbeat | Verb::Look | Verb::Verify | Verb::List => false,
        }
    }
}
