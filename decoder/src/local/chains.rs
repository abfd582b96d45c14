//! Callchains met before: what a chain means is found out once, as long as nothing is mapped anew.

use crate::machine::Place;
use hashbrown::HashTable;
use memwide_model::Context;
use memwide_perf_abi::Words;
use xxhash_rust::xxh3::Xxh3;

/// Most chains with a number; some 100 MB. Those beyond are given whole each time.
const CHAINS_MAX: usize = 1 << 21;

/// Most frames kept of all chains together; some 100 MB. Those of further chains are found out each time.
const FRAMES_MAX: usize = 1 << 21;

/// Number of a callchain: chains with one number have the same frames.
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
    kept: Vec<Option<Kept>>,
}

/// Addresses and places of a chain.
type Frames = [(u64, Place)];

/// A chain whose frames are kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    start: u32,
    len: u32,
    entry: Option<Context>,
}

impl Chains {
    /// The number of a chain of recorded words and of frames made; `spaces` stands for what is mapped where: the process's,
    /// then the kernel's.
    pub(super) fn meet(&mut self, chain: Words<'_>, made: &[u64], spaces: [u64; 2]) -> Met {
        let mut hasher = Xxh3::new();
        hasher.update(&spaces[0].to_le_bytes());
        hasher.update(&spaces[1].to_le_bytes());
        hasher.update(chain.as_bytes());
        for address in made {
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

    /// Keeps the frames of a chain, and what they tell of the context; not if there are too many.
    pub(super) fn keep(&mut self, chain: ChainIx, frames: &Frames, entry: Option<Context>) {
        if self.frames.len() + frames.len() > FRAMES_MAX {
            return;
        }
        let (Ok(start), Ok(len)) = (
            u32::try_from(self.frames.len()),
            u32::try_from(frames.len()),
        ) else {
            return;
        };
        self.frames.extend_from_slice(frames);
        if self.kept.len() <= chain.index() {
            self.kept.resize(chain.index() + 1, None);
        }
        if let Some(place) = self.kept.get_mut(chain.index()) {
            *place = Some(Kept { start, len, entry });
        }
    }

    /// The frames kept of a chain, and what they tell of the context.
    pub(super) fn kept(&self, chain: ChainIx) -> Option<(&Frames, Option<Context>)> {
        let kept = (*self.kept.get(chain.index())?)?;
        let start = kept.start as usize;
        let frames = self.frames.get(start..start + kept.len as usize)?;
        Some((frames, kept.entry))
    }
}

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
        chains.keep(ChainIx(2), &[frame, frame], Some(Context::Fault));
        chains.keep(ChainIx(0), &[frame], None);
        assert_eq!(chains.kept(ChainIx(0)), Some((&[frame][..], None)));
        assert_eq!(chains.kept(ChainIx(1)), None);
        let two = Some((&[frame, frame][..], Some(Context::Fault)));
        assert_eq!(chains.kept(ChainIx(2)), two);
        chains.keep(ChainIx(3), &vec![frame; FRAMES_MAX], None);
        assert_eq!(chains.kept(ChainIx(3)), None, "too many");
    }

    #[test]
    fn a_chain_is_met_once_in_each_state_of_what_is_mapped() {
        let mut chains = Chains::default();
        let bytes: Vec<u8> = [1_u64, 2, 3].iter().flat_map(|w| w.to_le_bytes()).collect();
        let (whole, part) = (Words::new(&bytes), Words::new(&bytes[..16]));
        let [first, second, third] = [ChainIx(0), ChainIx(1), ChainIx(2)];
        assert_eq!(chains.meet(whole, &[], [7, 1]), Met::First(first));
        assert_eq!(chains.meet(part, &[], [7, 1]), Met::First(second));
        assert_eq!(chains.meet(whole, &[], [7, 1]), Met::Before(first));
        assert_eq!(chains.meet(whole, &[], [8, 1]), Met::First(third));
        assert_eq!(chains.meet(part, &[], [7, 1]), Met::Before(second));
        assert_eq!(chains.meet(part, &[3], [7, 1]), Met::Before(first));
    }
}
