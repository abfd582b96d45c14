//! By which calls samples got to where they are: callers kept once each, and how much of each row came by which.

use super::index::Index;
use super::reader::{Frame, Reader};
use memwide_decoder::local::LocalSample;
use std::hash::{Hash as _, Hasher as _};

/// Most frames kept of all paths together; those beyond count as not kept. 512 MiB.
const FRAMES_MAX: usize = 32 << 20;

/// Samples of one row that came by one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Row.
    pub(super) row: u32,
    /// Path; [`NO_PATH`] where there is none, or it is not kept.
    pub(super) path: u32,
    /// Samples.
    pub(super) samples: u64,
    /// Sum of the estimator.
    pub(super) value: f64,
}

/// Samples without a callchain, or whose chain is not kept.
pub(super) const NO_PATH: u32 = u32::MAX;

/// Where frames are: the first one's place, their number.
type Span = (u32, u32);

/// Callers that were not met yet.
const UNMET: Span = (u32::MAX, 0);

/// One way to where samples are.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// The innermost function, before it those that were inlined into it.
    leaf: Span,
    callers: Span,
    /// Where the sums of the row are that it led to last; mostly there is one only.
    last: Option<(u32, u32)>,
}

/// Paths, and which rows they lead to.
#[derive(Debug, Default)]
pub(super) struct Paths {
    frames: Vec<Frame>,
    /// By number of a chain.
    callers: Vec<Span>,
    all: Vec<Path>,
    index: Index,
    shares: Vec<Share>,
    share_index: Index,
    /// Of the sample at hand.
    leaf: Vec<Frame>,
}

impl Paths {
    /// Takes the callers of a chain that is met for the first time. To be called for every sample, also those that do not count.
    pub(super) fn meet(&mut self, sample: &LocalSample<'_>, reader: &mut Reader) {
        let Some(chain) = sample.chain().filter(|_| sample.leaf().is_some()) else {
            return;
        };
        if self
            .callers
            .get(chain.index())
            .is_some_and(|span| *span != UNMET)
        {
            return;
        }
        let callers = sample.callers();
        let inlined = (1..=callers.len()).map(|at| sample.inlined_at(at).len());
        let Some(span) = self.span(callers.len() + inlined.sum::<usize>()) else {
            return;
        };
        for (at, (ip, place)) in (1..).zip(callers) {
            reader.frames(sample, at, *ip, place, &mut self.frames);
        }
        if self.callers.len() <= chain.index() {
            self.callers.resize(chain.index() + 1, UNMET);
        }
        if let Some(place) = self.callers.get_mut(chain.index()) {
            *place = span;
        }
    }

    /// The path of a sample whose chain was met.
    pub(super) fn of(&mut self, sample: &LocalSample<'_>, reader: &mut Reader) -> u32 {
        let Some((chain, (ip, place))) = sample.chain().zip(sample.leaf()) else {
            return NO_PATH;
        };
        let known = self.callers.get(chain.index());
        let Some(callers) = known.copied().filter(|span| *span != UNMET) else {
            return NO_PATH;
        };
        let mut leaf = std::mem::take(&mut self.leaf);
        leaf.clear();
        reader.frames(sample, 0, *ip, place, &mut leaf);
        let path = self.path(&leaf, callers);
        self.leaf = leaf;
        path
    }

    /// Keeps frames that others met, innermost first: their place.
    pub(super) fn append(&mut self, frames: impl ExactSizeIterator<Item = Frame>) -> Option<Span> {
        let span = self.span(frames.len())?;
        self.frames.extend(frames);
        Some(span)
    }

    /// The path with this innermost function and callers that are kept.
    pub(super) fn path(&mut self, leaf: &[Frame], callers: Span) -> u32 {
        let mut hasher = rustc_hash::FxHasher::default();
        callers.hash(&mut hasher);
        leaf.hash(&mut hasher);
        let hash = hasher.finish();
        let (all, frames) = (&self.all, &self.frames);
        let same = |at: u32| {
            let path = all.get(at as usize);
            path.is_some_and(|path| path.callers == callers && slice(frames, path.leaf) == leaf)
        };
        if let Some(found) = self.index.find(hash, same) {
            return found;
        }
        let at = u32::try_from(self.all.len()).ok();
        let Some((at, leaf)) = at.zip(self.append(leaf.iter().copied())) else {
            return NO_PATH;
        };
        let last = None;
        self.all.push(Path {
            leaf,
            callers,
            last,
        });
        self.index.insert(hash, at);
        at
    }

    /// Where the next so many frames will be; `None` if there is no room.
    fn span(&self, count: usize) -> Option<Span> {
        let start = self.frames.len();
        if start + count > FRAMES_MAX {
            return None;
        }
        Some((u32::try_from(start).ok()?, u32::try_from(count).ok()?))
    }

    /// Counts samples of a row and their sum of the estimator.
    pub(super) fn add(&mut self, row: u32, path: u32, samples: u64, value: f64) {
        let last = self.all.get(path as usize).and_then(|path| path.last);
        let at = match last {
            Some((before, at)) if before == row => at,
            _ => self.share_of(row, path),
        };
        if let Some(share) = self.shares.get_mut(at as usize) {
            share.samples += samples;
            share.value += value;
        }
    }

    /// Where the sums of a row and a path are.
    fn share_of(&mut self, row: u32, path: u32) -> u32 {
        let mut hasher = rustc_hash::FxHasher::default();
        (u64::from(row) << 32 | u64::from(path)).hash(&mut hasher);
        let hash = hasher.finish();
        let shares = &self.shares;
        let same = |at: u32| {
            let share = shares.get(at as usize);
            share.is_some_and(|share| share.row == row && share.path == path)
        };
        let found = self.share_index.find(hash, same);
        let at = if let Some(at) = found {
            at
        } else {
            let Ok(at) = u32::try_from(self.shares.len()) else {
                return u32::MAX; // no file has so many samples
            };
            self.shares.push(Share {
                row,
                path,
                samples: 0,
                value: 0.0,
            });
            self.share_index.insert(hash, at);
            at
        };
        if let Some(path) = self.all.get_mut(path as usize) {
            path.last = Some((row, at));
        }
        at
    }

    /// What came by which path.
    pub(super) fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Frames of a path, innermost first: the innermost function with what was inlined into it, then its callers. Empty for
    /// [`NO_PATH`].
    pub(super) fn frames_of(&self, path: u32) -> [&[Frame]; 2] {
        let Some(path) = self.all.get(path as usize) else {
            return [&[], &[]];
        };
        [path.leaf, path.callers].map(|span| slice(&self.frames, span))
    }

    /// Where the callers of a path are.
    pub(super) fn callers_of(&self, path: u32) -> Option<Span> {
        Some(self.all.get(path as usize)?.callers)
    }
}

fn slice(frames: &[Frame], (start, len): Span) -> &[Frame] {
    let start = start as usize;
    frames.get(start..start + len as usize).unwrap_or_default()
}
