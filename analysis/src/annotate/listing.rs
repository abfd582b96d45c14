//! The sums of one function laid over its instructions and over the lines they come from.

use super::{Counts, Instruction};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A line of the source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// Path as compiled.
    pub file: Arc<str>,
    /// Number from 1; 0: code of no line.
    pub line: u32,
}

/// An instruction with what fell on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The instruction; its text is empty where the code is not to be had.
    pub instruction: Instruction,
    /// The line it comes from.
    pub line: Option<Line>,
    /// Its sums.
    pub counts: Counts,
}

/// One function.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listing {
    /// Its instructions, in order of their addresses.
    pub rows: Vec<Row>,
}

impl Listing {
    /// Lays sums by address over instructions, both in ascending order; `line` says where an address comes from. An address
    /// within an instruction counts for it, and one outside of all gets a row of its own.
    pub fn new(
        instructions: Vec<Instruction>,
        sites: Vec<(u64, Counts)>,
        mut line: impl FnMut(u64) -> Option<Line>,
    ) -> Self {
        let mut rows: Vec<Row> = instructions
            .into_iter()
            .map(|instruction| Row {
                line: line(instruction.address),
                instruction,
                counts: Counts::default(),
            })
            .collect();
        let mut outside = Vec::new();
        for (address, counts) in sites {
            let behind = rows.partition_point(|row| row.instruction.address <= address);
            let row = behind.checked_sub(1).and_then(|at| rows.get_mut(at));
            let holding = row.filter(|row| {
                let instruction = &row.instruction;
                address - instruction.address < instruction.len
            });
            match holding {
                Some(row) => row.counts.merge(&counts),
                None => outside.push(Row {
                    line: line(address),
                    instruction: Instruction {
                        address,
                        len: 0,
                        text: String::new(),
                    },
                    counts,
                }),
            }
        }
        rows.append(&mut outside);
        rows.sort_by_key(|row| row.instruction.address);
        Self { rows }
    }

    /// Sums by line, those with samples, in order of file and line; instructions of no known line come first.
    pub fn lines(&self) -> Vec<(Option<&Line>, Counts)> {
        let mut lines: BTreeMap<Option<&Line>, Counts> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.counts.sums.n > 0) {
            lines
                .entry(row.line.as_ref())
                .or_default()
                .merge(&row.counts);
        }
        lines.into_iter().collect()
    }

    /// Places of the rows worth showing: those with samples and `around` before and behind each.
    pub fn near_samples(&self, around: usize) -> Vec<usize> {
        let mut places = Vec::new();
        let mut shown = 0;
        for (at, _) in self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.counts.sums.n > 0)
        {
            let end = at.saturating_add(around + 1).min(self.rows.len());
            places.extend(at.saturating_sub(around).max(shown)..end);
            shown = shown.max(end);
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(address: u64, len: u64) -> Instruction {
        Instruction {
            address,
            len,
            text: "nop".to_owned(),
        }
    }

    fn counts(n: u64) -> Counts {
        let mut counts = Counts::default();
        (0..n).for_each(|_| counts.sums.add(1.0));
        counts
    }

    fn listing() -> Listing {
        let instructions = (0..10).map(|at| instruction(0x10 + 4 * at, 4)).collect();
        let sites = vec![
            (0x10, counts(1)),
            (0x1a, counts(2)),
            (0x1c, counts(3)),
            (0x99, counts(4)),
        ];
        let file: Arc<str> = "a.c".into();
        Listing::new(instructions, sites, |address| {
            (address < 0x99).then(|| Line {
                file: Arc::clone(&file),
                line: if address < 0x18 { 5 } else { 7 },
            })
        })
    }

    #[test]
    fn every_sample_counts_for_one_instruction_and_one_line() {
        let listing = listing();
        let by_row: Vec<_> = listing.rows.iter().map(|row| row.counts.sums.n).collect();
        assert_eq!(by_row, [1, 0, 2, 3, 0, 0, 0, 0, 0, 0, 4]);
        let lines: Vec<_> = listing
            .lines()
            .into_iter()
            .map(|(line, counts)| (line.map(|line| line.line), counts.sums.n))
            .collect();
        assert_eq!(lines, [(None, 4), (Some(5), 1), (Some(7), 5)]);
    }

    #[test]
    fn instructions_around_those_with_samples_are_shown_once() {
        assert_eq!(listing().near_samples(1), [0, 1, 2, 3, 4, 9, 10]);
        assert_eq!(listing().near_samples(0), [0, 2, 3, 10]);
        assert_eq!(listing().near_samples(100), (0..11).collect::<Vec<_>>());
    }

    #[test]
    fn without_code_there_is_a_row_an_address() {
        let listing = Listing::new(Vec::new(), vec![(1, counts(1)), (9, counts(1))], |_| None);
        assert_eq!(listing.rows.len(), 2);
    }
}
