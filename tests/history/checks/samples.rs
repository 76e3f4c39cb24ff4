//! Histories made by hand, of one document unless said otherwise. Times are milliseconds.

use std::{ops::Range, sync::Arc, time::Duration};

use uuid::Uuid;

use crate::{
    followers::{Notice, Visit},
    history::History,
    log::{Event, Happened, Reason},
    record::{Answer, Call, Ended, Failed, Moment, Name, Refused, Seen, Trouble},
    request::{Request, Verb, key},
};

pub const ROOM: &str = "room";
pub const DOCUMENT: &str = "page";

#[derive(Default)]
pub struct Sample {
    calls: Vec<Call>,
    troubles: Vec<Trouble>,
    visits: Vec<Visit>,
    log: Vec<Event>,
}

pub fn moment(millis: u64) -> Moment {
    Duration::from_millis(millis)
}

pub fn page() -> Name {
    key(ROOM, DOCUMENT)
}

pub fn lease(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

pub fn request(verb: Verb) -> Request {
    Request { ttl_seconds: Some(1), ..Request::on(verb, &ROOM.into(), &DOCUMENT.into()) }
}

/// Its token is its lease's number.
pub fn seen(owner: &str, number: u128, expires_in_ms: i64) -> Seen {
    Seen {
        key: page(),
        token: i64::try_from(number).unwrap_or_default(),
        lease: Some(lease(number)),
        owner: owner.into(),
        hold: 1,
        resumed: false,
        expires_at: 1_000_000 + expires_in_ms,
        expires_in_ms,
        ttl_seconds: 1,
    }
}

pub fn live(owner: &str, number: u128, expires_in_ms: i64) -> Answer {
    Answer::Live(vec![seen(owner, number, expires_in_ms)])
}

pub fn ended(token: i64) -> Answer {
    Answer::Ended(vec![Ended { key: page(), token }])
}

pub fn refused(code: &str, lock: Option<Seen>) -> Answer {
    let failed = vec![Failed { key: page(), code: code.to_owned(), lock, is_you: None }];
    Answer::Refused(Refused { status: 409, code: code.to_owned(), failed, ..Refused::default() })
}

pub fn expired() -> Happened {
    Happened::Ended { reason: Reason::Expired, by: None }
}

pub fn by(reason: Reason, owner: &str) -> Happened {
    Happened::Ended { reason, by: Some(owner.into()) }
}

impl Sample {
    pub fn call(mut self, owner: &str, request: Request, time: Range<u64>, answer: Answer) -> Self {
        self.calls.push(Call {
            owner: owner.into(),
            server: 0,
            request: Arc::new(request),
            invoked: moment(time.start),
            settled: moment(time.end),
            answer,
        });
        self
    }

    /// A lock that is granted for so long, with the tag of its lease's number.
    pub fn granted(self, owner: &str, number: u128, time: Range<u64>, expires_in_ms: i64) -> Self {
        let at = i64::try_from(time.start).unwrap_or_default();
        let request = Request { tag: u64::try_from(number).ok(), ..request(Verb::Lock) };
        let answer = live(owner, number, expires_in_ms);
        self.call(owner, request, time, answer).event(at, owner, number, Happened::Locked)
    }

    /// The next event, at so many milliseconds past the server's 1,000 s.
    pub fn event(self, at: i64, owner: &str, number: u128, happened: Happened) -> Self {
        let token = i64::try_from(number).unwrap_or_default();
        self.event_with_token(at, owner, number, token, happened)
    }

    pub fn event_with_token(mut self, at: i64, owner: &str, number: u128, token: i64, happened: Happened) -> Self {
        self.log.push(Event {
            sequence: i64::try_from(self.log.len()).unwrap_or_default() + 1,
            at: 1_000_000 + at,
            key: page(),
            lease: lease(number),
            token,
            owner: owner.into(),
            session: None,
            tag: u64::try_from(number).ok(),
            happened,
        });
        self
    }

    /// A follower that heard these events of the log, live, after `subscribed` with sequence 0.
    pub fn heard(mut self, sequences: &[i64]) -> Self {
        let find = |sequence: &i64| self.log.iter().find(|event| event.sequence == *sequence);
        let heard: Vec<_> = sequences.iter().filter_map(find).map(notice).collect();
        let visit =
            Visit { follower: "follower".into(), room: ROOM.into(), sequence: Some(0), heard, ..Visit::default() };
        self.visits.push(visit);
        self
    }

    pub fn visit(mut self, visit: Visit) -> Self {
        self.visits.push(Visit { follower: "follower".into(), room: ROOM.into(), ..visit });
        self
    }

    /// The last event with another sequence.
    pub fn with_sequence(mut self, sequence: i64) -> Self {
        self.log.iter_mut().rev().take(1).for_each(|event| event.sequence = sequence);
        self
    }

    pub fn history(self) -> History {
        History::new(0, self.calls, self.troubles, self.visits, self.log)
    }
}

/// As it is heard three seconds in.
pub fn notice(event: &Event) -> Notice {
    Notice {
        heard: moment(3000),
        sequence: event.sequence,
        key: event.key.clone(),
        token: event.token,
        happened: event.happened.clone(),
        owner: event.is_lock().then(|| event.owner.clone()),
    }
}
