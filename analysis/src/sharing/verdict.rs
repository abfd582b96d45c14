//! What the samples of a line prove about how it is shared.
//!
//! A load that another cache had to answer was *contended*. Who made it so? Somebody else who wrote the line:
//!
//! - at the same offset only: the threads share the data itself (true sharing);
//! - at other offsets only: they share the line alone (false sharing, padding helps);
//! - at both: cannot be told apart for this load;
//! - nowhere that was sampled: the writer is unseen.
//!
//! Stores are never seen to be contended by the hardware; a line that two threads write is passed between their caches at each
//! change of hands, whether a load tells or not (store-store contention).

use super::{Set, Site};
use memwide_decoder::Names;
use rustc_hash::FxHashMap;

/// How a line is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// By one thread, or nobody writes.
    NotShared,
    /// No sample says whether it loads or stores.
    CannotTell,
    /// Contended by writers at other offsets.
    FalseSharing,
    /// Contended by writers at the same offset.
    TrueSharing,
    /// Both.
    Mixed,
    /// Contended, but no sample shows who wrote.
    WriterUnseen,
    /// Written by several threads, each at offsets of its own; no contended load.
    StoresApart,
    /// Written by several threads at one offset; no contended load.
    StoresTogether,
    /// Read by threads while others write at other offsets; no contended load.
    ReadsApart,
    /// Read by threads while others write at the same offset; no contended load.
    ReadsTogether,
}

impl Kind {
    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotShared => "not shared",
            Self::CannotTell => "cannot tell",
            Self::FalseSharing => "false sharing",
            Self::TrueSharing => "true sharing",
            Self::Mixed => "false and true sharing",
            Self::WriterUnseen => "writer unseen",
            Self::StoresApart => "stores, different offsets",
            Self::StoresTogether => "stores, same offset",
            Self::ReadsApart => "read and written, different offsets",
            Self::ReadsTogether => "read and written, same offset",
        }
    }

    /// Whether somebody else's writes are in it.
    pub fn is_sharing(self) -> bool {
        !matches!(self, Self::NotShared | Self::CannotTell)
    }

    /// Whether padding or moving fields apart would help.
    pub fn is_false_sharing(self) -> bool {
        matches!(self, Self::FalseSharing | Self::Mixed)
    }
}

/// An access that the verdict rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Bytes from the line's start.
    pub offset: u8,
    /// Function, or the code address.
    pub function: String,
    /// Thread, or the CPU where none is recorded.
    pub thread: u32,
    /// Contended loads, or writes.
    pub n: u64,
}

/// What a line's samples prove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// In one word.
    pub kind: Kind,
    /// Loads for which another cache had to answer: HitM, forwarded or from a peer.
    pub contended: u64,
    /// Of those: somebody else wrote at other offsets only.
    pub apart: u64,
    /// Of those: somebody else wrote at the same offset only.
    pub together: u64,
    /// Of those: somebody else wrote at both.
    pub both: u64,
    /// Of those: nobody else's write was sampled.
    pub unseen: u64,
    /// Stores and locked loads.
    pub writes: u64,
    /// Threads that accessed it, and those of them that wrote.
    pub threads: usize,
    /// Threads that wrote.
    pub writers: usize,
    /// Offsets that were accessed.
    pub offsets: usize,
    /// The access with the most contended loads (or the one that reads, or writes first).
    pub victim: Option<Evidence>,
    /// Somebody else's access with the most writes.
    pub writer: Option<Evidence>,
}

#[derive(Default)]
struct Offset {
    contended: u64,
    /// Threads with contended loads.
    victims: Set,
    readers: Set,
    writers: Set,
}

/// What the sites of one line prove.
pub(super) fn judge(sites: &[&Site], names: &Names) -> Verdict {
    let mut memories: FxHashMap<u64, Vec<&Site>> = FxHashMap::default();
    for site in sites {
        memories.entry(site.key.memory).or_default().push(site);
    }
    let mut keys: Vec<u64> = memories.keys().copied().collect();
    keys.sort_unstable();
    let mut verdict = Verdict {
        kind: Kind::NotShared,
        contended: 0,
        apart: 0,
        together: 0,
        both: 0,
        unseen: 0,
        writes: 0,
        threads: 0,
        writers: 0,
        offsets: 0,
        victim: None,
        writer: None,
    };
    let mut patterns = Patterns::default();
    for key in keys {
        if let Some(sites) = memories.get(&key) {
            verdict.add(sites, &mut patterns);
        }
    }
    let (mut threads, mut writers, mut offsets) =
        (Set::default(), Set::default(), Set::<u8>::default());
    for site in sites {
        threads.insert(site.who);
        offsets.insert(site.key.offset);
        if site.writes > 0 {
            writers.insert(site.who);
        }
        verdict.writes += u64::from(site.writes);
    }
    verdict.threads = threads.len();
    verdict.writers = writers.len();
    verdict.offsets = offsets.len();
    verdict.kind = if sites.iter().any(|site| is_access(site)) {
        verdict.kind(&patterns)
    } else {
        Kind::CannotTell
    };
    verdict.witnesses(sites, names);
    verdict
}

