//! From the hash of a row's keys to the row: open addressing with eight bytes a slot, of which four are of the hash. A
//! lookup mostly takes one line of the cache, and a wrong guess is rare before the row itself is looked at.

/// Slots of the first table.
const SLOTS_MIN: usize = 1 << 10;

/// The upper half of the hash; never 0, which means empty.
fn tag(hash: u64) -> u64 {
    hash >> 32 << 32 | 1 << 32
}

/// Numbers of rows by hash.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Upper half: tag; lower half: number. 0 is empty. A power of two, at most half full.
    slots: Vec<u64>,
    /// Full hashes, by number, for when the table grows.
    hashes: Vec<u64>,
}

impl Index {
    /// The row in the slot of a hash, if the tag fits: mostly the one that is looked for, often enough none.
    #[inline]
    pub(super) fn likely(&self, hash: u64) -> Option<u32> {
        let slot = self.slots.get(self.place(hash))?;
        number(*slot, hash)
    }

    /// The row with this hash that `is_it` says yes to.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.place(hash);
        loop {
            match self.slots.get(at) {
                None | Some(0) => return None,
                Some(slot) => {
                    if let Some(number) = number(*slot, hash).filter(|number| is_it(*number)) {
                        return Some(number);
                    }
                }
            }
            at = self.next(at);
        }
    }

    /// Enters the next row, whose number is the count of rows before it.
    pub(super) fn insert(&mut self, hash: u64, number: u32) {
        debug_assert_eq!(number as usize, self.hashes.len());
        self.hashes.push(hash);
        if self.hashes.len() * 2 > self.slots.len() {
            self.grow();
        } else {
            self.put(hash, number);
        }
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        self.slots.clear();
        self.slots.resize(slots, 0);
        for number in 0..self.hashes.len() {
            if let (Some(hash), Ok(number)) = (self.hashes.get(number), u32::try_from(number)) {
                self.put(*hash, number);
            }
        }
    }

    fn put(&mut self, hash: u64, number: u32) {
        let mut at = self.place(hash);
        while self.slots.get(at).is_some_and(|slot| *slot != 0) {
            at = self.next(at);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = tag(hash) | u64::from(number);
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the mask keeps the lower bits"
    )]
    fn place(&self, hash: u64) -> usize {
        hash as usize & self.slots.len().wrapping_sub(1)
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & self.slots.len().wrapping_sub(1)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower half is the number"
)]
fn number(slot: u64, hash: u64) -> Option<u32> {
    (slot != 0 && slot >> 32 == tag(hash) >> 32).then_some(slot as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_hash_also_where_hashes_are_equal() {
        let mut index = Index::default();
        // Every third row has the hash of the one before.
        let hash =
            |row: u32| u64::from(row - u32::from(row % 3 == 2)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for row in 0..10_000 {
            assert_eq!(index.find(hash(row), |found| found == row), None);
            index.insert(hash(row), row);
        }
        for row in 0..10_000 {
            assert_eq!(index.find(hash(row), |found| found == row), Some(row));
            if let Some(likely) = index.likely(hash(row)) {
                assert_eq!(hash(likely) >> 33, hash(row) >> 33, "the tag fits");
            }
        }
        assert_eq!(index.find(12_345, |_| false), None);
    }

    #[test]
    fn an_empty_index_has_nothing() {
        assert_eq!(Index::default().likely(7), None);
        assert_eq!(Index::default().find(7, |_| true), None);
    }
}
