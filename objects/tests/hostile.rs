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
