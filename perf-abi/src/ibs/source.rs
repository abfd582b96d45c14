//! The word the kernel puts together from the registers.

use super::{OpSample, TlbAnswer, low8};
use crate::mem_word::{
    HOPS_0, HOPS_1, LOCK_LOCKED, LOCK_NA, LVL_HIT, LVL_IO, LVL_L1, LVL_L2, LVL_L3, LVL_LFB,
    LVL_LOC_RAM, LVL_NA, LVL_REM_CCE1, LVL_REM_CCE2, LVL_REM_RAM1, LVL_UNC, NA, NUM_ANY_CACHE,
    NUM_CXL, NUM_IO, NUM_L1, NUM_L2, NUM_L3, NUM_LFB, NUM_NA, NUM_PMEM, NUM_RAM, NUM_UNC, OP_LOAD,
    OP_STORE, REMOTE, SNOOP_HITM, SNOOP_NA, TLB_HIT, TLB_L1, TLB_L2, TLB_MISS, TLB_NA,
};

/// Source 7 is I/O in both encodings.
const IO: u8 = 7;
/// Source 3 is memory in both.
const DRAM: u8 = 3;

impl OpSample {
    /// `IbsOpData2[DataSrc]`: five bits from Zen 4 on, three before. Of loads that missed the data cache only; 0 says
    /// nothing. See [`OpSample::has_erratum_1293`] too.
    pub const fn source(&self) -> u8 {
        let low = self.data2 & 7;
        if self.caps.is_zen4() {
            low8(low | (self.data2 >> 6 & 3) << 3)
        } else {
            low8(low)
        }
    }

    /// The source is on another node.
    pub const fn is_remote_node(&self) -> bool {
        self.data2 >> 4 & 1 != 0
    }

    /// The source is on another socket; `None` before Zen 6.
    pub const fn is_remote_socket(&self) -> Option<bool> {
        if self.caps.has_remote_socket() {
            Some(self.data2 >> 9 & 1 != 0)
        } else {
            None
        }
    }

    /// State of the line in the cache it came from: false modified, true owned (shared, and newer than memory).
    pub const fn was_owned(&self) -> bool {
        self.data2 >> 5 & 1 != 0
    }

    /// Erratum 1293 (Zen 3, 19h 00h-0Fh): source and second-level miss of software prefetches and of misses that joined
    /// another are not valid.
    pub const fn has_erratum_1293(&self, family: u32, model: u32) -> bool {
        family == 0x19 && model <= 0xf && (self.is_prefetch() || self.joined_pending_miss())
    }

    /// `data_src` as Linux 6.8 and later writes it on a CPU of this family and model. For an operation that accesses no
    /// memory it is `PERF_MEM_NA`.
    pub fn data_src(&self, family: u32, model: u32) -> u64 {
        let op = match (self.is_load(), self.is_store()) {
            (true, _) => OP_LOAD,
            (false, true) => OP_STORE,
            (false, false) => return NA,
        };
        let level = self.level_bits(family, model);
        let tlb = match self.tlb() {
            None => TLB_NA,
            Some(TlbAnswer::L1 { .. }) => TLB_L1 | TLB_HIT,
            Some(TlbAnswer::L2 { .. }) => TLB_L2 | TLB_HIT,
            Some(TlbAnswer::Miss) => TLB_L2 | TLB_MISS,
        };
        let lock = if self.is_locked() {
            LOCK_LOCKED
        } else {
            LOCK_NA
        };
        op | level | self.snoop_bits(level, family, model) | tlb | lock
    }

    fn level_bits(&self, family: u32, model: u32) -> u64 {
        if self.is_uncacheable() && self.valid_source(family, model) != IO {
            return LVL_UNC | LVL_HIT | NUM_UNC;
        }
        if !self.missed_l1() {
            return LVL_L1 | LVL_HIT | NUM_L1;
        }
        if !self.missed_l2() && !self.has_erratum_1293(family, model) {
            return LVL_L2 | LVL_HIT | NUM_L2;
        }
        if self.is_load()
            && let Some(bits) = self.source_bits(self.valid_source(family, model))
        {
            return bits;
        }
        if self.joined_pending_miss() {
            return LVL_LFB | LVL_HIT | NUM_LFB;
        }
        LVL_NA | NUM_NA
    }

    fn valid_source(&self, family: u32, model: u32) -> u8 {
        if self.has_erratum_1293(family, model) {
            0
        } else {
            self.source()
        }
    }

    fn source_bits(&self, source: u8) -> Option<u64> {
        let far = self.is_remote_node();
        let memory = |near: u64| if far { near | REMOTE | HOPS_1 } else { near };
        Some(match (self.caps.is_zen4(), source) {
            (_, DRAM) if far => LVL_REM_RAM1 | LVL_HIT | NUM_RAM | REMOTE | HOPS_1,
            (_, DRAM) => LVL_LOC_RAM | LVL_HIT | NUM_RAM,
            (_, IO) => LVL_IO | LVL_HIT | NUM_IO,
            (false, 2) => LVL_L3 | LVL_REM_CCE1 | LVL_HIT | NUM_ANY_CACHE | HOPS_0,
            (false, 4) | (true, 5) => LVL_REM_CCE2 | LVL_HIT | NUM_ANY_CACHE | REMOTE | HOPS_1,
            (true, 1) => LVL_L3 | LVL_HIT | NUM_L3,
            (true, 2) => LVL_REM_CCE1 | LVL_HIT | NUM_ANY_CACHE | REMOTE | HOPS_0,
            (true, 6) => memory(NUM_PMEM),
            (true, 8) => memory(NUM_CXL),
            _ => return None,
        })
    }

    fn snoop_bits(&self, level: u64, family: u32, model: u32) -> u64 {
        let state_is_valid = family != 0x19 || !matches!(model, 0..=0x0f | 0x20..=0x5f);
        let from_cache = matches!(
            (self.caps.is_zen4(), self.valid_source(family, model)),
            (true, 1 | 2 | 5) | (false, 2)
        );
        let near = level & (LVL_L1 | LVL_L2) != 0;
        if state_is_valid && self.is_load() && !near && !self.was_owned() && from_cache {
            SNOOP_HITM
        } else {
            SNOOP_NA
        }
    }
}
