//! From the masks of [`DataSrc`] to one displayed value a column, by printed precedence.

use crate::data_src::{DataSrc, blk, hops, lock, lvl, lvl_num, op, snoop, snoopx, tlb};
use crate::{Blocked, Level, Locality, Op, Outcome, Snoop, Tlb};

/// Whose encoding a `data_src` word follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pmu {
    /// Intel PEBS: gives no hops; `remote` means another package.
    Intel,
    /// AMD IBS: every hop count above `HOPS_0` means another node, distance unknown.
    AmdIbs,
    /// Arm SPE: `remote` means another chip.
    ArmSpe,
    /// POWER: hop counts mean what their names say.
    Power,
    /// Not known.
    #[default]
    Other,
}

impl Pmu {
    /// By the CPU's vendor as in `cpuid` strings (`GenuineIntel`, `AuthenticAMD` …) and the architecture as `uname` gives it.
    pub fn of(vendor: &str, arch: &str) -> Self {
        match (vendor, arch) {
            ("GenuineIntel", _) => Self::Intel,
            ("AuthenticAMD" | "HygonGenuine", _) => Self::AmdIbs,
            (_, "aarch64" | "arm64") => Self::ArmSpe,
            (_, arch) if arch.starts_with("ppc") => Self::Power,
            _ => Self::Other,
        }
    }

    /// What a hop count says; `None` where it was not given.
    fn hops_locality(self, count: u64) -> Option<Locality> {
        match (self, count) {
            (_, hops::NOT_GIVEN) => None,
            (_, hops::HOPS_0) => Some(Locality::Local),
            (Self::AmdIbs, _) | (_, hops::HOPS_1 | hops::HOPS_2 | hops::HOPS_3) => {
                Some(Locality::Remote)
            }
            _ => Some(Locality::Unknown),
        }
    }
}

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
        tlb: translation(word),
        locked: word.lock() & lock::LOCKED != 0,
        blocked: blocked(word),
        hw_locality: hw_locality(word, pmu, level, outcome),
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

