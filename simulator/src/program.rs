//! The program all simulated hosts run, and its symbol table.

use memwide_objects::{Flags, Segment, Segments, Source, Symbol, SymbolTable, SymbolsBuilder};

/// The function whose data lies on the wrong node, on the hosts that say so.
pub const BADLY_PLACED: &str = "matrix_scan";

/// The function behind one of 200 remote accesses, on every host.
pub const RARE: &str = "rare_lookup";

/// A function: name and weight among local accesses.
const FUNCTIONS: [(&str, u64); 10] = [
    ("parse_request", 120),
    ("hash_lookup", 260),
    (BADLY_PLACED, 180),
    ("serialize_reply", 90),
    (RARE, 1),
    ("copy_rows", 140),
    ("allocate_block", 70),
    ("update_index", 110),
    ("compare_keys", 160),
    ("flush_log", 40),
];

/// Position of [`BADLY_PLACED`].
pub(crate) const BADLY_PLACED_AT: usize = 2;

/// Position of [`RARE`].
pub(crate) const RARE_AT: usize = 4;

/// Path of the program.
pub(crate) const PATH: &str = "/usr/bin/orders";

/// Name of its threads.
pub(crate) const COMM: &str = "orders";

/// Its build id.
pub(crate) const BUILD_ID: [u8; 20] = *b"simulated-orders-01\0";

/// Where its code lies in the file, and there in memory at `TEXT_MAP`.
pub(crate) const TEXT_OFFSET: u64 = 0x1000;
const TEXT_BYTES: u64 = FUNCTIONS.len() as u64 * FUNCTION_BYTES;
const FUNCTION_BYTES: u64 = 0x400;

/// Where its variables lie in the file.
pub(crate) const DATA_OFFSET: u64 = 0x10_0000;
pub(crate) const DATA_BYTES: u64 = 0x20_0000;

/// Address at which code is mapped.
pub(crate) const TEXT_MAP: u64 = 0x5555_5555_5000;
/// Address at which variables are mapped.
pub(crate) const DATA_MAP: u64 = 0x5555_5565_0000;
/// Address of the heap.
pub(crate) const HEAP_MAP: u64 = 0x5555_5600_0000;
pub(crate) const HEAP_BYTES: u64 = 1 << 30;

/// Bytes of code mapped, whole pages.
pub(crate) const TEXT_MAP_BYTES: u64 = TEXT_BYTES.next_multiple_of(0x1000);

/// Names by position.
pub(crate) fn name(function: usize) -> &'static str {
    FUNCTIONS.get(function).map_or("", |(name, _)| name)
}

/// Weights of local accesses, by position.
pub(crate) fn weights() -> [u64; FUNCTIONS.len()] {
    FUNCTIONS.map(|(_, weight)| weight)
}

/// An instruction of a function; `at` is cut to its size.
pub(crate) fn ip(function: usize, at: u64) -> u64 {
    TEXT_MAP + function as u64 * FUNCTION_BYTES + at % FUNCTION_BYTES
}

/// Its symbol table, as a collector would extract it.
pub(crate) fn symbols() -> SymbolTable {
    let entry = |name, start, size, flags| Symbol {
        start,
        size,
        name,
        source: Source::SymTab,
        flags,
    };
    let mut functions = SymbolsBuilder::with_capacity(FUNCTIONS.len());
    for (at, (name, _)) in FUNCTIONS.iter().enumerate() {
        let start = TEXT_OFFSET + at as u64 * FUNCTION_BYTES;
        functions.push(entry(name, start, FUNCTION_BYTES, Flags::GLOBAL));
    }
    let mut variables = SymbolsBuilder::with_capacity(2);
    let half = DATA_BYTES / 2;
    variables.push(entry(
        "order_index",
        DATA_OFFSET,
        half,
        Flags::OBJECT.with(Flags::GLOBAL),
    ));
    variables.push(entry(
        "price_table",
        DATA_OFFSET + half,
        half,
        Flags::OBJECT.with(Flags::GLOBAL),
    ));
    let segment = |vaddr, size, flags| Segment {
        vaddr,
        offset: vaddr,
        file_size: size,
        mem_size: size,
        flags,
    };
    let segments = vec![
        segment(TEXT_OFFSET, TEXT_BYTES, 5), // PF_R | PF_X
        segment(DATA_OFFSET, DATA_BYTES, 6), // PF_R | PF_W
    ];
    SymbolTable::from_parts(
        Segments::new(segments),
        functions.finish(),
        variables.finish(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_functions_stand_where_their_positions_say() {
        assert_eq!((name(BADLY_PLACED_AT), name(RARE_AT)), (BADLY_PLACED, RARE));
    }

    #[test]
    fn every_instruction_is_in_its_function() {
        let table = symbols();
        for function in 0..FUNCTIONS.len() {
            for at in [0, 1, FUNCTION_BYTES - 1, FUNCTION_BYTES] {
                let vaddr = ip(function, at) - TEXT_MAP + TEXT_OFFSET;
                let mut covering = table
                    .functions()
                    .iter()
                    .filter(|symbol| (symbol.start..symbol.end()).contains(&vaddr));
                assert_eq!(
                    covering.next().map(|symbol| symbol.name),
                    Some(name(function))
                );
            }
        }
    }
}
