//! The branch stack.
//!
//! ```text
//! { u64 nr; u64 hw_idx?; { u64 from; u64 to; u64 flags; } [nr]; u64 counters[nr]?; }
//! ```

use crate::bytes::{Words, u64_at};

/// The branches taken before a sample, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchStack<'a> {
    /// Index of the newest entry in the hardware; `None` if not recorded, `u64::MAX` if unknown.
    pub hw_index: Option<u64>,
    entries: Words<'a>,
    counters: Words<'a>,
}

/// One branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BranchEntry {
    /// Address of the branch.
    pub from: u64,
    /// Its target.
    pub to: u64,
    /// `perf_branch_entry` flags, undecoded.
    pub flags: u64,
}

impl BranchEntry {
    /// The branch was mispredicted.
    pub fn mispredicted(&self) -> bool {
        self.flags & 1 != 0
    }

    /// The branch was predicted.
    pub fn predicted(&self) -> bool {
        self.flags & 2 != 0
    }

    /// Core cycles since the branch before; 0 if unknown.
    pub fn cycles(&self) -> u64 {
        (self.flags >> 4) & 0xffff
    }
}

impl<'a> BranchStack<'a> {
    /// `bytes` are exactly the field's, with lengths checked by the layout.
    pub(crate) fn new(bytes: &'a [u8], has_index: bool, has_counters: bool) -> Self {
        let count = u64_at(bytes, 0)
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or_default();
        let index_len: usize = if has_index && (count != 0 || bytes.len() >= 16) {
            8
        } else {
            0
        };
        let hw_index = if index_len == 0 {
            None
        } else {
            u64_at(bytes, 8)
        };
        let from = 8 + index_len;
        let to = from.saturating_add(count.saturating_mul(24));
        let end = if has_counters {
            to.saturating_add(count.saturating_mul(8))
        } else {
            to
        };
        Self {
            hw_index,
            entries: Words::new(bytes.get(from..to).unwrap_or_default()),
            counters: Words::new(bytes.get(to..end).unwrap_or_default()),
        }
    }

    /// Number of branches.
    pub fn len(&self) -> usize {
        self.entries.len() / 3
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The branches, newest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = BranchEntry> + use<'a> {
        let entries = self.entries;
        (0..self.len()).map(move |index| {
            let word = |add| entries.get(index * 3 + add).unwrap_or_default();
            BranchEntry {
                from: word(0),
                to: word(1),
                flags: word(2),
            }
        })
    }

    /// Event counts of each branch; empty if not recorded.
    pub fn counters(&self) -> Words<'a> {
        self.counters
    }
}
