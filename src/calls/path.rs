//! Names in a path, found by the pattern of its route.

use percent_encoding::percent_decode_str;

use super::Problem;
use crate::locking::names::NameError;

/// The segment of `path` that stands where `{name}` stands in `pattern`, decoded and parsed. It is decoded from what was
/// sent: a router's own decoding may turn two different invalid names into the same one.
pub fn segment<T>(
    pattern: &str,
    path: &str,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<T, Problem> {
    let is_meant = |part: &str| part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) == Some(name);
    let found = pattern.split('/').zip(path.split('/')).find(|(part, _)| is_meant(part));
    let raw = found.map_or("", |(_, raw)| raw);
    let text = percent_decode_str(raw).decode_utf8().map_err(|_| Problem::invalid(name, "must be UTF-8"))?;
    parse(&text).map_err(|reason| Problem::invalid(name, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locking::names::{DocumentId, RoomId};

    #[test]
    fn a_segment_is_found_by_its_name_and_decoded_once() {
        const PATTERN: &str = "/api/documents/{room}/{document}/lock";
        let path = "/api/documents/a%2Fb/c%2525/lock";
        assert_eq!(segment(PATTERN, path, "room", RoomId::parse).unwrap().as_str(), "a/b");
        assert_eq!(segment(PATTERN, path, "document", DocumentId::parse).unwrap().as_str(), "c%25");
    }

    #[test]
    fn what_is_no_name_is_told_by_field() {
        for (path, detail) in [("/ws/%ff", "`room` must be UTF-8"), ("/ws/", "`room` must not be empty")] {
            let problem = segment("/ws/{room}", path, "room", RoomId::parse).unwrap_err();
            assert_eq!(problem.detail, detail);
        }
    }
}
