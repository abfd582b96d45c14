//! Samples that carry counter values instead of a period.

use std::collections::HashMap;

use super::EventTable;
use crate::{ReadValues, SampleView, sample};

/// Turns the counter values of samples (`PERF_SAMPLE_READ`) into one sample a counter, as perf does:
/// the period is what the counter grew by since the sample before, and a counter that did not grow
/// has no sample. Give it the samples in the order perf processes them.
#[derive(Debug, Clone, Default)]
pub struct ReadPeriods {
    last: HashMap<u64, u64>,
}

impl ReadPeriods {
    /// Whether perf takes event and period of a sample from its counter values.
    pub fn applies(view: &SampleView<'_>) -> bool {
        view.layout().sample_type() & sample::READ != 0
    }

    /// Event index and period of each counter that grew. Counters without an id, or with one nobody
    /// declared, have no sample.
    pub fn split<'s>(
        &'s mut self,
        events: &'s EventTable,
        values: &ReadValues<'s>,
    ) -> impl Iterator<Item = (usize, u64)> + 's {
        values.iter().filter_map(move |value| {
            let id = value.id?;
            let event = events.index_of_id(id)?;
            let before = self.last.insert(id, value.value).unwrap_or_default();
            let period = value.value.wrapping_sub(before);
            (period != 0).then_some((event, period))
        })
    }
}
