//! What a lock is called: a document in a room.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::LockError;

const DEFAULT_ROOM: &str = "locks";
const MAX_BYTES: usize = 200;
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LockName {
    room: String,
    document: String,
}

impl LockName {
    /// `refresh` is the document `refresh` of the room `locks`; `minutes/intro` is the document `intro` of the room
    /// `minutes`. Fails on a name that the server would refuse, so that the mistake shows where it was made.
    pub fn parse(name: &str) -> Result<Self, LockError> {
        let (room, document) = name.split_once('/').unwrap_or((DEFAULT_ROOM, name));
        Self::new(room, document)
    }

    pub fn new(room: &str, document: &str) -> Result<Self, LockError> {
        check("room", room)?;
        check("document", document)?;
        Ok(Self { room: room.to_owned(), document: document.to_owned() })
    }

    pub fn room(&self) -> &str {
        &self.room
    }

    pub fn document(&self) -> &str {
        &self.document
    }

    /// The path of its lock in the HTTP API.
    pub(super) fn path(&self) -> String {
        let part = |text| utf8_percent_encode(text, ESCAPED);
        format!("/api/documents/{}/{}/lock", part(&self.room), part(&self.document))
    }
}

fn check(what: &str, part: &str) -> Result<(), LockError> {
    let wrong = |reason: String| Err(LockError::NotConfigured(format!("the {what} of the lock's name {reason}")));
    if part.is_empty() || part.len() > MAX_BYTES {
        return wrong(format!("must have 1 to {MAX_BYTES} bytes; it has {}", part.len()));
    }
    if part == "." || part == ".." {
        return wrong("must not be `.` or `..`".to_owned());
    }
    if part.chars().any(char::is_control) {
        return wrong("must not have control characters".to_owned());
    }
    Ok(())
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.room == DEFAULT_ROOM {
            f.write_str(&self.document)
        } else {
            write!(f, "{}/{}", self.room, self.document)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_slash_is_a_document_of_the_room_locks() {
        let name = LockName::parse("refresh").unwrap();
        assert_eq!((name.room(), name.document()), ("locks", "refresh"));
        let name = LockName::parse("minutes/part/1").unwrap();
        assert_eq!((name.room(), name.document()), ("minutes", "part/1"));
        assert_eq!(name.path(), "/api/documents/minutes/part%2F1/lock");
    }

    #[test]
    fn a_name_that_the_server_would_refuse_is_refused_here() {
        for name in ["", "/", "a/", "/b", "../b", "a/.", "a\nb", &"x".repeat(201)] {
            assert!(matches!(LockName::parse(name), Err(LockError::NotConfigured(_))), "{name:?}");
        }
        LockName::parse(&"é".repeat(100)).unwrap();
    }
}
