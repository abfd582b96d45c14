//! Tracing data, formats of tracepoints, and raw data read by them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_perf_abi::file::{Tracepoint, TracingData};
use memwide_perf_abi::tracepoint::{EventReader, FieldReader};
use std::hint::black_box;

fuzz_target!(|data: &[u8]| {
    let _ = black_box(TracingData::parse(data));
    let at = data
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(data.len());
    let (text, raw) = data.split_at(at);
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let Some(tracepoint) = Tracepoint::parse("kmem", text) else {
        return;
    };
    for field in &tracepoint.fields {
        let reader = FieldReader::new(field);
        black_box((reader.value(raw), reader.unsigned(raw), reader.signed(raw)));
        black_box((reader.text(raw), reader.bytes(raw)));
    }
    if let Some(reader) = EventReader::new(&tracepoint) {
        black_box(reader.read(raw));
    }
});
