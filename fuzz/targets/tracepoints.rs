//! Tracing data, formats of tracepoints, and raw data read by them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_perf_abi::file::{Tracepoint, TracingData};
use memwide_perf_abi::tracepoint::{EventReader, FieldReader};
use std::hint::black_box;

fuzz_target!(|data: &[u8]| {
    if let Some(tracing) = TracingData::parse(data) {
        for tracepoint in &tracing.tracepoints {
            look(tracepoint, data);
        }
    }
    // The text of a format, a zero, raw data.
    let at = data
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(data.len());
    let (text, raw) = data.split_at(at);
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let Some(mut tracepoint) = Tracepoint::parse("kmem", text) else {
        return;
    };
    let system = match tracepoint.name.get(..5).unwrap_or_default() {
        "sched" => "sched",
        "sys_e" => "syscalls",
        "page_" => "exceptions",
        "damon" => "damon",
        _ => "kmem",
    };
    system.clone_into(&mut tracepoint.system);
    look(&tracepoint, raw);
});

fn look(tracepoint: &Tracepoint, raw: &[u8]) {
    for field in &tracepoint.fields {
        let reader = FieldReader::new(field);
        black_box((reader.value(raw), reader.unsigned(raw), reader.signed(raw)));
        black_box((reader.text(raw), reader.bytes(raw)));
    }
    if let Some(reader) = EventReader::new(tracepoint) {
        black_box(reader.read(raw));
    }
}
