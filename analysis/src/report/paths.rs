//! By which calls samples got to where they are: callchains kept once each, and how much of each row came by which.

use super::index::Index;
use super::keys::{Frame, Reader};
use memwide_decoder::local::LocalSample;
use std::hash::{Hash as _, Hasher as _};

/// Most frames kept of all chains together; chains beyond count as not kept. 512 MiB.
const FRAMES_MAX: usize = 32 << 20;

/// Samples of one row that came by one chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Row.
    pub(super) row: u32,
    /// Chain; [`NO_CHAIN`] where there is none, or it is not kept.
    pub(super) chain: u32,
    /// Samples.
    pub(super) samples: u64,
    /// Sum of the estimator.
    pub(super) value: f64,
}

/// Samples without a callchain, or whose chain is not kept.
pub(super) const NO_CHAIN: u32 = u32::MAX;

/// Chains, and which rows they lead to.
#[derive(Debug, Default)]
pub(super) struct Paths {
    frames: Vec<Frame>,
    /// By chain: where its frames are.
    chains: Vec<(u32, u32)>,
    index: Index,
    shares: Vec<Share>,
}

impl Paths {
    /// Takes the frames of a chain that is met for the first time. To be called for every sample, also those that do not count.
    pub(super) fn meet(&mut self, sample: &LocalSample<'_>, reader: &mut Reader) {
        let frames = sample.frames();
        let Some(chain) = sample.chain().filter(|_| !frames.is_empty()) else {
            return;
        };
        let is_kept = self
            .chains
            .get(chain.index())
            .is_some_and(|(_, len)| *len > 0);
        if is_kept {
            return;
        }
        let inlined = (0..frames.len()).map(|at| sample.inlined_at(at).len());
        let Some(span) = self.span(frames.len() + inlined.sum::<usize>()) else {
            return;
        };
        for (at, (ip, place)) in frames.iter().enumerate() {
            let own = reader.frame(sample, *ip, place);
            for line in sample.inlined_at(at) {
                let inlined = reader.inlined(line.function.as_deref(), own);
                self.frames.push(inlined);
            }
            self.frames.push(own);
        }
        if self.chains.len() <= chain.index() {
            self.chains.resize(chain.index() + 1, (0, 0));
        }
        if let Some(place) = self.chains.get_mut(chain.index()) {
            *place = span;
        }
    }

    /// Keeps frames of a chain that others met, innermost first; its number here.
    pub(super) fn append(&mut self, frames: Vec<Frame>) -> u32 {
        let chain = u32::try_from(self.chains.len()).ok();
        let Some((chain, span)) = chain.zip(self.span(frames.len())) else {
            return NO_CHAIN;
        };
        self.frames.extend(frames);
        self.chains.push(span);
        chain
    }

    /// Where the next so many frames will be; `None` if there is no room.
    fn span(&self, count: usize) -> Option<(u32, u32)> {
        let start = self.frames.len();
        if start + count > FRAMES_MAX {
            return None;
        }
        Some((u32::try_from(start).ok()?, u32::try_from(count).ok()?))
    }

    /// Counts samples of a row and their sum of the estimator.
    pub(super) fn add(&mut self, row: u32, chain: u32, samples: u64, value: f64) {
        let chain = if self.frames_of(chain).is_empty() {
            NO_CHAIN
        } else {
            chain
        };
        let mut hasher = rustc_hash::FxHasher::default();
        (u64::from(row) << 32 | u64::from(chain)).hash(&mut hasher);
        let hash = hasher.finish();
        let shares = &self.shares;
        let same = |at: u32| {
            let share = shares.get(at as usize);
            share.is_some_and(|share| share.row == row && share.chain == chain)
        };
        let found = self.index.find(hash, same);
        let at = if let Some(at) = found {
            at
        } else {
            let Ok(at) = u32::try_from(self.shares.len()) else {
                return;
            };
            self.shares.push(Share {
                row,
                chain,
                samples: 0,
                value: 0.0,
            });
            self.index.insert(hash, at);
            at
        };
        if let Some(share) = self.shares.get_mut(at as usize) {
            share.samples += samples;
            share.value += value;
        }
    }

    /// What came by which chain.
    pub(super) fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Frames of a chain, innermost first; empty for [`NO_CHAIN`].
    pub(super) fn frames_of(&self, chain: u32) -> &[Frame] {
        let Some((start, len)) = self.chains.get(chain as usize) else {
            return &[];
        };
        let start = *start as usize;
        self.frames
            .get(start..start + *len as usize)
            .unwrap_or_default()
    }
}
