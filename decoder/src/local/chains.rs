//! Callers met before: what they mean is found out once, as long as nothing is mapped anew. The innermost frame of a callchain
//! is left out, as it is another one with nearly every sample, where its callers are few.

use crate::machine::Place;
use hashbrown::HashTable;
use memwide_model::Context;
use memwide_perf_abi::Words;
use xxhash_rust::xxh3::Xxh3;

/// Most chains of callers with a number; some 100 MB. Those beyond are given whole each time.
const CHAINS_MAX: usize = 1 << 21;

/// Most frames kept of all chains together; some 100 MB. Those of further chains are found out each time.
const FRAMES_MAX: usize = 1 << 21;

/// Number of a callchain: chains with one number have the same frames but for the innermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainIx(u32);

impl ChainIx {
    /// The number, counted from 0 in the order chains are met.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// For the first time.
    First(ChainIx),
    /// Not for the first time.
    Before(ChainIx),
    /// There are too many to know.
    Unknown,
}

/// Numbers of chains.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// By 128 bits of hash: two of four million chains share them once in 10²⁵ files.
    numbers: HashTable<(u128, u32)>,
    /// Frames of the chains kept, one after the other.
    frames: Vec<(u64, Place)>,
    /// By number.
    kept: Vec<Kept>,
}

/// Addresses and places of callers.
type Frames = [(u64, Place)];

/// What is kept of a chain.
#[derive(Debug, Clone, Copy, Default)]
enum Kept {
    /// Nothing.
    #[default]
    Nothing,
    /// It has a marker that nobody knows, and no frames therefore.
    Corrupt,
    /// Where the frames of its callers are, and what they tell of the context.
    Callers {
        start: u32,
        len: u32,
        entry: Option<Context>,
    },
}

impl Chains {
    /// The number of a chain of recorded words and of frames made, of which the one at `leaf` is the innermost (of both counted
    /// together); `spaces` stands for what is mapped where: the process's, then the kernel's.
    pub(super) fn meet(
        &mut self,
        chain: Words<'_>,
        made: &[u64],
        leaf: usize,
        spaces: [u64; 2],
    ) -> Met {
        let mut hasher = Xxh3::new();
        hasher.update(&spaces[0].to_le_bytes());
        hasher.update(&spaces[1].to_le_bytes());
        let (before, behind) = (chain.first(leaf), chain.behind(leaf + 1));
        hasher.update(before.as_bytes());
        hasher.update(behind.as_bytes());
        // Without a recorded frame the first one made is the innermost.
        let is_made = leaf >= chain.len();
        for address in made.iter().skip(is_made.into()) {
            hasher.update(&address.to_le_bytes());
        }
        let hash = hasher.digest128();
        if let Some((_, number)) = self.numbers.find(lower(hash), |(known, _)| *known == hash) {
            return Met::Before(ChainIx(*number));
        }
        if self.numbers.len() >= CHAINS_MAX {
            return Met::Unknown;
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        self.numbers
            .insert_unique(lower(hash), (hash, number), |(known, _)| lower(*known));
        Met::First(ChainIx(number))
    }

    /// Keeps the frames of a chain's callers, and what they tell of the context; not if there are too many. `None`: the chain is
    /// corrupt.
    pub(super) fn keep(
        &mut self,
        chain: ChainIx,
        callers: Option<&Frames>,
        entry: Option<Context>,
    ) {
        let kept = match callers {
            None => Kept::Corrupt,
            Some(callers) if self.frames.len() + callers.len() > FRAMES_MAX => Kept::Nothing,
            Some(callers) => {
                let (start, len) = (self.frames.len(), callers.len());
                let (Ok(start), Ok(len)) = (u32::try_from(start), u32::try_from(len)) else {
                    return;
                };
                self.frames.extend_from_slice(callers);
                Kept::Callers { start, len, entry }
            }
        };
        if self.kept.len() <= chain.index() {
            self.kept.resize(chain.index() + 1, Kept::Nothing);
        }
        if let Some(place) = self.kept.get_mut(chain.index()) {
            *place = kept;
        }
    }

    /// The frames kept of a chain's callers, and what they tell of the context; `None` also of a corrupt one.
    pub(super) fn callers(&self, chain: ChainIx) -> Option<(&Frames, Option<Context>)> {
        self.kept(chain)?.ok()
    }

    /// The same. `Err`: the chain is corrupt.
    pub(super) fn kept(
        &self,
        chain: ChainIx,
    ) -> Option<Result<(&Frames, Option<Context>), Corrupt>> {
        match *self.kept.get(chain.index())? {
            Kept::Nothing => None,
            Kept::Corrupt => Some(Err(Corrupt)),
            Kept::Callers { start, len, entry } => {
                let start = start as usize;
                let frames = self.frames.get(start..start + len as usize)?;
                Some(Ok((frames, entry)))
            }
        }
    }
}

/// A chain with a marker that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Corrupt;

#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower half is as good a hash"
)]
fn lower(hash: u128) -> u64 {
    hash as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_kept_by_number() {
        let (mut chains, frame) = (Chains::default(), (7, Place::default()));
        chains.keep(ChainIx(2), Some(&[frame, frame]), Some(Context::Fault));
        chains.keep(ChainIx(0), Some(&[frame]), None);
        chains.keep(ChainIx(4), None, None);
        assert_eq!(chains.kept(ChainIx(0)), Some(Ok((&[frame][..], None))));
        assert_eq!(chains.kept(ChainIx(1)), None);
        let two = Some(Ok((&[frame, frame][..], Some(Context::Fault))));
        assert_eq!(chains.kept(ChainIx(2)), two);
        assert_eq!(chains.kept(ChainIx(4)), Some(Err(Corrupt)));
        chains.keep(ChainIx(3), Some(&vec![frame; FRAMES_MAX]), None);
        assert_eq!(chains.kept(ChainIx(3)), None, "too many");
    }

    #[test]
    fn callers_are_met_once_in_each_state_of_what_is_mapped() {
        let mut chains = Chains::default();
        let bytes =
            |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
        let (whole, other) = (bytes(&[1, 2, 3]), bytes(&[9, 2, 3]));
        let (whole, other) = (Words::new(&whole), Words::new(&other));
        let part = whole.first(2);
        let [first, second, third] = [ChainIx(0), ChainIx(1), ChainIx(2)];
        assert_eq!(chains.meet(whole, &[], 0, [7, 1]), Met::First(first));
        assert_eq!(chains.meet(part, &[], 0, [7, 1]), Met::First(second));
        assert_eq!(chains.meet(whole, &[], 0, [7, 1]), Met::Before(first));
        assert_eq!(chains.meet(whole, &[], 0, [8, 1]), Met::First(third));
        assert_eq!(chains.meet(part, &[], 0, [7, 1]), Met::Before(second));
        assert_eq!(chains.meet(part, &[3], 0, [7, 1]), Met::Before(first));
        assert_eq!(
            chains.meet(other, &[], 0, [7, 1]),
            Met::Before(first),
            "another innermost"
        );
        assert_eq!(
            chains.meet(whole.first(0), &[8, 2, 3], 0, [7, 1]),
            Met::Before(first)
        );
    }
}
