//! A moment of doclock's clock, in whole milliseconds.

use std::fmt;

use chrono::{DateTime, Datelike, Timelike, Utc};
use serde::{Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    #[must_use]
    pub fn plus_seconds(self, seconds: u32) -> Self {
        self.plus_millis(i64::from(seconds) * 1000)
    }

    /// Milliseconds from `earlier` to `self`; negative if `earlier` is later.
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Timestamp {
    /// RFC 3339, UTC, with milliseconds. Written digit by digit: every answer has several, and a formatter that can do
    /// more costs ten times as much.
    fn text(self) -> [u8; 24] {
        let time = DateTime::<Utc>::from_timestamp_millis(self.0).unwrap_or_default();
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |end: usize, digits: usize, mut number: u32| {
            for place in text[end - digits..end].iter_mut().rev() {
                *place = b'0' + (number % 10) as u8;
                number /= 10;
            }
        };
        put(4, 4, time.year().unsigned_abs());
        put(7, 2, time.month());
        put(10, 2, time.day());
        put(13, 2, time.hour());
        put(16, 2, time.minute());
        put(19, 2, time.second());
        put(23, 3, time.timestamp_subsec_millis());
        text
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_utc_with_milliseconds() {
        assert_eq!(Timestamp::from_millis(1_800_000_000_007).to_string(), "2027-01-15T08:00:00.007Z");
        assert_eq!(Timestamp::from_millis(1_798_761_599_999).to_string(), "2026-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_millis(1_709_210_096_120).to_string(), "2024-02-29T12:34:56.120Z");
    }
}
