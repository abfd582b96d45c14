//! The mappings that live, and one number for all of them: what processes that were forked from one share has one meaning.

use super::{Area, Version};
use std::ops::Deref;
use xxhash_rust::xxh3::xxh3_64;

/// Ascending by start, not overlapping, without an end in time.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) all: Vec<Version>,
    /// Sum of the areas' hashes, so that one that comes or goes costs no look at the others.
    pub(super) sum: u64,
}

impl Live {
    pub(super) fn of(all: Vec<Version>) -> Self {
        let hashes = all.iter().map(|version| hash(&version.area));
        let sum = hashes.fold(0, u64::wrapping_add);
        Self { all, sum }
    }

    pub(super) fn insert(&mut self, at: usize, version: Version) {
        self.sum = self.sum.wrapping_add(hash(&version.area));
        self.all.insert(at, version);
    }

    pub(super) fn remove(&mut self, at: usize) {
        let gone = self.all.remove(at);
        self.sum = self.sum.wrapping_sub(hash(&gone.area));
    }
}

impl Deref for Live {
    type Target = [Version];

    fn deref(&self) -> &[Version] {
        &self.all
    }
}

fn hash(area: &Area) -> u64 {
    let Area {
        start,
        end,
        offset,
        object,
        access,
    } = area;
    let access = u64::from(access.executable) << 1 | u64::from(access.writable);
    let object = (object.index() as u64) << 2 | access;
    let mut bytes = [0; 32];
    let (chunks, _) = bytes.as_chunks_mut::<8>();
    for (chunk, word) in chunks.iter_mut().zip([*start, *end, *offset, object]) {
        *chunk = word.to_le_bytes();
    }
    xxh3_64(&bytes)
}
