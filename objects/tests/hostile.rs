//! Files that lie: cut, flipped, with absurd counts. Nothing may panic, hang or take much memory.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests stop at once"
)]

use memwide_objects::{Gap, Index, Limits, ObjectId, SymbolTable};
use proptest::prelude::*;

/// A small program of this machine, else this test's own binary.
fn program() -> Vec<u8> {
    std::fs::read("/bin/sh")
        .or_else(|_| std::fs::read("/proc/self/exe"))
        .expect("a program that runs can be read")
}

fn try_all(bytes: &[u8]) {
    let limits = Limits {
        symbols: 1 << 20,
        ..Limits::default()
    };
    let _ = ObjectId::of_elf(bytes);
    if let Ok(table) = SymbolTable::from_elf(bytes, &limits) {
        for symbols in [table.functions(), table.objects(), table.thread_locals()] {
            let index = Index::build(symbols);
            if let Some(first) = symbols.get(0) {
                let found = index
                    .lookup(first.start)
                    .and_then(|at| symbols.get(at.index()));
                assert!(found.is_none_or(|s| s.start <= first.start));
            }
        }
        assert_eq!(SymbolTable::decode(&table.encode(), &limits), Ok(table));
    }
}

#[test]
fn cut_anywhere_a_file_gives_an_error_or_a_part() {
    let whole = program();
    let step = (whole.len() / 150).max(1);
    let edges = (0..256).chain(whole.len().saturating_sub(256)..whole.len());
    for cut in edges.chain((256..whole.len()).step_by(step)) {
        try_all(&whole[..cut]);
    }
}

#[test]
fn without_its_end_a_file_has_segments_and_a_reason() {
    let whole = program();
    let table = SymbolTable::from_elf(&whole[..whole.len() / 2], &Limits::default()).unwrap();
    assert!(!table.segments().as_slice().is_empty());
    assert_eq!(table.gaps().collect::<Vec<_>>(), [Gap::NoSections]);
}

/// A 64-bit file of `count` functions that all have the same name, of `name_len` bytes.
fn functions_of_one_name(count: usize, name_len: usize) -> Vec<u8> {
    let words = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    // Name 1; a global function of section 1; address, size.
    let symbols = (0..count as u64).flat_map(|at| words(&[1 | 0x12 << 32 | 1 << 48, 16 * at, 16]));
    let symbols: Vec<u8> = symbols.collect();
    let names = [&[0][..], &vec![b'n'; name_len], &[0]].concat();
    let (symbols_at, names_at) = (64, 64 + symbols.len());
    let sections_at = names_at + names.len();
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // A program of x86-64 without segments, four sections behind all.
    file.extend(words(&[2 | 62 << 16 | 1 << 32, 0, 0, sections_at as u64]));
    file.extend(words(&[64 << 32 | 56 << 48, 64 << 16 | 4 << 32]));
    file.extend(symbols);
    file.extend(names);
    let mut section = |kind: u64, flags, at: usize, size: usize, link, entry| {
        let place = [at as u64, size as u64, link, 0, entry];
        file.extend(words(&[&[kind << 32, flags, 0][..], &place].concat()));
    };
    section(0, 0, 0, 0, 0, 0);
    section(1, 2, 64, 0, 0, 0); // in memory
    section(2, 0, symbols_at, 24 * count, 3, 24);
    section(3, 0, names_at, name_len + 2, 0, 0);
    file
}

#[test]
fn one_name_of_many_symbols_is_not_copied_without_end() {
    let few = functions_of_one_name(5, 1_000);
    let table = SymbolTable::from_elf(&few, &Limits::default()).unwrap();
    assert_eq!(table.gaps().count(), 0);
    assert_eq!(table.functions().len(), 5);
    assert_eq!(table.functions().name_bytes(), 5_000);
    let many = functions_of_one_name(1_000, 50_000);
    let table = SymbolTable::from_elf(&many, &Limits::default()).unwrap();
    assert!(table.functions().name_bytes() <= 8 * many.len());
    assert_eq!(table.gaps().collect::<Vec<_>>(), [Gap::TooManyNames]);
}

#[test]
fn one_symbol_that_makes_no_sense_costs_no_other() {
    let mut file = functions_of_one_name(200, 3);
    // The third lies in a section that is not there, as BOLT leaves one behind; the fifth has its name outside.
    let symbol = |at: usize| 64 + 24 * at;
    file[symbol(2) + 6..symbol(2) + 8].copy_from_slice(&77_u16.to_le_bytes());
    file[symbol(4)..symbol(4) + 4].copy_from_slice(&9_999_u32.to_le_bytes());
    let table = SymbolTable::from_elf(&file, &Limits::default()).unwrap();
    assert_eq!(table.gaps().collect::<Vec<_>>(), [Gap::SymbolsMalformed]);
    assert_eq!((table.malformed(), table.symbols()), (2, 198));
    let again = SymbolTable::decode(&table.encode(), &Limits::default()).unwrap();
    assert_eq!(again.malformed(), 2);
}

/// Sets every header field of the file and of its sections to absurd values, one after another.
#[test]
fn absurd_fields_give_an_error_or_a_part() {
    let whole = program();
    let sections_at = u64::from_le_bytes(whole[40..48].try_into().unwrap());
    let sections_at = usize::try_from(sections_at).unwrap();
    let fields = (16..64)
        .step_by(2)
        .chain((sections_at..whole.len()).step_by(8));
    for at in fields {
        for value in [0, u64::MAX, 1, whole.len() as u64, 1 << 40] {
            let mut bytes = whole.clone();
            let width = if at < 64 { 2 } else { 8.min(whole.len() - at) };
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            try_all(&bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn flipped_bytes_give_an_error_or_a_part(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        near_the_end in any::<bool>(),
    ) {
        let mut bytes = program();
        let from = if near_the_end { bytes.len() * 9 / 10 } else { 0 };
        for (at, to) in flips {
            let at = from + at.index(bytes.len() - from);
            bytes[at] = to;
        }
        try_all(&bytes);
    }

    #[test]
    fn random_bytes_behind_a_right_start_give_an_error_or_a_part(
        tail in prop::collection::vec(any::<u8>(), 0..2_000),
        class in 1_u8..3,
        order in 1_u8..3,
    ) {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', class, order, 1, 0];
        bytes.extend(tail);
        try_all(&bytes);
    }
}
