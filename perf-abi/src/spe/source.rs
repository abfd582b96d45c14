//! Data sources by core, as the `data_src` words perf makes of them (`tools/perf/util/arm-spe.c`).

use super::{Record, event};
use crate::mem_word::{
    LVL_ALL, LVL_HIT, LVL_IO, LVL_L1, LVL_L2, LVL_L3, LVL_LFB, LVL_LOC_RAM, LVL_MISS, LVL_NA,
    LVL_REM_CCE1, LVL_REM_CCE2, LVL_REM_RAM1, NUM_ANY_CACHE, NUM_IO, NUM_L1, NUM_L2, NUM_L3,
    NUM_LFB, NUM_NA, NUM_RAM, OP_LOAD, OP_STORE, REMOTE, SNOOP_ALL, SNOOP_HIT, SNOOP_HITM,
    SNOOP_NA, SNOOP_NONE, SNOOPX_PEER, TLB_HIT, TLB_MISS, TLB_WK,
};

/// What a core means by its data source numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// Arm's own cores with the common encoding: Neoverse N1, N2, V1, V2, Cortex-A720(AE), A725, X1C, X3, X925, and Cobalt
    /// 100, which is an N2.
    Common,
    /// AmpereOne (AMPERE1A).
    AmpereOne,
    /// HiSilicon HIP12.
    HisiHip,
    /// Numbers nobody told: levels by the record's events only.
    #[default]
    Generic,
}

const ARM: u64 = 0x41;
const HISILICON: u64 = 0x48;
const MICROSOFT: u64 = 0x6d;
const AMPERE: u64 = 0xc0;

/// Part numbers of Arm's cores with the common encoding.
const COMMON_PARTS: [u64; 10] = [
    0xd0c, 0xd40, 0xd49, 0xd4c, 0xd4e, 0xd4f, 0xd81, 0xd85, 0xd87, 0xd89,
];

impl Encoding {
    /// By the main id register, any variant and revision.
    pub fn of_midr(midr: u64) -> Self {
        let (implementer, part) = (midr >> 24 & 0xff, midr >> 4 & 0xfff);
        match (implementer, part) {
            (ARM, part) if COMMON_PARTS.contains(&part) => Self::Common,
            (MICROSOFT, 0xd49) => Self::Common,
            (AMPERE, 0xac4) => Self::AmpereOne,
            (HISILICON, 0xd06) => Self::HisiHip,
            _ => Self::Generic,
        }
    }

    /// Level, snoop and remote bits of a load's source; 0 for numbers without a meaning.
    fn source_bits(self, source: u64) -> u64 {
        match self {
            Self::Common => common(source),
            Self::AmpereOne => match source {
                0x0 => common(0x9), // a cache of the chip, or a device
                0x3 => common(0xb),
                0x5 => common(0xd),
                0x7 => common(0xe),
                0x8 => common(0x0),
                0x9 => common(0x8),
                _ => 0,
            },
            Self::HisiHip => hisi_hip(source),
            Self::Generic => 0,
        }
    }
}

fn common(source: u64) -> u64 {
    match source {
        0x0 => LVL_L1 | LVL_HIT | NUM_L1 | SNOOP_NONE,
        0x8 => LVL_L2 | LVL_HIT | NUM_L2 | SNOOP_NONE,
        0x9 => LVL_L2 | LVL_HIT | NUM_L2 | SNOOPX_PEER, // another core of the cluster
        0xa | 0xc => LVL_L3 | LVL_HIT | NUM_L3 | SNOOPX_PEER, // own cluster, another cluster
        0xb => LVL_L3 | LVL_HIT | NUM_L3 | SNOOP_HIT,   // system cache
        0xd => LVL_NA | NUM_NA | REMOTE | SNOOPX_PEER,  // another chip, cache or memory
        0xe => LVL_LOC_RAM | LVL_HIT | NUM_RAM | SNOOP_NONE,
        _ => 0,
    }
}

