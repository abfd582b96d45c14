//! What runtimes write of the code they generate: maps and dumps.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_objects::{Index, JitSymbols, Limits};
use std::hint::black_box;

fuzz_target!(|data: &[u8]| {
    let limits = Limits {
        symbols: 1 << 12,
        name_bytes: 1 << 16,
        name_len: 256,
        ..Limits::default()
    };
    let mut symbols = JitSymbols::new(limits);
    symbols.add_perf_map(data);
    let _ = black_box(symbols.add_jitdump(&mut &*data));
    let symbols = symbols.finish();
    assert!(symbols.len() <= 1 << 12);
    let index = Index::build(&symbols);
    for symbol in symbols.iter().take(16) {
        assert!(index.lookup(symbol.start).is_some());
    }
});
