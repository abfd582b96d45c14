//! ELF files, with themselves as their debug file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_objects::{
    Index, Limits, ObjectId, Symbol, SymbolRef, SymbolTable, Symbols, read_image,
};
use std::hint::black_box;
use std::io::Cursor;

fuzz_target!(|data: &[u8]| {
    black_box(ObjectId::of_elf(data));
    let limits = Limits::default();
    let _ = black_box(SymbolTable::from_elf_with_debug(data, data, &limits));
    let image = read_image(&mut Cursor::new(data), data.len()).expect("memory can be read");
    let Ok(table) = SymbolTable::from_elf(&image, &limits) else {
        return;
    };
    check_index(table.functions());
    let copy = SymbolTable::decode(&table.encode(), &limits).expect("what we wrote is read");
    assert_eq!(copy, table);
});

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
