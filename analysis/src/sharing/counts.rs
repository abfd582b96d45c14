//! What `perf c2c` counts of an access, by its own rules.
//!
//! They read the old level mask (`mem_lvl`), not the level number; so words without it (some of IBS, CXL, later PMUs) are
//! loads of no level. That is kept as it is: equal names have equal numbers. What memwide itself makes of a word stands
//! beside it, in the verdict.

use memwide_model::DataSrc;
use memwide_model::data_src::{blk, lock, lvl, op, snoop, snoopx};

macro_rules! counters {
    ($($variant:ident = $name:literal, $text:literal;)+) => {
        /// One counter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Counter { $(#[doc = $text] $variant,)+ }

        impl Counter {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Name in JSON, as perf's own field is called.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

counters! {
    Entries = "nr_entries", "Samples.";
    Locks = "locks", "Locked loads and stores.";
    Store = "store", "Stores.";
    StoreUncached = "st_uncache", "Stores to uncached memory.";
    StoreNoAddress = "st_noadrs", "Stores without an address.";
    StoreL1Hit = "st_l1hit", "Stores that hit the L1.";
    StoreL1Miss = "st_l1miss", "Stores that missed the L1.";
    StoreNoLevel = "st_na", "Stores whose level is not available.";
    Load = "load", "Loads.";
    LoadExclusive = "ld_excl", "Loads from memory, line not found elsewhere.";
    LoadShared = "ld_shared", "Loads from memory, line found clean elsewhere.";
    LoadUncached = "ld_uncache", "Loads of uncached memory.";
    LoadIo = "ld_io", "Loads of I/O memory.";
    LoadMiss = "ld_miss", "Loads with the miss bit.";
    LoadNoAddress = "ld_noadrs", "Loads without an address.";
    LoadFillBuffer = "ld_fbhit", "Loads served by a pending miss.";
    LoadL1 = "ld_l1hit", "Loads from the L1.";
    LoadL2 = "ld_l2hit", "Loads from the L2.";
    LoadL3 = "ld_llchit", "Loads from the L3 that were no HitM.";
    LocalHitm = "lcl_hitm", "Loads from the L3, found modified in another core.";
    RemoteHitm = "rmt_hitm", "Loads from a remote cache, found modified.";
    Hitm = "tot_hitm", "Both kinds of HitM.";
    LocalPeer = "lcl_peer", "Loads from L2 or L3, served by a peer cache.";
    RemotePeer = "rmt_peer", "Loads from a remote cache, served by a peer.";
    Peer = "tot_peer", "Both kinds of peer.";
    RemoteHit = "rmt_hit", "Loads from a remote cache, found clean or from a peer.";
    LocalDram = "lcl_dram", "Loads from local memory.";
    RemoteDram = "rmt_dram", "Loads from remote memory.";
    BlockedData = "blk_data", "Accesses blocked by data.";
    BlockedAddress = "blk_addr", "Accesses blocked by an address.";
    NoMap = "nomap", "Accesses whose code or data address is not mapped.";
    NoParse = "noparse", "Neither load nor store.";
}

const COUNTERS: usize = Counter::ALL.len();

/// All counters; a file has fewer samples than 32 bits hold, what would go beyond stays at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts([u32; COUNTERS]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; COUNTERS])
    }
}

/// More than any word increments.
const INCREMENTS: usize = 32;

/// What one access increments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Increments {
    list: [Counter; INCREMENTS],
    len: usize,
}

impl Increments {
    fn put(&mut self, counter: Counter) {
        if let Some(place) = self.list.get_mut(self.len) {
            *place = counter;
            self.len += 1;
        }
    }

