//! Symbol tables as they come from other hosts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_objects::{Index, Limits, SymbolTable};
use std::hint::black_box;

fuzz_target!(|data: &[u8]| {
    let Ok(table) = SymbolTable::decode(data, &Limits::default()) else {
        return;
    };
    for symbols in [table.functions(), table.objects()] {
        let index = Index::build(symbols);
        for symbol in symbols.iter().take(64) {
            black_box(index.lookup(symbol.start));
        }
    }
});
