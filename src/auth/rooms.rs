//! The rooms a token is good for.

use std::sync::Arc;

use crate::locking::names::{MAX_NAME_BYTES, RoomId};

/// Every pattern becomes part of one SQL expression, and databases limit how deep an expression may be.
const MAX_GLOBS: usize = 200;

/// The rooms a token is good for, as patterns: `*` stands for any run of characters, `?` for one. Without patterns it
/// is every room of the tenant. Compiled once, when the token is verified; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RoomGlobs(Option<Arc<Patterns>>);

#[derive(Debug)]
struct Patterns {
    texts: Vec<String>,
    globs: Vec<Glob>,
}

impl PartialEq for RoomGlobs {
    fn eq(&self, other: &Self) -> bool {
        self.patterns() == other.patterns()
    }
}

impl Eq for RoomGlobs {}

impl RoomGlobs {
    /// Parses the claim `rooms`; without one, every room is allowed. Fails if there are too many patterns, or if one is
    /// too long or has control characters.
    pub fn parse(patterns: Option<Vec<String>>) -> Result<Self, &'static str> {
        let all = patterns.as_deref().unwrap_or_default();
        if all.len() > MAX_GLOBS {
            return Err("names more than 200 rooms");
        }
        if all.iter().any(|glob| glob.len() > MAX_NAME_BYTES || glob.chars().any(char::is_control)) {
            return Err("has a room of more than 200 bytes, or with control characters");
        }
        Ok(Self::from_stored(patterns))
    }

    /// For patterns that were parsed before they were stored.
    pub fn from_stored(patterns: Option<Vec<String>>) -> Self {
        let compiled = |texts: Vec<String>| {
            let globs = texts.iter().map(|text| Glob::compile(text)).collect();
            Arc::new(Patterns { texts, globs })
        };
        Self(patterns.map(compiled))
    }

    pub fn all() -> Self {
        Self(None)
    }

    /// Returns the patterns as they were given; `None` if every room is allowed.
    pub fn patterns(&self) -> Option<&[String]> {
        self.0.as_deref().map(|patterns| patterns.texts.as_slice())
    }

    pub fn allow(&self, room: &RoomId) -> bool {
        self.0.as_ref().is_none_or(|patterns| patterns.globs.iter().any(|glob| glob.matches(room.as_str())))
    }
}

/// One pattern. Nearly all are names or prefixes, which need no more than a comparison.
#[derive(Debug)]
enum Glob {
    /// No wildcard.
    Name(Box<str>),
    /// One `*`, at the end.
    Prefix(Box<str>),
    Pattern(Box<str>),
}

impl Glob {
    fn compile(text: &str) -> Self {
        match text.find(['*', '?']) {
            None => Self::Name(text.into()),
            Some(first) if &text[first..] == "*" => Self::Prefix(text[..first].into()),
            Some(_) => Self::Pattern(text.into()),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Name(name) => text == &**name,
            Self::Prefix(prefix) => text.starts_with(&**prefix),
            Self::Pattern(glob) => matches(glob, text),
        }
    }
}

/// Returns whether the whole text fits the pattern. After a mismatch it goes back to the last `*` only: linear in
/// practice, never exponential. Nothing is copied.
fn matches(glob: &str, text: &str) -> bool {
    let (mut glob, mut text) = (glob.chars(), text.chars());
    // Where to go on after a mismatch: behind the last `*`, which then takes one more character.
    let mut retry = None;
    loop {
        let before = (glob.clone(), text.clone());
        match (glob.next(), text.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                text = before.1;
                retry = Some((glob.clone(), text.clone()));
            }
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {}
            (Some(_) | None, Some(_)) => {
                let Some((after, from)) = &mut retry else { return false };
                from.next();
                (glob, text) = (after.clone(), from.clone());
            }
            (Some(_), None) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_people_expect() {
        for (glob, room, expected) in [
            ("team-*", "team-a", true),
            ("team-*", "team-", true),
            ("team-*", "xteam-a", false),
            ("*", "anything", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("r?om", "room", true),
            ("r?om", "rm", false),
            ("r?om", "räom", true),
            ("[a]", "[a]", true),
            ("[a]", "a", false),
            ("Team", "team", false),
            ("", "a", false),
            ("team-a", "team-a", true),
            ("team-a", "team-ab", false),
            ("a*", "a", true),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("**", "x", true),
            ("a**b", "a--b", true),
            ("*?", "x", true),
            ("?*?", "x", false),
            ("*ab*", "aab", true),
            ("*aab", "aaab", true),
        ] {
            let globs = RoomGlobs::parse(Some(vec![glob.to_owned()])).unwrap();
            assert_eq!(globs.allow(&RoomId::parse(room).unwrap()), expected, "{glob} on {room}");
        }
        assert!(RoomGlobs::all().allow(&RoomId::parse("x").unwrap()));
        assert!(!RoomGlobs::parse(Some(Vec::new())).unwrap().allow(&RoomId::parse("x").unwrap()));
    }
}
