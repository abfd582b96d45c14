//! Tracepoints with a meaning of their own, by the index of their event.

use memwide_decoder::local::LocalSample;
use memwide_perf_abi::attr_kind;
use memwide_perf_abi::file::{Event, EventTable, TracingData};
use memwide_perf_abi::tracepoint::{EventReader, TracepointEvent};

/// Readers of a file's tracepoints.
#[derive(Debug, Default)]
pub struct Tracepoints {
    readers: Vec<Option<EventReader>>,
}

impl Tracepoints {
    /// For the events of a file.
    pub fn new(events: &EventTable, tracing: Option<&TracingData>) -> Self {
        let reader = |event: &Event| {
            let is_tracepoint = event.attr.kind == attr_kind::TRACEPOINT;
            let found = tracing?.tracepoint(event.attr.config);
            found.filter(|_| is_tracepoint).and_then(EventReader::new)
        };
        Self {
            readers: events.events().iter().map(reader).collect(),
        }
    }

    /// What a sample says; `None` if its event is no tracepoint that is known.
    pub fn read<'a>(&self, sample: &LocalSample<'a>) -> Option<TracepointEvent<'a>> {
        let reader = self.readers.get(sample.event_index)?.as_ref()?;
        reader.read(sample.view.raw()?)
    }
}

/// Whether every hit of an event became a sample; else what was paired up is only a part.
pub fn is_whole(event: &Event) -> bool {
    event.attr.sample_period == 1
}