    fn put_if(&mut self, is: bool, counter: Counter) {
        if is {
            self.put(counter);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Counter> {
        self.list.iter().take(self.len).copied()
    }

    /// Of an access with this word. `addr`: its data address, 0 if there is none; `mapped`: code and data address lie in
    /// something known.
    pub(super) fn of(word: DataSrc, addr: u64, mapped: bool) -> Self {
        let mut all = Self {
            list: [Counter::Entries; INCREMENTS],
            len: 1,
        };
        all.put_if(word.lock() & lock::LOCKED != 0, Counter::Locks);
        all.put_if(word.blk() & blk::DATA != 0, Counter::BlockedData);
        all.put_if(word.blk() & blk::ADDR != 0, Counter::BlockedAddress);
        let is_load = word.op() & op::LOAD != 0;
        let goes_on = if is_load {
            all.put(Counter::Load);
            all.put_if(addr == 0, Counter::LoadNoAddress);
            addr != 0
        } else if word.op() & op::STORE != 0 {
            all.put(Counter::Store);
            all.put_if(addr == 0, Counter::StoreNoAddress);
            addr != 0
        } else {
            all.put(Counter::NoParse);
            false
        };
        if goes_on {
            if is_load {
                all.load(word);
            } else {
                all.store(word.lvl());
            }
            all.put_if(!mapped, Counter::NoMap);
        }
        all
    }

    fn load(&mut self, word: DataSrc) {
        let level = word.lvl();
        // A remote bit with a hop count may mean another core of the node; without one it is another node.
        let remote = word.remote() != 0 && word.hops() == 0;
        let is_hitm = word.snoop() & snoop::HITM != 0;
        let is_hit = word.snoop() & snoop::HIT != 0;
        let is_peer = word.snoopx() & snoopx::PEER != 0;
        if level & lvl::HIT != 0 {
            self.put_if(level & lvl::UNC != 0, Counter::LoadUncached);
            self.put_if(level & lvl::IO != 0, Counter::LoadIo);
            self.put_if(level & lvl::LFB != 0, Counter::LoadFillBuffer);
            self.put_if(level & lvl::L1 != 0, Counter::LoadL1);
            if level & lvl::L2 != 0 {
                self.put(Counter::LoadL2);
                self.peer(is_peer, Counter::LocalPeer);
            }
            if level & lvl::L3 != 0 {
                if is_hitm {
                    self.hitm(Counter::LocalHitm);
                } else {
                    self.put(Counter::LoadL3);
                }
                self.peer(is_peer, Counter::LocalPeer);
            }
            let coherence = if is_hit {
                Counter::LoadShared
            } else {
                Counter::LoadExclusive
            };
            if level & lvl::LOC_RAM != 0 {
                self.put(Counter::LocalDram);
                self.put(coherence);
            }
            if level & (lvl::REM_RAM1 | lvl::REM_RAM2) != 0 || remote {
                self.put(Counter::RemoteDram);
                self.put(coherence);
            }
        }
        if level & (lvl::REM_CCE1 | lvl::REM_CCE2) != 0 || remote {
            if is_hit {
                self.put(Counter::RemoteHit);
            } else if is_hitm {
                self.hitm(Counter::RemoteHitm);
            } else if is_peer {
                self.put(Counter::RemoteHit);
                self.peer(true, Counter::RemotePeer);
            }
        }
        self.put_if(level & lvl::MISS != 0, Counter::LoadMiss);
    }

    fn store(&mut self, level: u64) {
        if level & lvl::HIT != 0 {
            self.put_if(level & lvl::UNC != 0, Counter::StoreUncached);
            self.put_if(level & lvl::L1 != 0, Counter::StoreL1Hit);
        }
        let missed = level & lvl::MISS != 0 && level & lvl::L1 != 0;
        self.put_if(missed, Counter::StoreL1Miss);
        self.put_if(level & lvl::NA != 0, Counter::StoreNoLevel);
    }

    fn hitm(&mut self, kind: Counter) {
        self.put(kind);
        self.put(Counter::Hitm);
    }

    fn peer(&mut self, is: bool, kind: Counter) {
        self.put_if(is, kind);
        self.put_if(is, Counter::Peer);
    }
}

impl Counts {
    pub(super) fn apply(&mut self, increments: &Increments) {
        for counter in increments.iter() {
            if let Some(count) = self.0.get_mut(counter as usize) {
                *count = count.saturating_add(1);
            }
        }
    }

    /// Adds those of others.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// One counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().map_or(0, u64::from)
    }

    /// All counters with their names.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> {
        Counter::ALL
            .iter()
            .map(|counter| (*counter, self.get(*counter)))
    }

