//! How often to sample: as often as a budget allows, and never more because a machine is busy.
//!
//! Each event has a *level*: its period is the configured one times 2^level. Periods start long and become shorter while the
//! cost stays well below the budget. Over the budget, or when the kernel loses samples or throttles, the events that cost the
//! most become rarer at once: rare events stay as exact as they are. Pure: who calls says what time and cost were.

use crate::config::BudgetConfig;

/// Periods are at most 65,536 times the configured ones.
const LEVEL_MAX: u32 = 16;
/// Periods begin 16 times longer than configured.
const LEVEL_AT_START: u32 = 4;
/// After too high a cost, shorter periods are tried this many windows later.
const CAUTIOUS_WINDOWS: u32 = 12;
/// Shares of the budget: what to come down to, where to stay, and up to where to go.
const AIM: f64 = 0.7;
const CALM: f64 = 0.5;
const RISE_TO: f64 = 0.6;
/// A share of lost samples that is too much.
const LOST_SHARE: f64 = 0.01;
/// How far over the budget loss and throttling count as.
const AS_IF: f64 = 1.5;
/// A machine that waits for CPU or memory gets half the budget.
const PRESSED_SHARE: f64 = 0.5;

/// What a window cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Window {
    pub(crate) seconds: f64,
    pub(crate) cpus: u32,
    /// CPU time of the thread that takes, packs and stores records.
    pub(crate) cpu_seconds: f64,
    /// Bytes of records after packing.
    pub(crate) bytes: u64,
    /// Samples by event.
    pub(crate) samples: Vec<u64>,
    pub(crate) lost: u64,
    pub(crate) throttled: bool,
    /// Tasks wait for memory or CPU.
    pub(crate) pressed: bool,
}

/// The cost as a share of its budget, and what it is that costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    pub(crate) share: f64,
    pub(crate) what: &'static str,
}

/// The level of each event.
#[derive(Debug)]
pub(crate) struct Governor {
    budget: BudgetConfig,
    levels: Vec<u32>,
    /// Windows until shorter periods may be tried.
    wait: u32,
    /// Of the budget, used in the last window.
    used: f64,
}

impl Governor {
    pub(crate) fn new(budget: BudgetConfig, events: usize) -> Self {
        Self {
            levels: vec![LEVEL_AT_START; events],
            budget,
            wait: 0,
            used: 0.0,
        }
    }

    /// This event begins with the period it is configured with.
    pub(crate) fn begin_whole(&mut self, event: usize) {
        if let Some(level) = self.levels.get_mut(event) {
            *level = 0;
        }
    }

    /// The period of an event that is configured with `base`.
    pub(crate) fn level(&self, event: usize) -> u32 {
        self.levels.get(event).copied().unwrap_or(0)
    }

    /// Looks at a window. True: levels changed.
    pub(crate) fn step(&mut self, window: &Window) -> (Cost, bool) {
        let cost = self.cost(window);
        self.used = cost.share;
        let before = self.levels.clone();
        let mut rates: Vec<f64> = window.samples.iter().map(|n| as_f64(*n)).collect();
        rates.resize(self.levels.len(), 0.0);
        if cost.share > 1.0 {
            self.wait = CAUTIOUS_WINDOWS;
            self.rarer(&mut rates, AIM / cost.share);
        } else if cost.share < CALM {
            if self.wait == 0 {
                self.more_often(&mut rates, cost.share);
            }
            self.wait = self.wait.saturating_sub(1);
        }
        (cost, self.levels != before)
    }

    /// Periods will be so many times shorter: as much longer as the budget needs, before it is exceeded.
    pub(crate) fn brace(&mut self, times: f64) {
        let mut share = self.used * times;
        while share > AIM {
            share /= 2.0;
            for level in &mut self.levels {
                *level = (*level + 1).min(LEVEL_MAX);
            }
        }
    }

