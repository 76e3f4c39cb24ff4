//! The rooms a token is good for.

use crate::locking::names::{MAX_NAME_BYTES, RoomId};

/// Each becomes a part of one SQL expression, whose depth databases limit.
const MAX_GLOBS: usize = 200;

/// `*` stands for any run of characters, `?` for one. None given: every room of the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoomGlobs(Option<Vec<String>>);

impl RoomGlobs {
    /// None: every room.
    pub fn parse(patterns: Option<Vec<String>>) -> Result<Self, &'static str> {
        let all = patterns.as_deref().unwrap_or_default();
        if all.len() > MAX_GLOBS {
            return Err("names more than 200 rooms");
        }
        if all.iter().any(|glob| glob.len() > MAX_NAME_BYTES || glob.chars().any(char::is_control)) {
            return Err("has a room of more than 200 bytes, or with control characters");
        }
        Ok(Self(patterns))
    }

    pub fn from_stored(patterns: Option<Vec<String>>) -> Self {
        Self(patterns)
    }

    pub fn all() -> Self {
        Self(None)
    }

    pub fn patterns(&self) -> Option<&[String]> {
        self.0.as_deref()
    }

    pub fn allow(&self, room: &RoomId) -> bool {
        self.0.as_ref().is_none_or(|globs| globs.iter().any(|glob| matches(glob, room.as_str())))
    }
}

/// Goes back to the last `*` only: linear in practice, never exponential.
fn matches(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut g, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match glob.get(g) {
            Some('*') => {
                star = Some((g + 1, t));
                g += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                g += 1;
                t += 1;
            }
            _ => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    (g, t) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_people_expect() {
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
        ] {
            let globs = RoomGlobs::parse(Some(vec![glob.to_owned()])).unwrap();
            assert_eq!(globs.allow(&RoomId::parse(room).unwrap()), expected, "{glob} on {room}");
        }
        assert!(RoomGlobs::all().allow(&RoomId::parse("x").unwrap()));
        assert!(!RoomGlobs::parse(Some(Vec::new())).unwrap().allow(&RoomId::parse("x").unwrap()));
    }
}
