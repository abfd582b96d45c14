//! From the masks of [`DataSrc`] to one displayed value a column, by printed precedence.

use crate::data_src::{DataSrc, blk, lock, lvl, lvl_num, op, region, snoop, snoopx, tlb};
use crate::{Blocked, Level, Locality, MemRegion, Op, Outcome, Pmu, Snoop, Suspect, Tlb};

/// Displayed values of one `data_src` word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Classified {
    /// What the instruction did.
    pub op: Op,
    /// Where the data was looked for.
    pub level: Level,
    /// Whether that level served it.
    pub outcome: Outcome,
    /// What other caches answered, the highest.
    pub snoop: Snoop,
    /// Address translation.
    pub tlb: Tlb,
    /// The access was locked.
    pub locked: bool,
    /// What it had to wait for.
    pub blocked: Blocked,
    /// Near or far by the hardware's word.
    pub hw_locality: Locality,
    /// Which part of the memory system answered.
    pub region: MemRegion,
    /// What is known against the word itself.
    pub suspect: Suspect,
}

impl Classified {
    /// Of an event without `data_src` (software tier, plain hardware events).
    pub const NONE: Self = Self {
        op: Op::Unknown,
        level: Level::None,
        outcome: Outcome::Unknown,
        snoop: Snoop::Unknown,
        tlb: Tlb::Unknown,
        locked: false,
        blocked: Blocked::Unknown,
        hw_locality: Locality::Unknown,
        region: MemRegion::Unknown,
        suspect: Suspect::None,
    };
}

/// Classifies one word.
pub fn classify(word: DataSrc, pmu: Pmu) -> Classified {
    let level = level(word);
    let outcome = outcome(word);
    Classified {
        op: operation(word),
        level,
        outcome,
        snoop: snooped(word),
        tlb: translation(word, pmu),
        locked: word.lock() & lock::LOCKED != 0,
        blocked: blocked(word),
        hw_locality: hw_locality(word, pmu, level, outcome),
        region: mem_region(word),
        suspect: suspect(word),
    }
}

fn operation(word: DataSrc) -> Op {
    let mask = word.op();
    let has = |bits: u64| mask & bits == bits;
    if has(op::NA) {
        Op::None
    } else if has(op::LOAD | op::STORE) {
        Op::LoadStore
    } else if has(op::LOAD) {
        Op::Load
    } else if has(op::STORE) {
        Op::Store
    } else if has(op::PFETCH) {
        Op::Prefetch
    } else if has(op::EXEC) {
        Op::Exec
    } else {
        Op::Unknown
    }
}

/// Whether the number says nothing and the old mask must be asked.
fn without_number(word: DataSrc) -> bool {
    matches!(word.lvl_num(), 0 | lvl_num::NA)
}

fn level(word: DataSrc) -> Level {
    match word.lvl_num() {
        lvl_num::L0 => Level::L0,
        lvl_num::L1 => Level::L1,
        lvl_num::L2 => Level::L2,
        lvl_num::L3 => Level::L3,
        lvl_num::L4 => Level::L4,
        lvl_num::L2_MHB => Level::L2Mhb,
        lvl_num::MSC => Level::Msc,
        lvl_num::UNC => Level::Uncached,
        lvl_num::CXL => Level::Cxl,
        lvl_num::IO => Level::Io,
        lvl_num::ANY_CACHE => Level::AnyCache,
        lvl_num::LFB => Level::Lfb,
        lvl_num::RAM => Level::Ram,
        lvl_num::PMEM => Level::Pmem,
        _ => level_by_mask(word.lvl()),
    }
}

/// The farthest level of the old mask: nearer ones were passed on the way.
fn level_by_mask(mask: u64) -> Level {
    const BY_DISTANCE: [(u64, Level); 8] = [
        (lvl::UNC, Level::Uncached),
        (lvl::IO, Level::Io),
        (lvl::LOC_RAM | lvl::REM_RAM1 | lvl::REM_RAM2, Level::Ram),
        (lvl::REM_CCE1 | lvl::REM_CCE2, Level::AnyCache),
        (lvl::L3, Level::L3),
        (lvl::L2, Level::L2),
        (lvl::LFB, Level::Lfb),
        (lvl::L1, Level::L1),
    ];
    BY_DISTANCE
        .iter()
        .find(|(bits, _)| mask & bits != 0)
        .map_or(Level::Unknown, |(_, level)| *level)
}

