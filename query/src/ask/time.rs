//! Time ranges as people write them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::AskError;
use crate::statement::Statement;

const SECOND_NS: u64 = 1_000_000_000;
/// One minute in nanoseconds.
pub(crate) const MINUTE_NS: u64 = 60 * SECOND_NS;
/// One hour in nanoseconds.
pub(crate) const HOUR_NS: u64 = 60 * MINUTE_NS;
/// One day in nanoseconds.
pub(crate) const DAY_NS: u64 = 24 * HOUR_NS;

/// Numbers below this are no nanoseconds of our time: 1973 in nanoseconds, the year 3 million in seconds.
const LEAST_NS: u64 = 100_000_000_000_000_000;

/// Wall time `[since, until)`, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First moment.
    pub since_ns: u64,
    /// Moment behind the last one.
    pub until_ns: u64,
}

impl Range {
    /// From texts; empty: `since` is one hour before `until`, `until` is now.
    pub fn parse(since: &str, until: &str, now_ns: u64) -> Result<Self, AskError> {
        let until_ns = match until {
            "" => now_ns,
            text => moment("until", text, now_ns)?,
        };
        let since_ns = match since {
            "" => until_ns.saturating_sub(HOUR_NS),
            text => moment("since", text, now_ns)?,
        };
        Self::new(since_ns, until_ns)
    }

    /// From nanoseconds; 0 as in messages: `since` is one hour before `until`, `until` is now.
    pub fn from_wall(since_ns: u64, until_ns: u64, now_ns: u64) -> Result<Self, AskError> {
        let until_ns = if until_ns == 0 { now_ns } else { until_ns };
        let since_ns = if since_ns == 0 {
            until_ns.saturating_sub(HOUR_NS)
        } else {
            since_ns
        };
        Self::new(since_ns, until_ns)
    }

    fn new(since_ns: u64, until_ns: u64) -> Result<Self, AskError> {
        // ClickHouse's 64-bit times end in 2262, its 32-bit ones in 2106.
        let last_ns = u64::from(u32::MAX) * SECOND_NS;
        if since_ns < until_ns && until_ns <= last_ns {
            return Ok(Self { since_ns, until_ns });
        }
        Err(AskError::Range {
            since: text(since_ns),
            until: text(until_ns),
        })
    }

    /// Rounded outwards to whole multiples of `step_ns`.
    pub(crate) fn outwards(self, step_ns: u64) -> Self {
        Self {
            since_ns: self.since_ns / step_ns * step_ns,
            until_ns: self.until_ns.div_ceil(step_ns) * step_ns,
        }
    }

    /// Whether some moment is in both.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.since_ns < other.until_ns && other.since_ns < self.until_ns
    }

    /// Length in nanoseconds.
    pub(crate) fn len_ns(self) -> u64 {
        self.until_ns - self.since_ns
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} to {}", text(self.since_ns), text(self.until_ns))
    }
}

/// A moment in RFC 3339, UTC.
pub(crate) fn text(ns: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ns));
    let text = moment.ok().and_then(|moment| moment.format(&Rfc3339).ok());
    text.unwrap_or_else(|| ns.to_string())
}

/// A moment as people write it, in nanoseconds since 1970.
pub(crate) fn moment(parameter: &'static str, text: &str, now_ns: u64) -> Result<u64, AskError> {
    let wrong = || AskError::Time {
        parameter,
        value: super::shortened(text),
    };
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("now") {
        return if rest.is_empty() {
            Ok(now_ns)
        } else {
            back(rest, now_ns).ok_or_else(wrong)
        };
    }
    if text.starts_with('-') {
        return back(text, now_ns).ok_or_else(wrong);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let ns = text.parse().map_err(|_| wrong())?;
        return if ns >= LEAST_NS { Ok(ns) } else { Err(wrong()) };
    }
    // In a URL a bare `+` means a blank: `…T10:00:00 02:00` was an offset.
    let text = text.replace(' ', "+");
    let parsed = OffsetDateTime::parse(&text, &Rfc3339).map_err(|_| wrong())?;
    u64::try_from(parsed.unix_timestamp_nanos()).map_err(|_| wrong())
}

