//! Samples of operations (micro-ops): what the registers say of each.

use super::{Caps, IbsError, Registers, low8, low16};

/// What the sampled operation does with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// It loads.
    Load,
    /// It stores.
    Store,
    /// It does both.
    LoadStore,
    /// A software prefetch; the kernel's `data_src` calls it a load.
    Prefetch,
    /// Neither: arithmetic, branches …
    Other,
}

/// What the data TLBs answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TlbAnswer {
    /// The first level had it; page size in bytes.
    L1 {
        /// Bytes: 4 KiB (also pages joined to 16 KiB), 2 MiB or 1 GiB.
        page: u64,
    },
    /// The second level had it.
    L2 {
        /// Bytes.
        page: u64,
    },
    /// Both missed.
    Miss,
}

/// One sampled operation. Accessors say `None` where the manual says that a field is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpSample {
    /// What the machine's IBS can do.
    pub caps: Caps,
    /// `IbsOpCtl`.
    pub ctl: u64,
    /// `IbsOpRip`; see [`OpSample::ip`].
    pub rip: u64,
    /// `IbsOpData`: retirement, branches.
    pub data: u64,
    /// `IbsOpData2`: where the data came from.
    pub data2: u64,
    /// `IbsOpData3`: data cache and TLBs.
    pub data3: u64,
    /// `IbsDcLinAd`; see [`OpSample::linear`].
    pub dc_lin_ad: u64,
    /// `IbsDcPhysAd`; see [`OpSample::physical`].
    pub dc_phys_ad: u64,
    /// `IbsBrTarget`.
    pub branch_target: Option<u64>,
    /// `IbsOpData4`.
    pub data4: Option<u64>,
}

impl OpSample {
    /// Registers every sample has.
    const FIXED: usize = 7;

    /// Reads the raw data of an `ibs_op` sample.
    pub fn parse(raw: &[u8]) -> Result<Self, IbsError> {
        let mut registers = Registers::new(raw, Self::FIXED)?;
        let caps = registers.caps;
        Ok(Self {
            caps,
            ctl: registers.word(),
            rip: registers.word(),
            data: registers.word(),
            data2: registers.word(),
            data3: registers.word(),
            dc_lin_ad: registers.word(),
            dc_phys_ad: registers.word(),
            branch_target: registers.word_if(caps.has_branch_target()),
            data4: registers.word_if(caps.has_op_data4()),
        })
    }

    const fn data3_bit(&self, bit: u32) -> bool {
        self.data3 >> bit & 1 != 0
    }

    /// What it does with memory.
    pub const fn kind(&self) -> OpKind {
        match (self.is_load(), self.is_store()) {
            (true, false) if self.is_prefetch() => OpKind::Prefetch,
            (true, true) => OpKind::LoadStore,
            (true, false) => OpKind::Load,
            (false, true) => OpKind::Store,
            (false, false) => OpKind::Other,
        }
    }

    /// It loads.
    pub const fn is_load(&self) -> bool {
        self.data3_bit(0)
    }

    /// It stores.
    pub const fn is_store(&self) -> bool {
        self.data3_bit(1)
    }

    /// A software prefetch.
    pub const fn is_prefetch(&self) -> bool {
        self.data3_bit(21)
    }

    /// The sampled instruction pointer; `None` if the hardware could not record it (the sample's own `ip` is then the
    /// interrupt's).
    pub const fn ip(&self) -> Option<u64> {
        let invalid = self.caps.checks_rip() && self.data >> 38 & 1 != 0;
        if invalid { None } else { Some(self.rip) }
    }

    /// The data cache missed.
    pub const fn missed_l1(&self) -> bool {
        self.data3_bit(7)
    }

    /// The second-level cache missed; meaningful after a miss of the first.
    pub const fn missed_l2(&self) -> bool {
        self.data3_bit(20)
    }

    /// The access crosses its natural border.
    pub const fn is_misaligned(&self) -> bool {
        self.data3_bit(8)
    }

    /// Write-combining memory.
    pub const fn is_write_combining(&self) -> bool {
        self.data3_bit(13)
    }

    /// Uncacheable memory: cache, source and latency fields say nothing.
    pub const fn is_uncacheable(&self) -> bool {
        self.data3_bit(14)
    }

    /// A locked operation.
    pub const fn is_locked(&self) -> bool {
        self.data3_bit(15)
    }

    /// It missed, but joined a miss that was already pending.
    pub const fn joined_pending_miss(&self) -> bool {
        self.data3_bit(16)
    }

    /// Linear data address.
    pub const fn linear(&self) -> Option<u64> {
        if self.data3_bit(17) {
            Some(self.dc_lin_ad)
        } else {
            None
        }
    }

    /// Physical data address.
    pub const fn physical(&self) -> Option<u64> {
        if self.data3_bit(18) {
            Some(self.dc_phys_ad)
        } else {
            None
        }
    }

    /// What the TLBs answered; `None` without a valid address.
    pub const fn tlb(&self) -> Option<TlbAnswer> {
        let needs_physical = self.caps.has_tlb_page_size();
        if !self.data3_bit(17) || (needs_physical && !self.data3_bit(18)) {
            return None;
        }
        if !self.data3_bit(2) {
            let page = page_bytes(self.data3_bit(4), self.data3_bit(5));
            return Some(TlbAnswer::L1 { page });
        }
        if !self.data3_bit(3) {
            let page = page_bytes(self.data3_bit(6), self.data3_bit(19));
            return Some(TlbAnswer::L2 { page });
        }
        Some(TlbAnswer::Miss)
    }

    /// Bytes accessed; `None` if not told.
    pub const fn width_bytes(&self) -> Option<u16> {
        match self.data3 >> 22 & 0xf {
            code @ 1..=7 => Some(1 << (code - 1)),
            _ => None,
        }
    }

    /// Misses that were pending when this one was served.
    pub const fn pending_misses(&self) -> u8 {
        low8(self.data3 >> 26 & 0x3f)
    }

    /// Cycles from the miss of the data cache to its service: of loads that missed only.
    pub const fn miss_latency_cycles(&self) -> Option<u16> {
        if self.is_load() && self.missed_l1() {
            Some(low16(self.data3 >> 32))
        } else {
            None
        }
    }

    /// Cycles to refill the first-level TLB; of accesses that missed it.
    pub const fn tlb_refill_cycles(&self) -> Option<u16> {
        if self.data3_bit(2) {
            Some(low16(self.data3 >> 48))
        } else {
            None
        }
    }

    /// Cycles from tagging to retirement.
    pub const fn tag_to_retire_cycles(&self) -> u16 {
        low16(self.data >> 16)
    }

    /// Cycles from completion to retirement.
    pub const fn completion_to_retire_cycles(&self) -> u16 {
        low16(self.data)
    }

    /// A branch that retired.
    pub const fn is_retired_branch(&self) -> bool {
        self.data >> 37 & 1 != 0
    }
}

const fn page_bytes(is_2m: bool, is_1g: bool) -> u64 {
    match (is_2m, is_1g) {
        (_, true) => 1 << 30,
        (true, false) => 1 << 21,
        (false, false) => 1 << 12,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