    fn cost(&self, window: &Window) -> Cost {
        let seconds = window.seconds.max(1e-3);
        let budget = if window.pressed { PRESSED_SHARE } else { 1.0 };
        let samples: u64 = window.samples.iter().sum();
        let handlers = as_f64(samples) * f64::from(self.budget.sample_ns) / 1e9;
        let all_cpus = f64::from(window.cpus.max(1));
        let share = |used: f64, percent: f64| used / seconds / (percent / 100.0).max(1e-9) / budget;
        let bytes = as_f64(self.budget.bytes_per_second.max(1));
        let mut costs = vec![
            Cost {
                share: share(window.cpu_seconds, self.budget.cpu_percent),
                what: "CPU time of the collector",
            },
            Cost {
                share: share(handlers / all_cpus, self.budget.handler_percent),
                what: "time in the kernel for samples",
            },
            Cost {
                share: as_f64(window.bytes) / seconds / bytes,
                what: "bytes",
            },
        ];
        if as_f64(window.lost) > as_f64(samples + window.lost) * LOST_SHARE {
            costs.push(Cost {
                share: AS_IF,
                what: "lost samples",
            });
        }
        if window.throttled {
            costs.push(Cost {
                share: AS_IF,
                what: "throttling by the kernel",
            });
        }
        let most = costs.into_iter().max_by(|a, b| a.share.total_cmp(&b.share));
        most.unwrap_or(Cost {
            share: 0.0,
            what: "",
        })
    }

    /// Halves the most frequent one until all of them together are down to `share`.
    fn rarer(&mut self, rates: &mut [f64], share: f64) {
        let aim = rates.iter().sum::<f64>() * share;
        while rates.iter().sum::<f64>() > aim {
            let can = rates.iter_mut().zip(&mut self.levels);
            let can = can.filter(|(rate, level)| **level < LEVEL_MAX && **rate > 0.0);
            let Some((rate, level)) = can.max_by(|a, b| a.0.total_cmp(b.0)) else {
                return;
            };
            *rate /= 2.0;
            *level += 1;
        }
    }

    /// Doubles the rarest ones once while all of them together fit.
    fn more_often(&mut self, rates: &mut [f64], share: f64) {
        let total = rates.iter().sum::<f64>();
        let mut order: Vec<usize> = (0..rates.len()).collect();
        order.sort_by(|a, b| match (rates.get(*a), rates.get(*b)) {
            (Some(a), Some(b)) => a.total_cmp(b),
            _ => std::cmp::Ordering::Equal,
        });
        let mut more = 0.0;
        for at in order {
            let (Some(rate), Some(level)) = (rates.get(at), self.levels.get_mut(at)) else {
                continue;
            };
            let fits = total <= 0.0 || share * (total + more + rate) / total <= RISE_TO;
            if *level > 0 && fits {
                *level -= 1;
                more += rate;
            }
        }
    }
}

/// The period at a level: a prime near it, another one in each window, so that nothing beats with it.
///
/// The lowest four bits of IBS periods are not programmable.
pub(crate) fn period(base: u64, level: u32, window: u64, is_ibs: bool) -> u64 {
    let unit = if is_ibs { 16 } else { 1 };
    let whole = base.saturating_mul(1 << level.min(LEVEL_MAX)) / unit;
    if whole <= 1 {
        return base;
    }
    // Up to 3 % more: far below what a level is, far above the distance of primes.
    let spread = (whole / 32).max(1);
    let jitter = window.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let from = whole + jitter % spread;
    let prime = (from..from + 400).find(|n| is_prime(*n));
    prime.unwrap_or(from) * unit
}

pub(crate) fn is_prime(n: u64) -> bool {
    n >= 2
        && (2..n)
            .take_while(|d| d * d <= n)
            .all(|d| !n.is_multiple_of(d))
}

