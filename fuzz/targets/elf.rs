//! ELF files, with themselves as their debug file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memwide_objects::{Index, Limits, ObjectId, SymbolTable, read_image};
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
    let index = Index::build(table.functions());
    for symbol in table.functions().iter().take(64) {
        black_box(index.lookup(symbol.start));
    }
    let copy = SymbolTable::decode(&table.encode(), &limits).expect("what we wrote is read");
    assert_eq!(copy, table);
});