fn translation(word: DataSrc) -> Tlb {
    let mask = word.dtlb();
    let has = |bits: u64| mask & bits == bits;
    if has(tlb::OS) {
        Tlb::Fault
    } else if has(tlb::WK) || has(tlb::L2 | tlb::MISS) {
        // What misses the second level is walked.
        Tlb::Walk
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

/// The first of: hop count, remote bit, the old mask's remote levels where no number is given, a hit in a cache or in memory.
fn hw_locality(word: DataSrc, pmu: Pmu, level: Level, outcome: Outcome) -> Locality {
    const FAR: u64 = lvl::REM_RAM1 | lvl::REM_RAM2 | lvl::REM_CCE1 | lvl::REM_CCE2;
    if let Some(by_hops) = pmu.hops_locality(word.hops()) {
        return by_hops;
    }
    if word.remote() != 0 || (without_number(word) && word.lvl() & FAR != 0) {
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
mod tests {
    use super::*;

    fn word() -> DataSrc {
        DataSrc::default()
    }

    /// A load that hit, as most codes of Intel start.
    fn load_hit() -> DataSrc {
        word().with_op(op::LOAD).with_lvl(lvl::HIT)
    }

    #[test]
    fn one_golden_table_a_pmu_for_level_outcome_and_locality() {
        use Locality::{Local, Remote, Unknown};
        use Outcome::{Hit, Miss};
        let old = |bits| load_hit().with_lvl(lvl::HIT | bits);
        let rows = [
            // Intel up to Broadwell, by PEBS code.
            (
                "0x00",
                Pmu::Intel,
                word()
                    .with_op(op::LOAD)
                    .with_lvl(lvl::MISS)
                    .with_lvl_num(lvl_num::L3),
                Level::L3,
                Miss,
                Unknown,
            ),
            (
                "0x01",
                Pmu::Intel,
                old(lvl::L1).with_lvl_num(lvl_num::L1),
                Level::L1,
                Hit,
                Local,
            ),
            (
                "0x02",
                Pmu::Intel,
                old(lvl::LFB).with_lvl_num(lvl_num::LFB),
                Level::Lfb,
                Hit,
                Unknown,
            ),
            (
                "0x04",
                Pmu::Intel,
                old(lvl::L3).with_lvl_num(lvl_num::L3),
                Level::L3,
                Hit,
                Local,
            ),
            (
                "0x08",
                Pmu::Intel,
                old(lvl::REM_CCE1).with_remote(1).with_lvl_num(lvl_num::L3),
                Level::L3,
                Hit,
                Remote,
            ),
            (
                "0x0a",
                Pmu::Intel,
                old(lvl::LOC_RAM).with_lvl_num(lvl_num::RAM),
                Level::Ram,
                Hit,
                Local,
            ),
            // The number says L3 where the old mask says memory: the number wins, and it is far all the same.
            (
                "0x0b",
                Pmu::Intel,
                old(lvl::REM_RAM1).with_remote(1).with_lvl_num(lvl_num::L3),
                Level::L3,
                Hit,
                Remote,
            ),
            (
                "0x0d",
                Pmu::Intel,
                old(lvl::REM_RAM1).with_remote(1).with_lvl_num(lvl_num::RAM),
                Level::Ram,
                Hit,
                Remote,
            ),
            (
                "0x0e",
                Pmu::Intel,
                old(lvl::IO).with_lvl_num(lvl_num::NA),
                Level::Io,
                Hit,
                Unknown,
            ),
            (
                "0x0f",
                Pmu::Intel,
                old(lvl::UNC).with_lvl_num(lvl_num::NA),
                Level::Uncached,
                Hit,
                Unknown,
            ),
            // Skylake on: remote codes have no old level bits; hops are not given.
            (
                "skl 0x08",
                Pmu::Intel,
                load_hit().with_lvl_num(lvl_num::PMEM),
                Level::Pmem,
                Hit,
                Local,
            ),
            (
                "skl 0x0b",
                Pmu::Intel,
                load_hit().with_lvl_num(lvl_num::RAM).with_remote(1),
                Level::Ram,
                Hit,
                Remote,
            ),
            (
                "skl 0x0d",
                Pmu::Intel,
                load_hit().with_lvl_num(lvl_num::ANY_CACHE).with_remote(1),
                Level::AnyCache,
                Hit,
                Remote,
            ),
            // Kernels before the new encoding.
            (
                "old ram",
                Pmu::Intel,
                old(lvl::REM_RAM1),
                Level::Ram,
                Hit,
                Remote,
            ),
            (
                "old cache",
                Pmu::Intel,
                old(lvl::REM_CCE2),
                Level::AnyCache,
                Hit,
                Remote,
            ),
            // Zen 1 to 3: the local L3 carries a "remote cache" bit.
            (
                "zen3 L3",
                Pmu::AmdIbs,
                old(lvl::L3 | lvl::REM_CCE1)
                    .with_lvl_num(lvl_num::ANY_CACHE)
                    .with_hops(hops::HOPS_0),
                Level::AnyCache,
                Hit,
                Local,
            ),
            (
                "zen3 far",
                Pmu::AmdIbs,
                old(lvl::REM_CCE1)
                    .with_lvl_num(lvl_num::ANY_CACHE)
                    .with_remote(1)
                    .with_hops(hops::HOPS_1),
                Level::AnyCache,
                Hit,
                Remote,
            ),
            // Zen 4 on: another CCX of the same node.
            (
                "zen4 near",
                Pmu::AmdIbs,
                old(lvl::REM_CCE1)
                    .with_lvl_num(lvl_num::ANY_CACHE)
                    .with_remote(1)
                    .with_hops(hops::HOPS_0),
                Level::AnyCache,
                Hit,
                Local,
            ),
            (
                "zen4 ram",
                Pmu::AmdIbs,
                old(lvl::REM_RAM1)
                    .with_lvl_num(lvl_num::RAM)
                    .with_remote(1)
                    .with_hops(hops::HOPS_1),
                Level::Ram,
                Hit,
                Remote,
            ),
            (
                "unnamed hop",
                Pmu::Other,
                load_hit().with_lvl_num(lvl_num::RAM).with_hops(7),
                Level::Ram,
                Hit,
                Unknown,
            ),
        ];
        for (name, pmu, word, level, outcome, locality) in rows {
            let got = classify(word, pmu);
            assert_eq!(
                (got.level, got.outcome, got.hw_locality),
                (level, outcome, locality),
                "{name}"
            );
        }
    }

    #[test]
    fn the_highest_snoop_answer_is_shown() {
        for (mask, more, shown) in [
            (0, 0, Snoop::Unknown),
            (snoop::NA, 0, Snoop::Unknown),
            (snoop::NONE, 0, Snoop::None),
            (snoop::NONE | snoop::MISS, 0, Snoop::Miss),
            (snoop::HIT | snoop::MISS, 0, Snoop::Hit),
            (snoop::HIT, snoopx::PEER, Snoop::Peer),
            (snoop::HIT, snoopx::PEER | snoopx::FWD, Snoop::Fwd),
            (snoop::HITM, snoopx::FWD, Snoop::HitM),
        ] {
            let got = classify(word().with_snoop(mask).with_snoopx(more), Pmu::Other).snoop;
            assert_eq!(got, shown, "{mask:#x} {more:#x}");
        }
    }

    #[test]
    fn translations_keep_what_cannot_be_separated() {
        for (mask, shown) in [
            (0, Tlb::Unknown),
            (tlb::NA, Tlb::Unknown),
            (tlb::HIT | tlb::L1 | tlb::L2, Tlb::L1OrL2Hit),
            (tlb::HIT | tlb::L1, Tlb::L1Hit),
            (tlb::HIT | tlb::L2, Tlb::L2Hit),
            (tlb::MISS | tlb::L2, Tlb::Walk),
            (tlb::HIT | tlb::WK, Tlb::Walk),
            (tlb::MISS | tlb::OS, Tlb::Fault),
            (tlb::MISS, Tlb::Miss),
            (tlb::MISS | tlb::L1, Tlb::Miss),
        ] {
            let got = classify(word().with_dtlb(mask), Pmu::Other).tlb;
            assert_eq!(got, shown, "{mask:#x}");
        }
    }

    #[test]
    fn operations_locks_and_blocks() {
        let of = |word| classify(word, Pmu::Other);
        for (mask, shown) in [
            (0, Op::Unknown),
            (op::NA, Op::None),
            (op::LOAD, Op::Load),
            (op::STORE, Op::Store),
            (op::LOAD | op::STORE, Op::LoadStore),
            (op::PFETCH, Op::Prefetch),
            (op::EXEC, Op::Exec),
        ] {
            assert_eq!(of(word().with_op(mask)).op, shown, "{mask:#x}");
        }
        assert!(of(word().with_lock(lock::LOCKED)).locked);
        assert!(!of(word().with_lock(lock::NA)).locked);
        assert_eq!(
            of(word().with_blk(blk::DATA | blk::ADDR)).blocked,
            Blocked::DataAddress
        );
        assert_eq!(of(word().with_blk(blk::NA)).blocked, Blocked::Unknown);
    }

    #[test]
    fn the_same_word_without_any_bit_is_unknown_everywhere() {
        let got = classify(word(), Pmu::Other);
        assert_eq!(
            got,
            Classified {
                level: Level::Unknown,
                ..Classified::NONE
            }
        );
    }
}
