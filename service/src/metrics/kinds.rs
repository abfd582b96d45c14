//! The kinds of metrics. All are atomics in statics: no lock, no allocation, no failure.
//!
//! ATOMICS: every access here is `Relaxed`. A scrape may see two metrics at slightly different
//! moments; nothing else is ordered by them.

use std::fmt::Write;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::name::{Unit, check};
use super::{Description, Metric};

/// A closed set of label values; declared with [`label_set!`](crate::label_set).
pub trait LabelSet: Copy + Send + Sync + 'static {
    /// Name of the label.
    const LABEL: &'static str;
    /// All values, by index.
    const VALUES: &'static [&'static str];
    /// Place of this value in [`LabelSet::VALUES`].
    fn index(self) -> usize;
}

#[derive(Debug)]
struct Meta {
    name: &'static str,
    help: &'static str,
    unit: Unit,
}

impl Meta {
    const fn new(name: &'static str, help: &'static str, unit: Unit, counter: bool) -> Self {
        check(name, unit, counter);
        assert!(!help.is_empty(), "every metric has a help text");
        Self { name, help, unit }
    }

    fn describe(
        &self,
        kind: &'static str,
        label: Option<(&'static str, &'static [&'static str])>,
    ) -> Description {
        Description {
            name: self.name,
            help: self.help,
            unit: self.unit,
            kind,
            label,
        }
    }

    fn line(&self, out: &mut String, label: Option<(&str, &str)>, steps: i128) {
        out.push_str(self.name);
        if let Some((name, value)) = label {
            // Writing to a string cannot fail.
            let _ = write!(out, "{{{name}=\"{value}\"}}");
        }
        let per_unit = self.unit.steps();
        let _ = if per_unit == 1 {
            writeln!(out, " {steps}")
        } else {
            writeln!(out, " {}", steps as f64 / per_unit as f64)
        };
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A number that only grows.
#[derive(Debug)]
pub struct Counter {
    meta: Meta,
    steps: AtomicU64,
}

impl Counter {
    /// See [`declare_metrics!`](crate::declare_metrics).
    pub const fn new(name: &'static str, help: &'static str, unit: Unit) -> Self {
        Self {
            meta: Meta::new(name, help, unit, true),
            steps: AtomicU64::new(0),
        }
    }

    /// Adds `n` units.
    pub fn add(&self, n: u64) {
        let steps = n.wrapping_mul(self.meta.unit.steps());
        self.steps.fetch_add(steps, Relaxed);
    }

    /// Adds a time to a counter of seconds.
    pub fn add_duration(&self, time: Duration) {
        debug_assert_eq!(self.meta.unit, Unit::Seconds);
        self.steps.fetch_add(nanos(time), Relaxed);
    }

    /// Whole units so far.
    pub fn get(&self) -> u64 {
        self.steps.load(Relaxed) / self.meta.unit.steps()
    }

    /// The time so far, of a counter of seconds.
    pub fn duration(&self) -> Duration {
        debug_assert_eq!(self.meta.unit, Unit::Seconds);
        Duration::from_nanos(self.steps.load(Relaxed))
    }
}

impl Metric for Counter {
    fn description(&self) -> Description {
        self.meta.describe("counter", None)
    }

    fn render(&self, out: &mut String) {
        self.meta.line(out, None, self.steps.load(Relaxed).into());
    }
}

/// A counter for each value of a label.
#[derive(Debug)]
pub struct CounterBy<L: LabelSet, const N: usize> {
    meta: Meta,
    steps: [AtomicU64; N],
    label: PhantomData<L>,
}

impl<L: LabelSet, const N: usize> CounterBy<L, N> {
    /// See [`declare_metrics!`](crate::declare_metrics).
    pub const fn new(name: &'static str, help: &'static str, unit: Unit) -> Self {
        assert!(N == L::VALUES.len(), "one cell a label value");
        Self {
            meta: Meta::new(name, help, unit, true),
            steps: [const { AtomicU64::new(0) }; N],
            label: PhantomData,
        }
    }

    /// Adds `n` units under `label`.
    pub fn add(&self, label: L, n: u64) {
        let steps = n.wrapping_mul(self.meta.unit.steps());
        self.add_steps(label, steps);
    }

    /// Adds a time to a counter of seconds.
    pub fn add_duration(&self, label: L, time: Duration) {
        debug_assert_eq!(self.meta.unit, Unit::Seconds);
        self.add_steps(label, nanos(time));
    }

    /// Whole units under `label` so far.
    pub fn get(&self, label: L) -> u64 {
        let cell = self.steps.get(label.index());
        cell.map_or(0, |cell| cell.load(Relaxed)) / self.meta.unit.steps()
    }

    fn add_steps(&self, label: L, steps: u64) {
        if let Some(cell) = self.steps.get(label.index()) {
            cell.fetch_add(steps, Relaxed);
        }
    }
}

impl<L: LabelSet + std::fmt::Debug, const N: usize> Metric for CounterBy<L, N> {
    fn description(&self) -> Description {
        self.meta.describe("counter", Some((L::LABEL, L::VALUES)))
    }

    fn render(&self, out: &mut String) {
        for (value, cell) in L::VALUES.iter().zip(&self.steps) {
            let label = Some((L::LABEL, *value));
            self.meta.line(out, label, cell.load(Relaxed).into());
        }
    }
}

/// A number that goes up and down.
#[derive(Debug)]
pub struct Gauge {
    meta: Meta,
    steps: AtomicI64,
}

impl Gauge {
    /// See [`declare_metrics!`](crate::declare_metrics).
    pub const fn new(name: &'static str, help: &'static str, unit: Unit) -> Self {
        Self {
            meta: Meta::new(name, help, unit, false),
            steps: AtomicI64::new(0),
        }
    }

    /// It is `n` units now.
    pub fn set(&self, n: u64) {
        self.steps.store(signed(n, self.meta.unit), Relaxed);
    }

    /// It is this fraction of a unit now; kept to nanoseconds and millionths, rounded for others.
    pub fn set_f64(&self, value: f64) {
        let steps = value * self.meta.unit.steps() as f64;
        #[expect(clippy::cast_possible_truncation, reason = "a float cast saturates")]
        self.steps.store(steps.round() as i64, Relaxed);
    }

    /// Adds `n` units.
    pub fn add(&self, n: u64) {
        self.steps.fetch_add(signed(n, self.meta.unit), Relaxed);
    }

    /// Takes `n` units away.
    pub fn sub(&self, n: u64) {
        self.steps.fetch_sub(signed(n, self.meta.unit), Relaxed);
    }

    /// Whole units now.
    pub fn get(&self) -> i64 {
        self.steps.load(Relaxed) / signed(1, self.meta.unit)
    }
}

fn signed(n: u64, unit: Unit) -> i64 {
    i64::try_from(n.saturating_mul(unit.steps())).unwrap_or(i64::MAX)
}

impl Metric for Gauge {
    fn description(&self) -> Description {
        self.meta.describe("gauge", None)
    }

    fn render(&self, out: &mut String) {
        self.meta.line(out, None, self.steps.load(Relaxed).into());
    }
}

/// A gauge for each value of a label.
#[derive(Debug)]
pub struct GaugeBy<L: LabelSet, const N: usize> {
    meta: Meta,
    steps: [AtomicI64; N],
    label: PhantomData<L>,
}

impl<L: LabelSet, const N: usize> GaugeBy<L, N> {
    /// See [`declare_metrics!`](crate::declare_metrics).
    pub const fn new(name: &'static str, help: &'static str, unit: Unit) -> Self {
        assert!(N == L::VALUES.len(), "one cell a label value");
        Self {
            meta: Meta::new(name, help, unit, false),
            steps: [const { AtomicI64::new(0) }; N],
            label: PhantomData,
        }
    }

    /// It is `n` units under `label` now.
    pub fn set(&self, label: L, n: u64) {
        if let Some(cell) = self.steps.get(label.index()) {
            cell.store(signed(n, self.meta.unit), Relaxed);
        }
    }
}

impl<L: LabelSet + std::fmt::Debug, const N: usize> Metric for GaugeBy<L, N> {
    fn description(&self) -> Description {
        self.meta.describe("gauge", Some((L::LABEL, L::VALUES)))
    }

    fn render(&self, out: &mut String) {
        for (value, cell) in L::VALUES.iter().zip(&self.steps) {
            let label = Some((L::LABEL, *value));
            self.meta.line(out, label, cell.load(Relaxed).into());
        }
    }
}

/// Most bounds a histogram may have; enough for powers of two from 1 ms to an hour.
const MAX_BOUNDS: usize = 24;

/// How often values fell below each of a few bounds.
#[derive(Debug)]
pub struct Histogram {
    meta: Meta,
    bounds: &'static [f64],
    counts: [AtomicU64; MAX_BOUNDS + 1],
    sum_bits: AtomicU64,
}

impl Histogram {
    /// See [`declare_metrics!`](crate::declare_metrics); `bounds` rise.
    pub const fn new(
        name: &'static str,
        help: &'static str,
        unit: Unit,
        bounds: &'static [f64],
    ) -> Self {
        assert!(bounds.len() <= MAX_BOUNDS, "at most 24 bounds");
        let mut at = 1;
        while at < bounds.len() {
            assert!(bounds[at - 1] < bounds[at], "bounds rise");
            at += 1;
        }
        Self {
            meta: Meta::new(name, help, unit, false),
            bounds,
            counts: [const { AtomicU64::new(0) }; MAX_BOUNDS + 1],
            sum_bits: AtomicU64::new(0),
        }
    }

    /// Counts one value, in the metric's unit.
    pub fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(cell) = self.counts.get(bucket) {
            cell.fetch_add(1, Relaxed);
        }
        let mut seen = self.sum_bits.load(Relaxed);
        loop {
            let sum = (f64::from_bits(seen) + value).to_bits();
            match (self.sum_bits).compare_exchange_weak(seen, sum, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Counts one time in a histogram of seconds.
    pub fn observe_duration(&self, time: Duration) {
        debug_assert_eq!(self.meta.unit, Unit::Seconds);
        self.observe(time.as_secs_f64());
    }

    /// Values counted so far.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|cell| cell.load(Relaxed)).sum()
    }
}

impl Metric for Histogram {
    fn description(&self) -> Description {
        self.meta.describe("histogram", None)
    }

    fn render(&self, out: &mut String) {
        let name = self.meta.name;
        let mut total = 0;
        for (bound, cell) in self.bounds.iter().zip(&self.counts) {
            total += cell.load(Relaxed);
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {total}");
        }
        let above = self.counts.get(self.bounds.len());
        total += above.map_or(0, |cell| cell.load(Relaxed));
        let sum = f64::from_bits(self.sum_bits.load(Relaxed));
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {total}");
        let _ = writeln!(out, "{name}_sum {sum}\n{name}_count {total}");
    }
}