/// `-90s`, `-15m`, `-1h`, `-2d`, `-1w`.
fn back(text: &str, now_ns: u64) -> Option<u64> {
    let text = text.strip_prefix('-')?;
    let unit = text.chars().last()?;
    let unit_ns = match unit {
        's' => SECOND_NS,
        'm' => MINUTE_NS,
        'h' => HOUR_NS,
        'd' => DAY_NS,
        'w' => 7 * DAY_NS,
        _ => return None,
    };
    let digits = text.strip_suffix(unit)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    now_ns.checked_sub(digits.parse::<u64>().ok()?.checked_mul(unit_ns)?)
}

/// `time` of minutes within the range; by the hour where it is of whole hours, as the projections `of_hours` are.
pub(super) fn minutes_condition(statement: &mut Statement, range: Range) -> String {
    let condition = time_condition(statement, false, range);
    if is_whole_hours(range) {
        return condition.replace("time ", "toStartOfHour(time) ");
    }
    condition
}

/// Whether a range begins and ends with an hour.
pub(super) fn is_whole_hours(range: Range) -> bool {
    range.outwards(HOUR_NS) == range
}

/// `time` within the range, for a column of nanoseconds or of seconds.
pub(super) fn time_condition(statement: &mut Statement, nanoseconds: bool, range: Range) -> String {
    let mut bound = |ns: u64| {
        if nanoseconds {
            format!(
                "fromUnixTimestamp64Nano(toInt64({}), 'UTC')",
                statement.number(ns)
            )
        } else {
            format!(
                "toDateTime({}, 'UTC')",
                statement.number(ns / 1_000_000_000)
            )
        }
    };
    let since = bound(range.since_ns);
    format!("time >= {since} AND time < {}", bound(range.until_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-01T00:00:00Z.
    const NOW: u64 = 1_767_225_600 * SECOND_NS;

    #[test]
    fn times_are_relative_absolute_or_nanoseconds() {
        let check = |text: &str, expected: u64| {
            assert_eq!(moment("since", text, NOW), Ok(expected), "{text}");
        };
        check("now", NOW);
        check("-90s", NOW - 90 * SECOND_NS);
        check("-15m", NOW - 15 * MINUTE_NS);
        check("now-1h", NOW - HOUR_NS);
        check("-2d", NOW - 2 * DAY_NS);
        check("-1w", NOW - 7 * DAY_NS);
        check("1767225600000000001", NOW + 1);
        check("2026-01-01T00:00:00Z", NOW);
        check("2026-01-01T02:00:00.5+02:00", NOW + SECOND_NS / 2);
        check("2026-01-01T02:00:00 02:00", NOW);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "yesterday",
            "1767225600",
            "-1",
            "-h",
            "-1y",
            "--1h",
            "-99999999999999999999h",
            "now+1h",
            "1960-01-01T00:00:00Z",
            "2026-01-01",
            "-１h",
        ] {
            assert!(moment("since", text, NOW).is_err(), "{text}");
        }
    }

    #[test]
    fn a_range_has_a_length_and_a_default() {
        let range = Range::parse("", "", NOW).unwrap();
        assert_eq!(
            range.to_string(),
            "2025-12-31T23:00:00Z to 2026-01-01T00:00:00Z"
        );
        assert!(Range::parse("now", "-1h", NOW).is_err());
        assert!(Range::parse("now", "now", NOW).is_err());
        assert!(Range::from_wall(1, u64::MAX, NOW).is_err());
    }

    #[test]
    fn rounding_outwards_loses_nothing() {
        let range = Range {
            since_ns: NOW + 1,
            until_ns: NOW + HOUR_NS + 1,
        };
        assert_eq!(
            range.outwards(HOUR_NS),
            Range {
                since_ns: NOW,
                until_ns: NOW + 2 * HOUR_NS
            }
        );
        let whole = Range {
            since_ns: NOW,
            until_ns: NOW + HOUR_NS,
        };
        assert_eq!(whole.outwards(HOUR_NS), whole);
    }
}
