//! From an address to the symbol that holds it, in about ten nanoseconds.
//!
//! Symbols may nest or overlap, so they are first cut into ranges that do not: within each the
//! symbol that starts last holds. A table of 64-byte buckets says with which range a bucket begins;
//! from there it is a step or two.
//!
//! ```text
//! symbols   [ outer                       )      [ next  )
//!                   [ inner  )
//! ranges    | outer | inner  | outer      | none | next  | none
//! buckets   ^   ^   ^   ^   ^   ^   ^   ^   ^   ^   ^   ^   ^
//! ```

use std::num::NonZeroU32;

use crate::Symbols;

/// Place of a symbol in the array its index was built from; [`Symbols::get`] takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolRef(NonZeroU32);

impl SymbolRef {
    /// The place, counted from 0.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

const NONE: u32 = u32::MAX;

/// Bytes of address space a bucket covers at least, as a power of two.
const BUCKET_SHIFT_MIN: u32 = 6;

/// Buckets a symbol pays for at most: 64 bytes of memory. Sparse tables get wider buckets.
const BUCKETS_PER_SYMBOL: u64 = 16;

/// Buckets any table may have, so that small tables of large files are still quick.
const BUCKETS_ALWAYS: u64 = 1 << 14;

/// Ranges in a bucket up to which they are walked one by one.
const WALK_MAX: usize = 8;

/// Widest bucket whose ranges are told apart by 32 bits.
const BUCKET_SHIFT_MAX: u32 = 31;

/// Finds the symbol that holds an address.
#[derive(Debug, Clone, Default)]
pub struct Index {
    base: u64,
    span: u64,
    shift: u32,
    /// Place in `ranges` of the range that holds each bucket's first address; one more at the end.
    buckets: Box<[u32]>,
    ranges: Box<[Narrow]>,
    /// All ranges, of tables so sparse that buckets would be wider than [`BUCKET_SHIFT_MAX`] says; else none.
    wide: Box<[Range]>,
}

/// From `start` to the next range's start; `symbol` is `NONE` in a gap.
#[derive(Debug, Clone, Copy)]
struct Range {
    start: u64,
    symbol: u32,
}

/// The same in half the memory, as it is memory that a lookup waits for.
#[derive(Debug, Clone, Copy)]
struct Narrow {
    /// Lower bits of the distance from the base.
    start: u32,
    symbol: u32,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "lower bits are what is wanted"
)]
fn lower(offset: u64) -> u32 {
    offset as u32
}

impl Index {
    /// Of all symbols of the array.
    pub fn build(symbols: &Symbols) -> Self {
        let ranges = cut(symbols);
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
            return Self::default();
        };
        let base = first.start;
        let span = last.start - base;
        let most = (symbols.len() as u64)
            .saturating_mul(BUCKETS_PER_SYMBOL)
            .max(BUCKETS_ALWAYS);
        let mut shift = BUCKET_SHIFT_MIN;
        while span >> shift >= most {
            shift += 1;
        }
        let index = Self {
            base,
            span,
            shift,
            ..Self::default()
        };
        if shift > BUCKET_SHIFT_MAX {
            return Self {
                wide: ranges.into(),
                ..index
            };
        }
        let mut buckets = Vec::with_capacity(usize::try_from(span >> shift).unwrap_or(0) + 2);
        let mut at = 0_u32;
        let mut rest = ranges.iter().skip(1).peekable();
        for bucket in 0..=(span >> shift) {
            let address = base + (bucket << shift);
            while rest.next_if(|range| range.start <= address).is_some() {
                at += 1;
            }
            buckets.push(at);
        }
        buckets.push(u32::try_from(ranges.len() - 1).unwrap_or(NONE));
        let narrow = ranges.iter().map(|range| Narrow {
            start: lower(range.start - base),
            symbol: range.symbol,
        });
        Self {
            buckets: buckets.into(),
            ranges: narrow.collect(),
            ..index
        }
    }

    /// The symbol that holds this address, which is of the same kind as the symbols' starts.
    #[inline]
    pub fn lookup(&self, address: u64) -> Option<SymbolRef> {
        let into = address.checked_sub(self.base)?;
        if into >= self.span {
            return None;
        }
        if self.shift > BUCKET_SHIFT_MAX {
            return self.search(address);
        }
        let bucket = usize::try_from(into >> self.shift).ok()?;
        let first = *self.buckets.get(bucket)? as usize;
        let last = *self.buckets.get(bucket + 1)? as usize;
        let here = self.ranges.get(first..=last)?;
        // The first begins before the bucket, or with it; the others within it, the last perhaps with the next one.
        let (holder, others) = here.split_first()?;
        let bucket_start = lower(into >> self.shift << self.shift);
        let distance = lower(into).wrapping_sub(bucket_start);
        let begins = |range: &Narrow| range.start.wrapping_sub(bucket_start) <= distance;
        let behind = if others.len() <= WALK_MAX {
            others.iter().take_while(|range| begins(range)).count()
        } else {
            others.partition_point(begins)
        };
        let last_begun = behind.checked_sub(1).and_then(|at| others.get(at));
        held(last_begun.unwrap_or(holder).symbol)
    }

    #[cold]
    fn search(&self, address: u64) -> Option<SymbolRef> {
        let behind = self.wide.partition_point(|range| range.start <= address);
        held(self.wide.get(behind.checked_sub(1)?)?.symbol)
    }
}

