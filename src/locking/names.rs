//! Names parsed once, at the edge: whoever holds one knows that it is 1 to 200 bytes without control characters.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

pub const MAX_NAME_BYTES: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("must not be empty")]
    Empty,
    #[error("must be at most {MAX_NAME_BYTES} bytes of UTF-8, not {0}")]
    TooLong(usize),
    #[error("must not contain control characters")]
    ControlCharacter,
    #[error("must not be `.` or `..`")]
    DotSegment,
}

fn check(text: &str) -> Result<(), NameError> {
    match text {
        "" => Err(NameError::Empty),
        // URL parsers drop these two from paths, so a document of that name could be made but never reached.
        "." | ".." => Err(NameError::DotSegment),
        _ if text.len() > MAX_NAME_BYTES => Err(NameError::TooLong(text.len())),
        _ if text.chars().any(char::is_control) => Err(NameError::ControlCharacter),
        _ => Ok(()),
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $Name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $Name(Arc<str>);

        impl $Name {
            pub fn parse(text: &str) -> Result<Self, NameError> {
                check(text)?;
                Ok(Self(text.into()))
            }

            /// For text that was parsed before it was stored.
            pub fn from_stored(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $Name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                check(&text)?;
                Ok(Self(text.into()))
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

names! {
    /// Isolation boundary, from the caller's token.
    TenantId,
    /// Where participants meet and hear notices.
    RoomId,
    /// A thing locked in a room.
    DocumentId,
    /// The authenticated subject.
    OwnerId,
    /// One tab or process of an owner.
    SessionId,
    /// A client's name for one attempt, so that sending it twice acts once.
    RequestId,
    /// Opaque mark of a document's content, left by one holder for the next.
    DocumentVersion,
}

impl TenantId {
    /// The tenant of tokens that name none.
    pub fn default_tenant() -> Self {
        Self::from_stored("default")
    }
}

impl DocumentId {
    /// The room's own document, meant by paths that name none.
    pub fn main() -> Self {
        Self::from_stored("main")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_1_to_200_bytes_without_control_characters_or_dot_segments() {
        assert_eq!(RoomId::parse(""), Err(NameError::Empty));
        assert_eq!(RoomId::parse(&"a".repeat(201)), Err(NameError::TooLong(201)));
        assert_eq!(RoomId::parse(&"😀".repeat(51)), Err(NameError::TooLong(204)));
        assert_eq!(RoomId::parse("a\u{0}"), Err(NameError::ControlCharacter));
        assert_eq!(RoomId::parse("a\u{9f}"), Err(NameError::ControlCharacter));
        assert_eq!(RoomId::parse("."), Err(NameError::DotSegment));
        assert_eq!(RoomId::parse(".."), Err(NameError::DotSegment));
        for good in ["a", "...", "a/b c", "議事録", &"a".repeat(200), &"😀".repeat(50)] {
            assert_eq!(RoomId::parse(good).unwrap().as_str(), good);
        }
    }
}