fn outcome(word: DataSrc) -> Outcome {
    match (word.lvl() & lvl::HIT != 0, word.lvl() & lvl::MISS != 0) {
        (true, false) => Outcome::Hit,
        (false, true) => Outcome::Miss,
        _ => Outcome::Unknown,
    }
}

fn snooped(word: DataSrc) -> Snoop {
    let (mask, more) = (word.snoop(), word.snoopx());
    if mask & snoop::HITM != 0 {
        Snoop::HitM
    } else if more & snoopx::FWD != 0 {
        Snoop::Fwd
    } else if more & snoopx::PEER != 0 {
        Snoop::Peer
    } else if mask & snoop::HIT != 0 {
        Snoop::Hit
    } else if mask & snoop::MISS != 0 {
        Snoop::Miss
    } else if mask & snoop::NONE != 0 {
        Snoop::None
    } else {
        Snoop::Unknown
    }
}

fn translation(word: DataSrc, pmu: Pmu) -> Tlb {
    let mask = word.dtlb();
    let has = |bits: u64| mask & bits == bits;
    if has(tlb::OS) {
        Tlb::Fault
    } else if pmu == Pmu::ArmSpe && has(tlb::WK | tlb::HIT) && !has(tlb::MISS) {
        // perf's word for "a TLB was asked and no table was walked".
        Tlb::L1OrL2Hit
    } else if has(tlb::WK) || has(tlb::L2 | tlb::MISS) {
        // What misses the second level is walked.
        Tlb::Walk
    } else if pmu == Pmu::Intel && has(tlb::HIT) {
        // One bit: did or did not miss the second level. The levels named differ by generation, the fact does not.
        Tlb::L1OrL2Hit
    } else if has(tlb::MISS) {
        Tlb::Miss
    } else if !has(tlb::HIT) {
        Tlb::Unknown
    } else if has(tlb::L1 | tlb::L2) || mask & (tlb::L1 | tlb::L2) == 0 {
        Tlb::L1OrL2Hit
    } else if has(tlb::L1) {
        Tlb::L1Hit
    } else {
        Tlb::L2Hit
    }
}

fn blocked(word: DataSrc) -> Blocked {
    let mask = word.blk();
    match (mask & blk::DATA != 0, mask & blk::ADDR != 0) {
        _ if mask & blk::NA != 0 => Blocked::Unknown,
        (true, true) => Blocked::DataAddress,
        (true, false) => Blocked::Data,
        (false, true) => Blocked::Address,
        (false, false) => Blocked::Unknown,
    }
}

fn mem_region(word: DataSrc) -> MemRegion {
    let code = u8::try_from(word.region()).unwrap_or_default();
    MemRegion::from_code(code).unwrap_or(MemRegion::Reserved)
}

fn suspect(word: DataSrc) -> Suspect {
    const MEMORY: u64 = lvl::LOC_RAM | lvl::REM_RAM1 | lvl::REM_RAM2;
    const BOTH: u64 = lvl::HIT | lvl::MISS;
    let is_cache = matches!(
        word.lvl_num(),
        lvl_num::L0 | lvl_num::L1 | lvl_num::L2 | lvl_num::L3 | lvl_num::L4 | lvl_num::ANY_CACHE
    );
    if word.unnamed() != 0 {
        Suspect::UnnamedBits
    } else if word.lvl() & BOTH == BOTH {
        Suspect::HitAndMiss
    } else if is_cache && word.lvl() & MEMORY != 0 {
        Suspect::LevelsDisagree
    } else if word.region() == region::MMIO && word.lvl_num() == lvl_num::RAM {
        Suspect::MmioAsRam
    } else {
        Suspect::None
    }
}

/// The first of: hop count, remote bit, the old mask's remote levels where no number is given, a hit in a cache or in memory.
fn hw_locality(word: DataSrc, pmu: Pmu, level: Level, outcome: Outcome) -> Locality {
    if let Some(by_hops) = pmu.hops_locality(word.hops()) {
        return by_hops;
    }
    if word.remote() != 0 || (without_number(word) && word.lvl() & pmu.far_levels() != 0) {
        return Locality::Remote;
    }
    let holds_data = matches!(
        level,
        Level::L0
            | Level::L1
            | Level::L2
            | Level::L2Mhb
            | Level::L3
            | Level::L4
            | Level::AnyCache
            | Level::Msc
            | Level::Ram
            | Level::Pmem
    );
    if outcome == Outcome::Hit && holds_data {
        Locality::Local
    } else {
        Locality::Unknown
    }
}

#[cfg(test)]
mod tests;