fn held(symbol: u32) -> Option<SymbolRef> {
    // One more than the place, so that none takes no room of its own; `NONE` wraps to 0.
    NonZeroU32::new(symbol.wrapping_add(1)).map(SymbolRef)
}

/// Cuts symbols, which are in order of their starts, into ranges that do not overlap.
fn cut(symbols: &Symbols) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::with_capacity(symbols.len() + symbols.len() / 4 + 1);
    let mut begin = |start: u64, symbol: u32| match ranges.last_mut() {
        Some(last) if last.start == start => last.symbol = symbol,
        Some(last) if last.symbol == symbol => {}
        _ => ranges.push(Range { start, symbol }),
    };
    // Symbols begun and not ended, each with its end; the topmost holds.
    let mut open: Vec<(u64, u32)> = Vec::new();
    let close_until = |until: u64, open: &mut Vec<(u64, u32)>, begin: &mut dyn FnMut(u64, u32)| {
        while let Some((end, _)) = open.pop_if(|(end, _)| *end <= until) {
            while open.pop_if(|(below, _)| *below <= end).is_some() {}
            begin(end, open.last().map_or(NONE, |(_, symbol)| *symbol));
        }
    };
    for (at, symbol) in symbols.iter().enumerate() {
        close_until(symbol.start, &mut open, &mut begin);
        let at = u32::try_from(at).unwrap_or(NONE);
        if symbol.size > 0 && at != NONE {
            begin(symbol.start, at);
            open.push((symbol.end(), at));
        }
    }
    close_until(u64::MAX, &mut open, &mut begin);
    ranges
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Flags, Source, Symbol, SymbolsBuilder};

    fn array(ranges: &[(u64, u64)]) -> Symbols {
        let mut builder = SymbolsBuilder::default();
        for (start, size) in ranges {
            let (name, source, flags) = ("f", Source::SymTab, Flags::NONE);
            assert!(builder.push(Symbol {
                start: *start,
                size: *size,
                name,
                source,
                flags
            }));
        }
        builder.finish()
    }

    fn found(index: &Index, address: u64) -> Option<usize> {
        index.lookup(address).map(SymbolRef::index)
    }

    /// Of those that hold the address, the one that starts last.
    fn walked(symbols: &Symbols, address: u64) -> Option<usize> {
        let holds = |s: &Symbol<'_>| s.start <= address && address < s.end();
        symbols.iter().rposition(|symbol| holds(&symbol))
    }

    #[test]
    fn ends_are_excluded_and_gaps_hold_nothing() {
        let index = Index::build(&array(&[(0x1000, 0x10), (0x1020, 0x8)]));
        assert_eq!(found(&index, 0xfff), None);
        assert_eq!(found(&index, 0x1000), Some(0));
        assert_eq!(found(&index, 0x100f), Some(0));
        assert_eq!(found(&index, 0x1010), None);
        assert_eq!(found(&index, 0x1027), Some(1));
        assert_eq!(found(&index, 0x1028), None);
        assert_eq!(found(&index, u64::MAX), None);
    }

    #[test]
    fn an_inner_symbol_hides_the_outer_one_only_where_it_lies() {
        let index = Index::build(&array(&[(0, 100), (10, 10)]));
        assert_eq!(found(&index, 9), Some(0));
        assert_eq!(found(&index, 10), Some(1));
        assert_eq!(found(&index, 20), Some(0));
        assert_eq!(found(&index, 100), None);
    }

    #[test]
    fn an_empty_array_holds_nothing() {
        assert_eq!(found(&Index::build(&array(&[])), 0), None);
        assert_eq!(found(&Index::build(&array(&[(7, 0)])), 7), None);
    }

    #[test]
    fn symbols_at_both_ends_of_the_address_space_take_little_memory() {
        let index = Index::build(&array(&[(0, 16), (u64::MAX - 16, 100)]));
        assert!(index.buckets.len() as u64 <= BUCKETS_ALWAYS + 2);
        assert_eq!(found(&index, 15), Some(0));
        assert_eq!(found(&index, 1 << 40), None);
        assert_eq!(found(&index, u64::MAX - 1), Some(1));
    }

    proptest! {
        #[test]
        fn it_finds_what_a_walk_over_all_symbols_finds(
            ranges in prop::collection::vec((0_u64..3_000, 0_u64..200), 0..80),
            scale in prop::sample::select(vec![1_u64, 7, 1 << 22, 1 << 30, 1 << 40, 1 << 52]),
        ) {
            let ranges: Vec<_> = ranges.iter().map(|(at, size)| (at * scale, *size)).collect();
            let symbols = array(&ranges);
            let index = Index::build(&symbols);
            let edges = symbols.iter().flat_map(|s| [s.start, s.end(), s.start + s.size / 2]);
            for edge in edges {
                for address in [edge.saturating_sub(1), edge, edge + 1] {
                    prop_assert_eq!(found(&index, address), walked(&symbols, address));
                }
            }
        }
    }
}
