//! Texts of /proc/kallsyms and /proc/modules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_objects::{Kallsyms, Limits, parse_modules};
use std::hint::black_box;

fuzz_target!(|data: &[u8]| {
    let _ = black_box(parse_modules(data));
    if let Ok(symbols) = Kallsyms::parse(data, &Limits::default()) {
        black_box((
            symbols.text(),
            symbols.relative(u64::MAX),
            symbols.modules().len(),
        ));
    }
});
