//! One address space over time: rectangles of addresses × time that never overlap.
//!
//! ```text
//! address ▲   ┌────────── libc ──────────┐┌── libd (mapped over it) ──▶
//!         │   └──────────────────────────┘└───
//!         │        ┌── heap ─────────────────────────────────────────▶
//!         └────────┴─────────────────────────────────────────────────▶ time
//! ```
//!
//! Records of several CPUs may come slightly out of order, so a mapping can be entered behind later ones: it then lasts
//! until they begin.

use crate::symbols::ObjectIx;
use live::Live;
use memwide_objects::Access;

mod live;

/// Later than every time.
const FOR_EVER: u64 = u64::MAX;

/// Most mappings alive in one space; the kernel's own limit is 65,530.
const LIVE_MAX: usize = 1 << 16;

/// Most ended mappings kept; the oldest go first.
const OLD_MAX: usize = 2048;

/// Most moments of exec or reuse kept.
const BARRIERS_MAX: usize = 64;

/// One mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Offset in the file of `start`, in bytes; wraps for the kernel.
    pub offset: u64,
    /// What is mapped.
    pub object: ObjectIx,
    /// How it may be used.
    pub access: Access,
}

impl Area {
    /// Offset of an address in what is mapped.
    pub fn offset_of(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.offset)
    }

    fn holds(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    /// The part within `[start, end)`, which must overlap it.
    fn part(&self, start: u64, end: u64) -> Self {
        let start = start.max(self.start);
        Self {
            start,
            end: end.min(self.end),
            offset: self.offset_of(start),
            ..*self
        }
    }
}

/// A mapping and when it was there: `from <= time < to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    area: Area,
    from: u64,
    to: u64,
}

impl Version {
    fn lives_at(&self, time: u64) -> bool {
        self.from <= time && time < self.to
    }
}

/// The mappings of one process, or of the kernel.
#[derive(Debug, Default)]
pub struct Space {
    live: Live,
    /// Ended ones, in the order of their entry.
    old: Vec<Version>,
    /// When the newest of `old` ended.
    newest_end: u64,
    /// When the newest change happened.
    newest: u64,
    /// When everything before was dropped, ascending.
    barriers: Vec<u64>,
    last_hit: usize,
    dropped: u64,
}

