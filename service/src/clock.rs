//! The only place that asks what time it is.
//!
//! Pure code takes times as arguments; edges ask here. So a search for this module's name finds
//! every place where a run depends on the clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A point in time for measuring durations inside this process.
pub fn instant() -> Instant {
    Instant::now()
}

/// Wall-clock time; may jump.
pub fn system_time() -> SystemTime {
    SystemTime::now()
}

/// Nanoseconds since 1970-01-01 UTC; 0 for a clock set before that, and fine until 2554.
pub fn unix_ns() -> u64 {
    let since = system_time()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds of `CLOCK_MONOTONIC`: comparable between processes of one boot, stops in suspend.
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Nanoseconds since boot (`CLOCK_BOOTTIME`), time in suspend included.
pub fn boottime_ns() -> u64 {
    read_ns(ClockId::Boottime)
}

fn read_ns(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_do_not_go_backwards_and_boottime_covers_monotonic() {
        let (first, second) = (monotonic_ns(), monotonic_ns());
        assert!(first <= second, "{first} then {second}");
        assert!(boottime_ns() >= first);
    }

    #[test]
    fn unix_time_is_after_this_code_was_written() {
        assert!(unix_ns() > 1_700_000_000_000_000_000);
    }
}
