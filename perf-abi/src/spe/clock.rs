//! From the generic counter to perf's time.

use crate::bytes::u64_at;

/// `PERF_RECORD_TIME_CONV`: how the counter of timestamps maps to nanoseconds of perf's clock.
///
/// ```text
/// { u64 time_shift, time_mult, time_zero;
///   u64 time_cycles, time_mask; u8 cap_user_time_zero, cap_user_time_short; }   // second line since 5.10
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Clock {
    /// Shift.
    pub shift: u64,
    /// Multiplier.
    pub mult: u64,
    /// Nanoseconds at counter 0.
    pub zero: u64,
    /// For short counters: a recent value and the mask of the bits that count.
    pub short: Option<(u64, u64)>,
}

impl Clock {
    /// From the body of the record.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let is_short = body.get(41).is_some_and(|flag| *flag != 0);
        Some(Self {
            shift: u64_at(body, 0)?,
            mult: u64_at(body, 8)?,
            zero: u64_at(body, 16)?,
            short: u64_at(body, 24).zip(u64_at(body, 32)).filter(|_| is_short),
        })
    }

    /// Nanoseconds at a value of the counter.
    pub fn time_ns(&self, counter: u64) -> u64 {
        let counter = match self.short {
            Some((cycles, mask)) => cycles.wrapping_add(counter.wrapping_sub(cycles) & mask),
            None => counter,
        };
        let shift = u32::try_from(self.shift.min(63)).unwrap_or(63);
        let (quotient, rest) = (counter >> shift, counter & ((1 << shift) - 1));
        self.zero
            .wrapping_add(quotient.wrapping_mul(self.mult))
            .wrapping_add(rest.wrapping_mul(self.mult) >> shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(words: &[u64], flags: &[u8]) -> Vec<u8> {
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend_from_slice(flags);
        body
    }

    #[test]
    fn counters_become_nanoseconds() {
        // 25 MHz: 40 ns a tick.
        let clock = Clock::parse(&body(&[24, 40 << 24, 1000], &[])).unwrap();
        assert_eq!(clock.time_ns(0), 1000);
        assert_eq!(clock.time_ns(7), 1280);
        assert_eq!(clock.time_ns((1 << 30) + 1), 1000 + 40 * ((1 << 30) + 1));
    }

    #[test]
    fn short_counters_are_completed() {
        let mask = (1 << 56) - 1;
        let now = 5 << 56;
        let clock = Clock::parse(&body(&[0, 1, 0, now, mask], &[1, 1, 0, 0])).unwrap();
        assert_eq!(clock.time_ns(9), now + 9);
        let full = Clock::parse(&body(&[0, 1, 0, now, mask], &[1, 0, 0, 0])).unwrap();
        assert_eq!(full.time_ns(9), 9);
        assert_eq!(Clock::parse(&[0; 20]), None);
    }
}