impl Space {
    /// Stands for what is mapped now: equal numbers, equal answers to a lookup, also of another process. Never 0.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.live.sum | 1
    }

    /// The mapping at an address at a time.
    pub fn lookup(&mut self, address: u64, time: u64) -> Option<Area> {
        let hit = match self.live.get(self.last_hit) {
            Some(version) if version.area.holds(address) => Some(*version),
            _ => {
                let behind = self.live.partition_point(|v| v.area.start <= address);
                let at = behind.checked_sub(1);
                let found = at.and_then(|at| self.live.get(at).copied());
                let found = found.filter(|version| version.area.holds(address));
                if let (Some(_), Some(at)) = (found, at) {
                    self.last_hit = at;
                }
                found
            }
        };
        if let Some(version) = hit.filter(|version| version.from <= time) {
            return Some(version.area);
        }
        if time >= self.newest_end {
            return None;
        }
        let mut ended = self.old.iter().rev();
        ended
            .find(|version| version.area.holds(address) && version.lives_at(time))
            .map(|version| version.area)
    }

    /// The mapping that ends exactly where another begins, alive now.
    pub fn ending_at(&self, address: u64) -> Option<Area> {
        let behind = self.live.partition_point(|v| v.area.start < address);
        let version = self.live.get(behind.checked_sub(1)?)?;
        (version.area.end == address).then_some(version.area)
    }

    /// Enters a mapping at a time; what it covers ends there, what covers it later stays.
    pub fn insert(&mut self, area: Area, time: u64) {
        if area.start >= area.end {
            return;
        }
        let at = self.live.partition_point(|v| v.area.start < area.start);
        if let Some(same) = self.live.all.get_mut(at).filter(|v| v.area == area) {
            same.from = same.from.min(time);
            return;
        }
        if self.live.len() >= LIVE_MAX {
            self.dropped += 1;
            return;
        }
        let pieces = self.pieces(area, time);
        self.cut(area.start, area.end, time);
        self.newest = self.newest.max(time);
        for (area, to) in pieces {
            if to == FOR_EVER {
                let at = self.live.partition_point(|v| v.area.start < area.start);
                self.live.insert(
                    at,
                    Version {
                        area,
                        from: time,
                        to,
                    },
                );
            } else {
                self.end(
                    Version {
                        area,
                        from: time,
                        to: FOR_EVER,
                    },
                    to,
                );
            }
        }
    }

    /// The parts of a mapping entered at `time`, each with its end in time.
    fn pieces(&self, area: Area, time: u64) -> Vec<(Area, u64)> {
        let barrier = self.barriers.iter().find(|at| **at > time);
        let mut pieces = vec![(area, barrier.copied().unwrap_or(FOR_EVER))];
        if time >= self.newest {
            return pieces;
        }
        for later in self.live.iter().chain(&self.old).filter(|v| v.from > time) {
            let mut split = Vec::with_capacity(pieces.len());
            for (piece, to) in pieces {
                let (start, end) = (later.area.start, later.area.end);
                if !piece.overlaps(start, end) {
                    split.push((piece, to));
                    continue;
                }
                if piece.start < start {
                    split.push((piece.part(piece.start, start), to));
                }
                split.push((piece.part(start, end), to.min(later.from)));
                if end < piece.end {
                    split.push((piece.part(end, piece.end), to));
                }
            }
            pieces = split;
        }
        pieces
    }

    /// Ends everything within `[start, end)` at a time; what lies outside lives on.
    fn cut(&mut self, start: u64, end: u64, time: u64) {
        if time < self.newest {
            for version in &mut self.old {
                if version.area.overlaps(start, end) && version.lives_at(time) {
                    version.to = time;
                }
            }
        }
        let mut at = self.live.partition_point(|v| v.area.end <= start);
        while let Some(version) = self.live.get(at).copied() {
            if version.area.start >= end {
                break;
            }
            if version.from > time {
                at += 1;
                continue;
            }
            self.live.remove(at);
            let area = version.area;
            self.end(
                Version {
                    area: area.part(start, end),
                    ..version
                },
                time,
            );
            if end < area.end {
                self.live.insert(
                    at,
                    Version {
                        area: area.part(end, area.end),
                        ..version
                    },
                );
            }
            if area.start < start {
                self.live.insert(
                    at,
                    Version {
                        area: area.part(area.start, start),
                        ..version
                    },
                );
                at += 1;
            }
        }
    }

    fn end(&mut self, version: Version, to: u64) {
        if version.from >= to {
            return; // it was never there
        }
        if self.old.len() >= OLD_MAX {
            self.old.drain(..OLD_MAX / 2);
            self.dropped += (OLD_MAX / 2) as u64;
        }
        self.old.push(Version { to, ..version });
        self.newest_end = self.newest_end.max(to);
    }

    /// Removes what is mapped within `[start, end)` from a time on.
    pub fn remove(&mut self, start: u64, end: u64, time: u64) {
        self.cut(start, end, time);
        self.newest = self.newest.max(time);
    }

    /// Ends every mapping at a time: an exec, or a new process of the same number.
    pub fn clear(&mut self, time: u64) {
        for version in &mut self.old {
            if version.lives_at(time) {
                version.to = time;
            }
        }
        let all = self.live.iter();
        let (ended, later): (Vec<Version>, Vec<_>) = all.partition(|v| v.from <= time);
        self.live = Live::of(later);
        for version in ended {
            self.end(version, time);
        }
        let at = self.barriers.partition_point(|barrier| *barrier < time);
        self.barriers.insert(at, time);
        if self.barriers.len() > BARRIERS_MAX {
            self.barriers.remove(0);
        }
        self.newest = self.newest.max(time);
    }

    /// The mappings alive at a time, as a child gets them.
    pub fn alive_at(&self, time: u64) -> impl Iterator<Item = Area> + '_ {
        let old = self.old.iter().filter(move |_| time < self.newest_end);
        let all = self.live.iter().chain(old);
        all.filter(move |v| v.lives_at(time)).map(|v| v.area)
    }

    /// Forgets what ended before a time.
    pub fn prune(&mut self, horizon: u64) {
        self.old.retain(|version| version.to > horizon);
        self.barriers.retain(|barrier| *barrier > horizon);
        if self.old.is_empty() {
            self.newest_end = 0;
        }
    }

    /// Everything mapped, also what ended and is still kept.
    pub(crate) fn objects(&self) -> impl Iterator<Item = ObjectIx> + '_ {
        let all = self.live.iter().chain(&self.old);
        all.map(|version| version.area.object)
    }

    /// Mappings given up by a bound since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Mappings kept.
    pub fn count(&self) -> usize {
        self.live.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests;