/// Whether it is known to load or to store.
fn is_access(site: &Site) -> bool {
    use super::Counter::{Load, Store};
    site.writes > 0 || site.counts.get(Load) > 0 || site.counts.get(Store) > 0
}

/// Patterns without contended loads.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four findings, each by itself"
)]
struct Patterns {
    stores_apart: bool,
    stores_together: bool,
    reads_apart: bool,
    reads_together: bool,
}

impl Verdict {
    /// Adds the sites of one piece of memory.
    fn add(&mut self, sites: &[&Site], patterns: &mut Patterns) {
        let mut offsets: FxHashMap<u8, Offset> = FxHashMap::default();
        for site in sites {
            let offset = offsets.entry(site.key.offset).or_default();
            offset.contended += u64::from(site.contended);
            if site.contended > 0 {
                offset.victims.insert(site.who);
            }
            if site.writes > 0 {
                offset.writers.insert(site.who);
            } else {
                offset.readers.insert(site.who);
            }
        }
        let mut at: Vec<u8> = offsets.keys().copied().collect();
        at.sort_unstable();
        for here in &at {
            let Some(mine) = offsets.get(here) else {
                continue;
            };
            let elsewhere = |whom: &Set| {
                let mut others = at.iter().filter(|other| *other != here);
                others.any(|other| {
                    offsets
                        .get(other)
                        .is_some_and(|other| other.writers.has_another_than(whom))
                })
            };
            self.contended += mine.contended;
            let by = (
                mine.writers.has_another_than(&mine.victims),
                elsewhere(&mine.victims),
            );
            *match by {
                (false, false) => &mut self.unseen,
                (false, true) => &mut self.apart,
                (true, false) => &mut self.together,
                (true, true) => &mut self.both,
            } += mine.contended;
            patterns.stores_together |= mine.writers.len() > 1;
            patterns.stores_apart |= elsewhere(&mine.writers);
            patterns.reads_together |= mine.writers.has_another_than(&mine.readers);
            patterns.reads_apart |= elsewhere(&mine.readers);
        }
    }

    fn kind(&self, patterns: &Patterns) -> Kind {
        if self.contended > 0 {
            return match (self.apart, self.together, self.both) {
                (0, 0, 0) => Kind::WriterUnseen,
                (_, 0, 0) => Kind::FalseSharing,
                (0, _, 0) => Kind::TrueSharing,
                _ => Kind::Mixed,
            };
        }
        if patterns.stores_together {
            Kind::StoresTogether
        } else if patterns.stores_apart {
            Kind::StoresApart
        } else if patterns.reads_together {
            Kind::ReadsTogether
        } else if patterns.reads_apart {
            Kind::ReadsApart
        } else {
            Kind::NotShared
        }
    }

    /// Names the access that suffers most and the one that makes it.
    fn witnesses(&mut self, sites: &[&Site], names: &Names) {
        if !self.kind.is_sharing() {
            return;
        }
        let entries = |site: &Site| site.counts.get(super::Counter::Entries);
        let victim = sites.iter().max_by_key(|site| {
            (
                site.contended,
                entries(site),
                std::cmp::Reverse(site.key.ip),
            )
        });
        let Some(victim) = victim else { return };
        let wants_apart = matches!(
            self.kind,
            Kind::FalseSharing | Kind::StoresApart | Kind::ReadsApart
        );
        let writer = sites
            .iter()
            .filter(|site| site.writes > 0 && site.who != victim.who)
            .max_by_key(|site| {
                let is_apart = site.key.offset != victim.key.offset;
                let fits = is_apart == wants_apart && site.key.memory == victim.key.memory;
                (fits, site.writes, std::cmp::Reverse(site.key.ip))
            });
        let n = if victim.contended > 0 {
            u64::from(victim.contended)
        } else {
            entries(victim)
        };
        self.victim = Some(evidence(victim, n, names));
        self.writer = writer.map(|site| evidence(site, site.writes.into(), names));
    }
}

fn evidence(site: &Site, n: u64, names: &Names) -> Evidence {
    Evidence {
        offset: site.key.offset,
        function: match site.symbol {
            Some(symbol) => names.get(symbol).to_owned(),
            None => format!("{:#x}", site.key.ip),
        },
        thread: site.who,
        n,
    }
}
