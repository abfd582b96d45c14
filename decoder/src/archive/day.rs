//! Days, as folders are called and rows are partitioned: UTC.

use std::fmt;
use std::str::FromStr;
use time::Date;
use time::format_description::well_known::Iso8601;

/// Nanoseconds of a day.
const DAY_NS: u64 = 86_400_000_000_000;

/// Julian day of 1970-01-01.
const EPOCH: i32 = 2_440_588;

/// Days since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u16);

/// A text that is no day.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no day; write it as 2026-11-30 (UTC)")]
pub struct NoDay(String);

impl Day {
    /// The day of a moment in nanoseconds since 1970 UTC.
    pub fn of(wall_ns: u64) -> Self {
        Self(u16::try_from(wall_ns / DAY_NS).unwrap_or(u16::MAX))
    }

    /// Its first moment, nanoseconds since 1970 UTC.
    pub fn begin_ns(self) -> u64 {
        u64::from(self.0) * DAY_NS
    }

    /// The first moment behind it.
    pub fn end_ns(self) -> u64 {
        self.begin_ns() + DAY_NS
    }
}

impl fmt::Display for Day {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Date::from_julian_day(EPOCH + i32::from(self.0)) {
            Ok(date) => write!(out, "{date}"),
            Err(_) => write!(out, "day {}", self.0),
        }
    }
}

impl FromStr for Day {
    type Err = NoDay;

    fn from_str(text: &str) -> Result<Self, NoDay> {
        let wrong = || NoDay(text.to_owned());
        let date = Date::parse(text, &Iso8601::DATE).map_err(|_| wrong())?;
        let day = u16::try_from(date.to_julian_day() - EPOCH).map_err(|_| wrong())?;
        // Not a moment of it.
        let day = Self(day);
        (day.to_string() == text).then_some(day).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_and_read_as_dates() {
        for (day, text) in [
            (0, "1970-01-01"),
            (20_787, "2026-11-30"),
            (20_788, "2026-12-01"),
        ] {
            assert_eq!(Day(day).to_string(), text);
            assert_eq!(text.parse(), Ok(Day(day)));
        }
        assert_eq!(Day::of(Day(20_787).end_ns() - 1), Day(20_787));
        for wrong in [
            "",
            "yesterday",
            "2026-11-31",
            "1969-12-31",
            "2026-11-30T00:00:00Z",
        ] {
            assert!(wrong.parse::<Day>().is_err(), "{wrong}");
        }
    }
}
