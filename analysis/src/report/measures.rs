//! What is summed of samples.

use super::Estimator;
use memwide_decoder::local::LocalSample;
use memwide_perf_abi::file::EventTable;
use memwide_perf_abi::sample;

/// Sums; one that 64 bits cannot hold stays at their end, as only made-up weights reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measures {
    /// Samples.
    pub samples: u64,
    /// Σ weight, in the unit of the PMU.
    pub weight: u64,
    /// Σ weight, 0 counted as 1.
    pub perf_weight: u64,
    /// Σ period, in events.
    pub period: u64,
    /// Σ instruction latency, in cycles.
    pub ins_lat: u64,
    /// Σ retire latency, in cycles.
    pub retire_lat: u64,
}

impl Measures {
    /// Of one sample.
    #[inline]
    pub fn of(sample: &LocalSample<'_>) -> Self {
        let weight = sample.weight().unwrap_or_default();
        Self {
            samples: 1,
            weight: weight.weight,
            perf_weight: weight.weight.max(1),
            period: sample.period,
            ins_lat: weight.ins_lat.into(),
            retire_lat: weight.retire_lat.into(),
        }
    }

    /// Adds other samples.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.weight = self.weight.saturating_add(other.weight);
        self.perf_weight = self.perf_weight.saturating_add(other.perf_weight);
        self.period = self.period.saturating_add(other.period);
        self.ins_lat = self.ins_lat.saturating_add(other.ins_lat);
        self.retire_lat = self.retire_lat.saturating_add(other.retire_lat);
    }

    /// The sum of an estimator.
    #[inline]
    pub fn sum(&self, by: Estimator) -> u64 {
        match by {
            Estimator::Samples => self.samples,
            Estimator::Weight => self.weight,
            Estimator::PerfWeight => self.perf_weight,
            Estimator::Period => self.period,
        }
    }

    /// The same, to be divided.
    #[inline]
    pub fn value(&self, by: Estimator) -> f64 {
        self.sum(by) as f64
    }
}

/// What is known of an event's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights {
    /// It records weights.
    pub any: bool,
    /// It records instruction and retire latency beside them.
    pub latencies: bool,
}

impl Weights {
    /// Of an event of a file.
    pub fn of(events: &EventTable, event: usize) -> Self {
        let kind = events.get(event).map_or(0, |event| event.attr.sample_type);
        Self {
            any: kind & (sample::WEIGHT | sample::WEIGHT_STRUCT) != 0,
            latencies: kind & sample::WEIGHT_STRUCT != 0,
        }
    }

    /// What perf's `overhead` rests on.
    pub fn default_estimator(self) -> Estimator {
        if self.any {
            Estimator::PerfWeight
        } else {
            Estimator::Samples
        }
    }
}
