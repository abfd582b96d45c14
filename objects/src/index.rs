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

use crate::Symbols;

/// Place of a symbol in the array its index was built from; [`Symbols::get`] takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolRef(u32);

impl SymbolRef {
    /// The place, counted from 0.
    pub fn index(self) -> usize {
        self.0 as usize
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

/// Finds the symbol that holds an address.
#[derive(Debug, Clone, Default)]
pub struct Index {
    base: u64,
    span: u64,
    shift: u32,
    /// Place in `ranges` of the range that holds each bucket's first address; one more at the end.
    buckets: Box<[u32]>,
    ranges: Box<[Range]>,
}

/// From `start` to the next range's start; `symbol` is `NONE` in a gap.
#[derive(Debug, Clone, Copy)]
struct Range {
    start: u64,
    symbol: u32,
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
        let mut buckets = Vec::with_capacity((span >> shift) as usize + 2);
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
        Self {
            base,
            span,
            shift,
            buckets: buckets.into(),
            ranges: ranges.into(),
        }
    }

    /// The symbol that holds this address, which is of the same kind as the symbols' starts.
    pub fn lookup(&self, address: u64) -> Option<SymbolRef> {
        let into = address.checked_sub(self.base)?;
        if into >= self.span {
            return None;
        }
        let bucket = (into >> self.shift) as usize;
        let first = *self.buckets.get(bucket)? as usize;
        let last = *self.buckets.get(bucket + 1)? as usize;
        let here = self.ranges.get(first..=last)?;
        let behind = if here.len() <= WALK_MAX {
            here.iter()
                .take_while(|range| range.start <= address)
                .count()
        } else {
            here.partition_point(|range| range.start <= address)
        };
        let symbol = here.get(behind.checked_sub(1)?)?.symbol;
        (symbol != NONE).then_some(SymbolRef(symbol))
    }
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