fn hisi_hip(source: u64) -> u64 {
    match source {
        0 => LVL_L2 | LVL_HIT | NUM_L2 | SNOOPX_PEER,
        1 => LVL_L2 | LVL_HIT | NUM_L2 | SNOOP_HITM | SNOOPX_PEER,
        2 => LVL_L3 | LVL_HIT | NUM_L3 | SNOOP_HIT,
        3 => LVL_L3 | LVL_HIT | NUM_L3 | SNOOP_HITM,
        4 => LVL_REM_CCE1 | LVL_HIT | NUM_L3 | SNOOPX_PEER,
        5 => LVL_REM_CCE1 | LVL_HIT | NUM_L3 | SNOOP_HITM | SNOOPX_PEER,
        6 => LVL_REM_CCE2 | NUM_ANY_CACHE | REMOTE | SNOOPX_PEER,
        7 => LVL_REM_CCE2 | NUM_ANY_CACHE | SNOOP_HITM | REMOTE | SNOOPX_PEER,
        8 => LVL_LOC_RAM | LVL_HIT | NUM_RAM | SNOOP_NONE,
        9 => LVL_REM_RAM1 | LVL_HIT | NUM_RAM | REMOTE,
        13 => LVL_IO | LVL_HIT | NUM_IO | SNOOP_NONE,
        16 => LVL_L2 | LVL_HIT | NUM_L2 | SNOOP_NONE,
        17 => LVL_L2 | LVL_HIT | NUM_L2 | SNOOP_HITM,
        18 => LVL_L1 | LVL_HIT | NUM_L1 | SNOOP_NONE,
        _ => 0,
    }
}

impl Record {
    /// `data_src` of the record, as perf 7.0 makes it; `None` if it accesses no memory. `tells_snoops`: the core has the
    /// event for snooped data (`caps/event_filter`), so that its absence says something.
    pub fn data_src(&self, encoding: Encoding, tells_snoops: bool) -> Option<u64> {
        let (op, mut bits) = match (self.is_load(), self.is_store()) {
            // A record without a data source packet reads as source 0, in perf too: only cores with such packets have an
            // encoding.
            (true, _) => (
                OP_LOAD,
                encoding.source_bits(self.source.unwrap_or_default()),
            ),
            (_, true) if encoding != Encoding::Generic => (OP_STORE, LVL_NA | NUM_NA | SNOOP_NA),
            (_, true) => (OP_STORE, 0),
            _ => return None,
        };
        if bits & LVL_ALL == 0 {
            bits |= if op == OP_LOAD {
                self.load_level()
            } else {
                self.store_level()
            };
        }
        if bits & LVL_ALL == 0 {
            bits |= LVL_NA | NUM_NA;
        }
        if bits & SNOOP_ALL == 0 {
            bits |= match (self.has(event::SNOOPED), self.has(event::MODIFIED)) {
                (true, true) => SNOOP_HITM,
                (true, false) => SNOOP_HIT,
                (false, _) if tells_snoops => SNOOP_NONE,
                (false, _) => SNOOP_NA,
            };
        }
        if self.has(event::REMOTE_ACCESS) {
            bits |= REMOTE;
        }
        if self.has(event::TLB_ACCESS | event::TLB_WALK) {
            let walked = self.has(event::TLB_WALK);
            bits |= TLB_WK | if walked { TLB_MISS } else { TLB_HIT };
        }
        Some(op | bits)
    }

    fn hit(&self, access: u64, miss: u64) -> bool {
        self.events & (access | miss) == access
    }

    /// The nearest level that had it; else the farthest that is known to have missed.
    fn load_level(&self) -> u64 {
        use event::{L1D_ACCESS, L1D_MISS, L2D_ACCESS, L2D_MISS, LLC_ACCESS, LLC_MISS};
        if self.hit(L1D_ACCESS, L1D_MISS) {
            LVL_L1 | LVL_HIT | NUM_L1
        } else if self.has(event::RECENTLY_FETCHED) {
            LVL_LFB | LVL_HIT | NUM_LFB
        } else if self.hit(L2D_ACCESS, L2D_MISS) {
            LVL_L2 | LVL_HIT | NUM_L2
        } else if self.hit(LLC_ACCESS, LLC_MISS) {
            LVL_L3 | LVL_HIT | NUM_L3
        } else if self.has(LLC_MISS) {
            LVL_L3 | LVL_MISS | NUM_L3
        } else if self.has(L2D_MISS) {
            LVL_L2 | LVL_MISS | NUM_L2
        } else if self.has(L1D_MISS) {
            LVL_L1 | LVL_MISS | NUM_L1
        } else {
            0
        }
    }

    /// The farthest level that was asked.
    fn store_level(&self) -> u64 {
        use event::{L1D_ACCESS, L1D_MISS, L2D_ACCESS, L2D_MISS, LLC_ACCESS, LLC_MISS};
        for (access, miss, level) in [
            (LLC_ACCESS, LLC_MISS, LVL_L3 | NUM_L3),
            (L2D_ACCESS, L2D_MISS, LVL_L2 | NUM_L2),
            (L1D_ACCESS, L1D_MISS, LVL_L1 | NUM_L1),
        ] {
            if self.has(access | miss) {
                let missed = self.has(miss);
                return level | if missed { LVL_MISS } else { LVL_HIT };
            }
        }
        0
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
