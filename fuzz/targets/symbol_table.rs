//! Symbol tables as they come from other hosts: the input as it is, and as what a sound checksum vouches for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_objects::{Index, Limits, Symbol, SymbolRef, SymbolTable, Symbols};
use xxhash_rust::xxh3::xxh3_64;

fuzz_target!(|data: &[u8]| {
    look(data);
    let packed = zstd::bulk::compress(data, 1).expect("memory is there");
    let mut table = b"MWSY\x01".to_vec();
    table.extend_from_slice(&xxh3_64(&packed).to_le_bytes());
    table.extend_from_slice(&packed);
    look(&table);
});

fn look(bytes: &[u8]) {
    let limits = Limits {
        name_bytes: 1 << 20,
        decoded_bytes: 1 << 20,
        ..Limits::default()
    };
    let Ok(table) = SymbolTable::decode(bytes, &limits) else {
        return;
    };
    for symbols in [table.functions(), table.objects(), table.thread_locals()] {
        check_index(symbols);
    }
    assert_eq!(SymbolTable::decode(&table.encode(), &limits), Ok(table));
}

/// The index finds what a walk over all symbols finds: of those that hold the address the one that starts last.
fn check_index(symbols: &Symbols) {
    let index = Index::build(symbols);
    for probe in symbols.iter().take(16) {
        for address in [probe.start, probe.end().wrapping_sub(1), probe.end()] {
            let holds = |symbol: &Symbol<'_>| (symbol.start..symbol.end()).contains(&address);
            let walked = symbols.iter().rposition(|symbol| holds(&symbol));
            assert_eq!(index.lookup(address).map(SymbolRef::index), walked);
        }
    }
}