/// Counts of a window are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn governor(events: usize) -> Governor {
        let budget = BudgetConfig {
            sample_ns: 1_000,
            ..BudgetConfig::default()
        };
        Governor::new(budget, events)
    }

    /// A machine on which events come at these rates a second, and a sample costs the collector so many ns.
    struct Load {
        rates: Vec<f64>,
        base: u64,
        cost_ns: f64,
    }

    impl Load {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rates of tests"
        )]
        fn window(&self, governor: &Governor) -> Window {
            let samples: Vec<u64> = (0_u64..)
                .zip(&self.rates)
                .map(|(at, rate)| {
                    let level = governor.level(usize::try_from(at).unwrap());
                    let period = period(self.base, level, 1, false);
                    (rate * 5.0 / as_f64(period)) as u64
                })
                .collect();
            let total: u64 = samples.iter().sum();
            Window {
                seconds: 5.0,
                cpus: 4,
                cpu_seconds: as_f64(total) * self.cost_ns / 1e9,
                bytes: total * 20,
                samples,
                ..Window::default()
            }
        }

        fn run(&self, governor: &mut Governor, windows: u32) -> Cost {
            let mut cost = None;
            for _ in 0..windows {
                cost = Some(governor.step(&self.window(governor)).0);
            }
            cost.unwrap()
        }
    }

    #[test]
    fn a_quiet_machine_comes_to_the_configured_periods() {
        let mut governor = governor(3);
        assert_eq!(governor.level(0), LEVEL_AT_START);
        let load = Load {
            rates: vec![1_000.0, 10.0, 0.0],
            base: 19,
            cost_ns: 100_000.0,
        };
        load.run(&mut governor, LEVEL_AT_START);
        assert_eq!(governor.levels, [0, 0, 0]);
    }

    #[test]
    fn a_storm_makes_the_frequent_event_rarer_and_leaves_the_rare_one() {
        let mut governor = governor(2);
        let load = Load {
            rates: vec![3e8, 500.0],
            base: 19,
            cost_ns: 1_000.0,
        };
        let cost = load.run(&mut governor, 40);
        assert!(cost.share <= 1.0, "{cost:?}");
        assert!(governor.level(0) > 4, "{:?}", governor.levels);
        assert_eq!(
            governor.level(1),
            0,
            "the rare one is as exact as configured"
        );
    }

    #[test]
    fn whatever_the_load_is_the_cost_comes_below_the_budget_and_stays() {
        for exponent in 0..9 {
            let mut governor = governor(1);
            let load = Load {
                rates: vec![10_f64.powi(exponent)],
                base: 19,
                cost_ns: 2_000.0,
            };
            load.run(&mut governor, 60);
            let over = (0..60)
                .filter(|_| governor.step(&load.window(&governor)).0.share > 1.0)
                .count();
            assert!(
                over <= 6,
                "{over} of 60 windows over the budget at 10^{exponent}/s"
            );
        }
    }

    #[test]
    fn loss_and_throttling_count_as_too_much_whatever_the_cost() {
        for (lost, throttled, what) in [
            (50, false, "lost samples"),
            (0, true, "throttling by the kernel"),
        ] {
            let mut governor = governor(1);
            let window = Window {
                seconds: 5.0,
                cpus: 1,
                samples: vec![100],
                lost,
                throttled,
                ..Window::default()
            };
            let (cost, changed) = governor.step(&window);
            assert_eq!((cost.what, changed), (what, true));
            assert_eq!(governor.level(0), LEVEL_AT_START + 2);
            let calm = Window {
                seconds: 5.0,
                samples: vec![20],
                ..Window::default()
            };
            assert!(!governor.step(&calm).1, "not at once again");
        }
    }

    #[test]
    fn shorter_periods_that_would_cost_too_much_are_so_much_longer_at_once() {
        for (cpu_seconds, times, levels) in [(0.0, 1000.0, 0), (0.001, 8.0, 0), (0.007, 8.0, 2)] {
            let mut governor = governor(2);
            let window = Window {
                seconds: 1.0,
                cpus: 1,
                cpu_seconds,
                ..Window::default()
            };
            governor.wait = 1;
            governor.step(&window);
            governor.brace(times);
            assert_eq!(governor.level(0), LEVEL_AT_START + levels, "{cpu_seconds}");
        }
    }

    #[test]
    fn a_pressed_machine_has_half_the_budget() {
        let governor = governor(1);
        let window = |pressed| Window {
            seconds: 1.0,
            cpus: 1,
            cpu_seconds: 0.01,
            pressed,
            ..Window::default()
        };
        let (free, pressed) = (governor.cost(&window(false)), governor.cost(&window(true)));
        assert!((pressed.share - 2.0 * free.share).abs() < 1e-9);
    }

    #[test]
    fn periods_are_primes_that_differ_from_window_to_window() {
        let all: Vec<u64> = (0..8)
            .map(|window| period(20_011, 3, window, false))
            .collect();
        assert!(
            all.iter()
                .all(|p| is_prime(*p) && (160_088..166_000).contains(p)),
            "{all:?}"
        );
        assert!(
            all.iter().collect::<std::collections::BTreeSet<_>>().len() > 4,
            "{all:?}"
        );
        let ibs = period(16 * 16_411, 2, 5, true);
        assert!(ibs.is_multiple_of(16) && is_prime(ibs / 16), "{ibs}");
        assert_eq!((period(1, 0, 9, false), period(1, 3, 0, false)), (1, 11));
    }
}
