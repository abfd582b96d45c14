//! One line a sample: as columns for people, or as JSON for programs.

mod fields;
mod json;
mod line;
mod text;
mod texts;

pub(crate) use json::Json;
pub(crate) use line::Line;
pub(crate) use text::Text;

use fields::Fields;
use memwide_perf_abi::file::{EventTable, TracingData};

/// The fields of each event that is a tracepoint the file describes.
fn fields_of(events: &EventTable, tracing: Option<&TracingData>) -> Vec<Option<Fields>> {
    let events = events.events().iter();
    events
        .map(|event| Fields::of(&event.attr, tracing?))
        .collect()
}