    fn sum(&self, counters: &[Counter]) -> u64 {
        counters.iter().map(|counter| self.get(*counter)).sum()
    }

    /// perf's "LLC misses".
    pub fn llc_misses(&self) -> u64 {
        self.sum(&[
            Counter::LocalDram,
            Counter::RemoteDram,
            Counter::RemoteHitm,
            Counter::RemoteHit,
        ])
    }

    /// perf's "total loads": those with a level it knows, one with two levels counted twice.
    pub fn total_loads(&self) -> u64 {
        self.llc_misses()
            + self.sum(&[
                Counter::LoadFillBuffer,
                Counter::LoadL1,
                Counter::LoadL2,
                Counter::LoadL3,
                Counter::LocalHitm,
            ])
    }

    /// perf's "total records".
    pub fn total_records(&self) -> u64 {
        self.total_loads()
            + self.sum(&[
                Counter::StoreL1Hit,
                Counter::StoreL1Miss,
                Counter::StoreNoLevel,
            ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Non-zero counters of one access, in the order of their declaration.
    fn counted(word: DataSrc, addr: u64, mapped: bool) -> Vec<(&'static str, u64)> {
        let mut counts = Counts::default();
        counts.apply(&Increments::of(word, addr, mapped));
        let found = counts.iter().filter(|(_, count)| *count > 0);
        found
            .map(|(counter, count)| (counter.name(), count))
            .collect()
    }

    fn load(level: u64) -> DataSrc {
        DataSrc::default().with_op(op::LOAD).with_lvl(level)
    }

    #[test]
    fn a_local_hitm_is_no_llc_hit() {
        let word = load(lvl::HIT | lvl::L3).with_snoop(snoop::HITM);
        assert_eq!(
            counted(word, 64, true),
            [
                ("nr_entries", 1),
                ("load", 1),
                ("lcl_hitm", 1),
                ("tot_hitm", 1)
            ]
        );
    }

    #[test]
    fn the_remote_bit_counts_without_hops_only() {
        let word = load(lvl::HIT | lvl::L3)
            .with_snoop(snoop::HITM)
            .with_remote(1);
        let names: Vec<&str> = counted(word, 64, true)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names,
            [
                "nr_entries",
                "load",
                "ld_excl",
                "lcl_hitm",
                "rmt_hitm",
                "tot_hitm",
                "rmt_dram"
            ]
        );
        let near = counted(word.with_hops(1), 64, true);
        assert!(
            !near.iter().any(|(name, _)| name.starts_with("rmt")),
            "{near:?}"
        );
    }

    #[test]
    fn without_address_or_operation_only_that_is_counted() {
        let word = load(lvl::HIT | lvl::L1);
        assert_eq!(
            counted(word, 0, false),
            [("nr_entries", 1), ("load", 1), ("ld_noadrs", 1)]
        );
        let none = DataSrc::default().with_op(op::NA).with_lock(lock::LOCKED);
        assert_eq!(
            counted(none, 64, false),
            [("nr_entries", 1), ("locks", 1), ("noparse", 1)]
        );
        let store = DataSrc::default().with_op(op::STORE).with_lvl(lvl::NA);
        assert_eq!(
            counted(store, 64, false),
            [("nr_entries", 1), ("store", 1), ("st_na", 1), ("nomap", 1)]
        );
    }

    #[test]
    fn every_word_fits_its_increments() {
        let all = DataSrc(u64::MAX).with_hops(0);
        let counted: u64 = counted(all, 64, false).iter().map(|(_, count)| count).sum();
        assert!(counted < INCREMENTS as u64, "{counted}");
        let remote = all.with_snoop(snoop::HITM);
        assert!(Increments::of(remote, 64, false).len < INCREMENTS);
    }
}
