//! What counters say: differences, scaling, rates with their intervals, the spread over runs.
//!
//! Counts are exact but for scaling. An interval of a rate is that of a process of independent events (Poisson): it says
//! how much the same run could differ by chance alone. Events that come in bursts vary more; the spread over repeated runs
//! shows it.

use crate::significance::{Z95, wilson};

/// What an event counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Events seen while it was on a counter.
    pub value: u64,
    /// Nanoseconds it was enabled, over all tasks and CPUs.
    pub enabled_ns: u64,
    /// Nanoseconds it was on a counter.
    pub running_ns: u64,
}

impl Count {
    /// What came since an earlier reading of the same counter.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            value: self.value.saturating_sub(earlier.value),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            value: self.value.saturating_add(other.value),
            enabled_ns: self.enabled_ns.saturating_add(other.enabled_ns),
            running_ns: self.running_ns.saturating_add(other.running_ns),
        }
    }

    /// Share of the enabled time on a counter; below 1 events took turns. `None`: it was never enabled.
    pub fn running_share(self) -> Option<f64> {
        (self.enabled_ns > 0).then(|| self.running_ns as f64 / self.enabled_ns as f64)
    }

    /// The count of the whole enabled time: as counted, or by proportion where events took turns. `None` where it never ran.
    pub fn scaled(self) -> Option<f64> {
        if self.running_ns == 0 {
            return None;
        }
        let value = self.value as f64;
        if self.running_ns >= self.enabled_ns {
            return Some(value);
        }
        // Whole events, as perf rounds them.
        Some((value * self.enabled_ns as f64 / self.running_ns as f64 + 0.5).floor())
    }
}

/// A number and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Its interval, if one can be had.
    pub ci95: Option<[f64; 2]>,
}

impl Estimate {
    /// A number without an interval.
    pub fn exact(value: f64) -> Self {
        Self { value, ci95: None }
    }

    /// The lower end of its interval; the number itself where it has none.
    pub fn low(&self) -> f64 {
        self.ci95.map_or(self.value, |[low, _]| low)
    }
}

/// Events a second: `n` of them, each standing for `scale` (above 1 where events took turns), in `seconds`.
pub fn rate(n: u64, scale: f64, seconds: f64) -> Option<Estimate> {
    if seconds <= 0.0 {
        return None;
    }
    // The score interval of a Poisson mean: right for few events too.
    let count = n as f64;
    let middle = count + Z95 * Z95 / 2.0;
    let half = Z95 * (count + Z95 * Z95 / 4.0).sqrt();
    let by = scale / seconds;
    Some(Estimate {
        value: count * by,
        ci95: Some([((middle - half) * by).max(0.0), (middle + half) * by]),
    })
}

/// One count as a part of another. Wilson's interval where it is a share; none where it may exceed the whole.
pub fn ratio(part: f64, whole: f64) -> Option<Estimate> {
    if whole <= 0.0 {
        return None;
    }
    let value = part / whole;
    Some(Estimate {
        value,
        ci95: (value <= 1.0).then(|| wilson(value, whole)),
    })
}

/// Repeated runs of the same thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Their mean, with Student's interval.
    pub mean: Estimate,
    /// Standard error of the mean, as a share of it: what `perf stat -r` prints.
    pub relative_error: Option<f64>,
    /// Runs.
    pub n: usize,
}

/// Mean and spread of runs; `None` of none.
pub fn spread(runs: &[f64]) -> Option<Spread> {
    let n = runs.len();
    if n == 0 {
        return None;
    }
    let mean = runs.iter().sum::<f64>() / n as f64;
    let error = (n > 1).then(|| {
        let squares: f64 = runs.iter().map(|run| (run - mean).powi(2)).sum();
        (squares / (n - 1) as f64 / n as f64).sqrt()
    });
    let interval = |error: f64| {
        let half = student(n - 1) * error;
        [mean - half, mean + half]
    };
    Some(Spread {
        mean: Estimate {
            value: mean,
            ci95: error.map(interval),
        },
        relative_error: error.filter(|_| mean > 0.0).map(|error| error / mean),
        n,
    })
}

/// 97.5 % point of Student's distribution.
fn student(freedom: usize) -> f64 {
    const FEW: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    match freedom.checked_sub(1).and_then(|at| FEW.get(at)) {
        Some(point) => *point,
        // Within 0.5 % from 11 on.
        None => Z95 + (Z95.powi(3) + Z95) / (4.0 * freedom.max(1) as f64),
    }
}

