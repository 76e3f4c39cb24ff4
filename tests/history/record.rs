//! What was asked and answered, and when.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::request::{Request, Verb};

pub type Name = Arc<str>;

/// Since the run began, by a clock that nobody steps.
pub type Moment = Duration;

/// When something happened that had not been answered by the end.
pub const NEVER: Moment = Moment::MAX;

#[derive(Debug, Clone, Copy)]
pub struct Watch(Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "a history is ordered by the clients' own clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn now(self) -> Moment {
        self.0.elapsed()
    }
}

/// A lock as an answer or a notice shows it.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub key: Name,
    pub token: i64,
    /// Shown to its owner and to admins.
    pub lease: Option<Uuid>,
    pub owner: Name,
    pub hold: u32,
    pub resumed: bool,
    /// By the server's clock, in milliseconds.
    pub expires_at: i64,
    pub expires_in_ms: i64,
    pub ttl_seconds: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub key: Name,
    pub token: i64,
}

/// What was refused for one document.
#[derive(Debug, Clone)]
pub struct Failed {
    pub key: Name,
    pub code: String,
    pub lock: Option<Seen>,
    pub is_you: Option<bool>,
}

#[derive(Debug, Clone, Default)]
pub struct Refused {
    pub status: u16,
    pub code: String,
    pub failed: Vec<Failed>,
    /// Of several documents, those that were extended or unlocked all the same.
    pub live: Vec<Seen>,
    pub ended: Vec<Ended>,
}

#[derive(Debug, Clone)]
pub enum Answer {
    /// The connection broke or was given up: done, not done, or done later.
    Lost,
    /// 503 `OUTCOME_UNKNOWN`: the same.
    Unknown,
    Live(Vec<Seen>),
    Ended(Vec<Ended>),
    Looked {
        lock: Option<Seen>,
        last_token: i64,
    },
    Verified {
        valid: bool,
        current_token: i64,
    },
    Listed(Vec<Seen>),
    /// How many a filtered force-unlock has ended.
    Unlocked(i64),
    Refused(Refused),
    /// Something no server may answer.
    Odd(String),
}

impl Answer {
    /// Whether it may have had an effect that it does not tell of.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Lost | Self::Unknown | Self::Odd(_))
    }

    pub fn live(&self) -> &[Seen] {
        match self {
            Self::Live(live) | Self::Refused(Refused { live, .. }) => live,
            _ => &[],
        }
    }

    pub fn ended(&self) -> &[Ended] {
        match self {
            Self::Ended(ended) | Self::Refused(Refused { ended, .. }) => ended,
            _ => &[],
        }
    }

    pub fn failed(&self) -> &[Failed] {
        match self {
            Self::Refused(refused) => &refused.failed,
            _ => &[],
        }
    }

    /// A word for the summary.
    pub fn kind(&self) -> String {
        match self {
            Self::Lost => "no answer".to_owned(),
            Self::Unknown => "503 OUTCOME_UNKNOWN".to_owned(),
            Self::Refused(refused) => format!("{} {}", refused.status, refused.code),
            Self::Odd(_) => "odd".to_owned(),
            _ => "200".to_owned(),
        }
    }
}

/// One request sent once.
#[derive(Debug, Clone)]
pub struct Call {
    pub owner: Name,
    pub server: usize,
    pub request: Arc<Request>,
    pub invoked: Moment,
    /// When the client was done with it, be it by an answer or because it gave up.
    pub settled: Moment,
    pub answer: Answer,
}

impl Call {
    /// Its effect is not later than this.
    pub fn returned(&self) -> Moment {
        if self.answer.is_open() { NEVER } else { self.settled }
    }

    pub fn verb(&self) -> Verb {
        self.request.verb
    }
}

/// Something done to the servers or to the database.
#[derive(Debug, Clone)]
pub struct Trouble {
    pub kind: &'static str,
    pub told: String,
    pub from: Moment,
    pub until: Moment,
}

/// Where clients write what they saw.
#[derive(Debug, Default)]
pub struct Record(Mutex<Vec<Call>>);

impl Record {
    #[expect(clippy::unwrap_used, reason = "poisoned only by a panic, which ends the run")]
    pub fn add(&self, call: Call) {
        self.0.lock().unwrap().push(call);
    }

    /// In the order of their invocation.
    #[expect(clippy::unwrap_used, reason = "poisoned only by a panic, which ends the run")]
    pub fn take(&self) -> Vec<Call> {
        let mut calls = std::mem::take(&mut *self.0.lock().unwrap());
        calls.sort_by_key(|call| call.invoked);
        calls
    }
}
