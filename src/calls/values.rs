//! Values of requests that have a range or a form of their own: who holds one of these need not check it again.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::locking::names::DocumentId;

/// How long a lock lives past its last heartbeat: 1 second to the maximum of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl(u32);

impl Ttl {
    pub fn parse(seconds: u32, max: u32) -> Result<Self, Problem> {
        if (1..=max).contains(&seconds) {
            Ok(Self(seconds))
        } else {
            Err(Problem::invalid("ttl_seconds", format!("must be 1 to {max}")))
        }
    }

    pub fn seconds(self) -> u32 {
        self.0
    }
}

/// How many may hold a document at once: 1 to 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity(u32);

impl Capacity {
    pub fn parse(count: u32) -> Result<Self, Problem> {
        if (1..=1000).contains(&count) {
            Ok(Self(count))
        } else {
            Err(Problem::invalid("capacity", "must be 1 to 1000"))
        }
    }

    pub fn count(self) -> u32 {
        self.0
    }
}

/// How long a lock outlives the page that released it: up to 10 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linger(u32);

impl Linger {
    pub fn parse(millis: u32) -> Result<Self, Problem> {
        if millis <= 10_000 { Ok(Self(millis)) } else { Err(Problem::invalid("linger_ms", "must be 0 to 10000")) }
    }

    pub fn millis(self) -> u32 {
        self.0
    }
}

/// How long a request waits: up to 55 seconds, so that proxies do not end it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTime(u32);

impl WaitTime {
    /// None if the request does not wait at all.
    pub fn parse(millis: Option<u32>) -> Result<Option<Self>, Problem> {
        match millis.unwrap_or_default() {
            0 => Ok(None),
            millis @ 1..=55_000 => Ok(Some(Self(millis))),
            _ => Err(Problem::invalid("wait_ms", "must be 0 to 55000")),
        }
    }

    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

/// What keeps a lock alive besides heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The socket that it was locked by, as long as it answers pings.
    Connection,
}

/// What somebody says with an ask or its answer: at most 500 bytes, no control characters.
pub fn message(given: Option<String>) -> Result<Option<Arc<str>>, Problem> {
    given.map(|text| text_of("message", text)).transpose()
}

fn text_of(field: &str, text: String) -> Result<Arc<str>, Problem> {
    const MAX_BYTES: usize = 500;
    if text.len() > MAX_BYTES {
        return Err(Problem::invalid(field, format!("must be at most {MAX_BYTES} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(Problem::invalid(field, "must not contain control characters"));
    }
    Ok(text.into())
}

/// How many items a page has: 1 to 1000, 100 unless given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit(u64);

impl PageLimit {
    pub fn parse(given: Option<u64>) -> Result<Self, Problem> {
        match given.unwrap_or(100) {
            limit @ 1..=1000 => Ok(Self(limit)),
            _ => Err(Problem::invalid("limit", "must be 1 to 1000")),
        }
    }

    pub fn items(self) -> u64 {
        self.0
    }
}

/// The reason an admin gives, for the audit trail: at most 500 bytes, no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note(Arc<str>);

impl Note {
    pub fn parse(reason: String) -> Result<Self, Problem> {
        text_of("reason", reason).map(Self)
    }

    pub fn text(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// 1 to 100 different documents of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<DocumentId>")]
pub struct Documents(Vec<DocumentId>);

impl TryFrom<Vec<DocumentId>> for Documents {
    type Error = &'static str;

    fn try_from(documents: Vec<DocumentId>) -> Result<Self, Self::Error> {
        if !(1..=100).contains(&documents.len()) {
            return Err("must be 1 to 100 documents");
        }
        let mut sorted: Vec<_> = documents.iter().collect();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("must not name a document twice");
        }
        Ok(Self(documents))
    }
}

impl Documents {
    pub fn as_slice(&self) -> &[DocumentId] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_up_to_their_limits_and_not_beyond() {
        for (seconds, fits) in [(0, false), (1, true), (300, true), (301, false)] {
            assert_eq!(Ttl::parse(seconds, 300).is_ok(), fits, "{seconds}");
        }
        for (count, fits) in [(0, false), (1, true), (1000, true), (1001, false)] {
            assert_eq!(Capacity::parse(count).is_ok(), fits, "{count}");
            assert_eq!(PageLimit::parse(Some(count.into())).is_ok(), fits, "{count}");
        }
        assert_eq!(PageLimit::parse(None).unwrap().items(), 100);
        assert!(Linger::parse(10_000).is_ok() && Linger::parse(10_001).is_err());
        assert!(Note::parse("x".repeat(500)).is_ok() && Note::parse("x".repeat(501)).is_err());
        assert!(Note::parse("two\nlines".to_owned()).is_err());
    }

    #[test]
    fn a_list_of_documents_names_each_of_up_to_100_once() {
        let documents = |count: usize| (0..count).map(|index| DocumentId::from_stored(index.to_string())).collect();
        for (count, fits) in [(0, false), (1, true), (100, true), (101, false)] {
            let documents: Vec<_> = documents(count);
            assert_eq!(Documents::try_from(documents).is_ok(), fits, "{count}");
        }
        let mut twice: Vec<_> = documents(3);
        twice.push(twice[0].clone());
        assert_eq!(Documents::try_from(twice), Err("must not name a document twice"));
    }
}