/// What an event is best seen as a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relation {
    /// The part.
    pub part: &'static str,
    /// The whole.
    pub whole: &'static str,
    /// What the quotient is.
    pub name: &'static str,
    /// It is a share; else a plain quotient.
    pub is_share: bool,
}

/// Quotients of the memory group, by the event they are shown beside.
pub const RELATIONS: &[Relation] = &[
    relation("instructions", "cycles", "instructions a cycle", false),
    relation(
        "cache-misses",
        "cache-references",
        "of cache references",
        true,
    ),
    relation(
        "L1-dcache-load-misses",
        "L1-dcache-loads",
        "of L1 loads",
        true,
    ),
    relation("LLC-load-misses", "LLC-loads", "of last-level loads", true),
    relation(
        "LLC-store-misses",
        "LLC-stores",
        "of last-level stores",
        true,
    ),
    relation(
        "dTLB-load-misses",
        "dTLB-loads",
        "of loads' translations",
        true,
    ),
    relation(
        "dTLB-store-misses",
        "dTLB-stores",
        "of stores' translations",
        true,
    ),
    relation(
        "node-load-misses",
        "node-loads",
        "of loads from memory nodes",
        true,
    ),
    relation(
        "node-store-misses",
        "node-stores",
        "of stores to memory nodes",
        true,
    ),
    relation("L1-dcache-loads:k", "L1-dcache-loads", "of L1 loads", true),
    relation(
        "L1-dcache-stores:k",
        "L1-dcache-stores",
        "of L1 stores",
        true,
    ),
    relation("page-faults:k", "page-faults", "of page faults", true),
    relation("major-faults", "page-faults", "of page faults", true),
];

const fn relation(
    part: &'static str,
    whole: &'static str,
    name: &'static str,
    is_share: bool,
) -> Relation {
    Relation {
        part,
        whole,
        name,
        is_share,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_took_turns_are_scaled_and_those_that_never_ran_are_not_zero() {
        let count = |value, enabled_ns, running_ns| Count {
            value,
            enabled_ns,
            running_ns,
        };
        assert_eq!(count(7, 10, 10).scaled(), Some(7.0));
        assert_eq!(count(7, 100, 25).scaled(), Some(28.0));
        assert_eq!(count(7, 100, 25).running_share(), Some(0.25));
        assert_eq!(count(0, 100, 0).scaled(), None);
        assert_eq!(count(0, 0, 0).running_share(), None);
        let later = count(9, 30, 20);
        assert_eq!(later.since(count(4, 10, 10)), count(5, 20, 10));
    }

    #[test]
    fn rates_have_the_interval_of_their_number_of_events() {
        let hundred = rate(100, 1.0, 2.0).unwrap();
        let [low, high] = hundred.ci95.unwrap();
        // 82.2 to 121.6 of 100 events.
        assert!((low - 41.1).abs() < 0.1 && (high - 60.8).abs() < 0.1);
        let none = rate(0, 1.0, 1.0).unwrap();
        assert!(none.value.abs() < 1e-9 && none.ci95.unwrap()[1] > 3.0);
        assert_eq!(rate(5, 1.0, 0.0), None);
        assert!((rate(100, 4.0, 2.0).unwrap().value - 200.0).abs() < 1e-9);
    }

    #[test]
    fn shares_have_wilsons_interval_and_quotients_none() {
        let share = ratio(20.0, 100.0).unwrap();
        let [low, high] = share.ci95.unwrap();
        assert!((low - 0.133).abs() < 2e-3 && (high - 0.289).abs() < 2e-3);
        assert_eq!(ratio(3.0, 2.0).unwrap().ci95, None);
        assert_eq!(ratio(3.0, 0.0), None);
    }

    #[test]
    fn runs_have_a_mean_with_students_interval() {
        let spread = spread(&[10.0, 12.0, 14.0]).unwrap();
        assert!((spread.mean.value - 12.0).abs() < 1e-9);
        let [low, high] = spread.mean.ci95.unwrap();
        assert!((low - 7.03).abs() < 0.01 && (high - 16.97).abs() < 0.01);
        assert!((spread.relative_error.unwrap() - 0.0962).abs() < 1e-3);
        assert_eq!(super::spread(&[3.0]).unwrap().mean.ci95, None);
        assert_eq!(super::spread(&[]), None);
    }
}
