//! Ranges of addresses with their owners; they never overlap.

use std::collections::BTreeMap;

/// Most ranges of one process; the kernel's own limit is 65,530 mappings.
const RANGES_MAX: usize = 1 << 17;

#[derive(Debug, Clone, Copy)]
struct Range {
    end: u64,
    row: u32,
}

/// What was taken out of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) row: u32,
    pub(super) bytes: u64,
    /// Nothing of it is left.
    pub(super) whole: bool,
}

/// Ranges by their start.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, Range>);

impl Ranges {
    /// Adds a range where there is none.
    pub(super) fn insert(&mut self, start: u64, len: u64, row: u32) {
        if len > 0 && self.0.len() < RANGES_MAX {
            let end = start.saturating_add(len);
            self.0.insert(start, Range { end, row });
        }
    }

    /// Row and bytes of each range.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        let each = self.0.iter();
        each.map(|(start, range)| (range.row, range.end - start))
    }

    /// Takes out what lies within `[start, start + len)`.
    pub(super) fn remove(&mut self, start: u64, len: u64) -> Vec<Piece> {
        let end = start.saturating_add(len);
        let mut pieces = Vec::new();
        let before = self.0.range(..start).next_back();
        let first = before
            .filter(|(_, range)| range.end > start)
            .map(|(first, _)| *first);
        let inside = self.0.range(start..end).map(|(first, _)| *first);
        let touched: Vec<u64> = first.into_iter().chain(inside).collect();
        for at in touched {
            let Some(range) = self.0.remove(&at) else {
                continue;
            };
            let (from, to) = (at.max(start), range.end.min(end));
            if at < from {
                self.0.insert(at, Range { end: from, ..range });
            }
            if to < range.end {
                self.0.insert(to, range);
            }
            pieces.push(Piece {
                row: range.row,
                bytes: to - from,
                whole: at == from && to == range.end,
            });
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken_out_of_the_middle() {
        let mut ranges = Ranges::default();
        ranges.insert(0x1000, 0x3000, 1);
        ranges.insert(0x8000, 0x1000, 2);
        let piece = |row, bytes, whole| Piece { row, bytes, whole };
        assert_eq!(ranges.remove(0x2000, 0x1000), [piece(1, 0x1000, false)]);
        assert_eq!(ranges.remove(0x2000, 0x1000), []);
        assert_eq!(
            ranges.remove(0x3800, 0x8000),
            [piece(1, 0x800, false), piece(2, 0x1000, true)]
        );
        assert_eq!(
            ranges.remove(0, u64::MAX),
            [piece(1, 0x1000, true), piece(1, 0x800, true)]
        );
    }
}
