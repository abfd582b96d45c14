//! The functions of a unit and what was inlined into them, as a tree over ranges of addresses.

use super::budget::Budget;
use super::lines::number_of;
use super::units::{Ranges, index};
use super::{Bytes, DebugError};
use crate::Index;
use gimli::constants as dw;
use gimli::{Dwarf, Unit};

/// A function, or one inlined into another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Its entry, as an offset in the unit.
    pub(super) entry: usize,
    /// The node it was inlined into; [`NONE`] for functions of their own.
    parent: u32,
    /// Number of the file, line and column of the call that was inlined.
    pub(super) call_file: u32,
    pub(super) call_line: u32,
    pub(super) call_column: u32,
}

const NONE: u32 = u32::MAX;

/// Nodes between a function and the innermost inlined one at most; more are damage.
const DEPTH_MAX: usize = 256;

/// All functions of a unit.
#[derive(Debug, Default)]
pub(super) struct Functions {
    nodes: Vec<Node>,
    index: Index,
    owners: Vec<u32>,
}

impl Functions {
    /// Reads all entries of the unit.
    pub(super) fn read(
        dwarf: &Dwarf<Bytes<'_>>,
        unit: &Unit<Bytes<'_>>,
        budget: &mut Budget,
    ) -> Result<Self, DebugError> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut ranges = Vec::new();
        // Nodes that the current entry lies in, each with its depth.
        let mut open: Vec<(isize, u32)> = Vec::new();
        let mut entries = unit.header.entries_raw(&unit.abbreviations, None)?;
        while !entries.is_empty() {
            let (depth, entry) = (entries.next_depth(), entries.next_offset().0);
            budget.pay(2)?;
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            while open.pop_if(|(outer, _)| *outer >= depth).is_some() {}
            budget.pay(abbreviation.attributes().len())?;
            let parent = match abbreviation.tag() {
                dw::DW_TAG_subprogram => NONE,
                dw::DW_TAG_inlined_subroutine => open.last().map_or(NONE, |(_, node)| *node),
                _ => {
                    entries.skip_attributes(abbreviation.attributes())?;
                    continue;
                }
            };
            let mut node = Node {
                entry,
                parent,
                call_file: 0,
                call_line: 0,
                call_column: 0,
            };
            let (mut low, mut high, mut list) = (None, None, None);
            for specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                let value = attribute.value();
                match attribute.name() {
                    dw::DW_AT_low_pc => low = Some(value),
                    dw::DW_AT_high_pc => high = Some(value),
                    dw::DW_AT_ranges => list = Some(value),
                    dw::DW_AT_call_file => node.call_file = number_of(&value),
                    dw::DW_AT_call_line => node.call_line = number_of(&value),
                    dw::DW_AT_call_column => node.call_column = number_of(&value),
                    _ => {}
                }
            }
            let mut found = Ranges::default();
            found.add(dwarf, unit, low, high, list, budget)?;
            if found.found.is_empty() {
                continue;
            }
            budget.pay(8)?;
            let at = u32::try_from(nodes.len()).unwrap_or(NONE);
            ranges.extend(found.found.iter().map(|(start, end)| (*start, *end, at)));
            nodes.push(node);
            open.push((depth, at));
        }
        let (index, owners) = index(ranges);
        Ok(Self {
            nodes,
            index,
            owners,
        })
    }

    /// The functions at an address, innermost first.
    pub(super) fn chain(&self, address: u64) -> impl Iterator<Item = &Node> {
        let owner = self.index.lookup(address);
        let owner = owner.and_then(|range| self.owners.get(range.index()).copied());
        let mut next = owner.unwrap_or(NONE);
        let nodes = std::iter::from_fn(move || {
            let node = self.nodes.get(next as usize)?;
            next = node.parent;
            Some(node)
        });
        nodes.take(DEPTH_MAX)
    }

    /// Memory taken, about.
    pub(super) fn bytes(&self) -> usize {
        // An indexed range has an owner, two places in the index and some buckets; any index has some.
        self.nodes.len() * size_of::<Node>() + self.owners.len() * 128 + (64 << 10)
    }
}
