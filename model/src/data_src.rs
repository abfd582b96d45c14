//! `perf_mem_data_src`, bit by bit.
//!
//! ```text
//! bit   0     5         19      24    26      33         37        38        40     43      46         51
//!      | op 5 | lvl 14 | snoop 5 | lock 2 | dtlb 7 | lvl_num 4 | remote 1 | snoopx 2 | blk 3 | hops 3 | region 5 | rest 13 |
//! ```
//!
//! As `include/uapi/linux/perf_event.h` has it since `mem_region` came with Diamond Rapids (2026).

/// The raw word; every field stays a mask, bits without a name are kept in [`DataSrc::rest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DataSrc(pub u64);

macro_rules! fields {
    ($($name:ident, $with:ident = $at:literal, $bits:literal, $text:literal;)+) => {
        impl DataSrc {
            $(
                #[doc = $text]
                pub const fn $name(self) -> u64 {
                    (self.0 >> $at) & ((1 << $bits) - 1)
                }

                #[doc = concat!("Replaces `", stringify!($name), "`; bits beyond the field are cut.")]
                #[must_use]
                pub const fn $with(self, value: u64) -> Self {
                    let mask = (1 << $bits) - 1;
                    Self(self.0 & !(mask << $at) | ((value & mask) << $at))
                }
            )+
        }
    };
}

fields! {
    op, with_op = 0, 5, "What the instruction did, see [`op`](mod@op).";
    lvl, with_lvl = 5, 14, "Level of the old encoding, see [`lvl`](mod@lvl).";
    snoop, with_snoop = 19, 5, "Answers of other caches, see [`snoop`](mod@snoop).";
    lock, with_lock = 24, 2, "Locked access, see [`lock`](mod@lock).";
    dtlb, with_dtlb = 26, 7, "Address translation, see [`tlb`](mod@tlb).";
    lvl_num, with_lvl_num = 33, 4, "Level of the new encoding, a number: see [`lvl_num`](mod@lvl_num).";
    remote, with_remote = 37, 1, "Another node, package or chip, as the hardware means it.";
    snoopx, with_snoopx = 38, 2, "More answers of other caches, see [`snoopx`](mod@snoopx).";
    blk, with_blk = 40, 3, "Why the access was blocked, see [`blk`](mod@blk).";
    hops, with_hops = 43, 3, "Distance, a number: 0 not given, 1 = `HOPS_0` = same node, see [`hops`](mod@hops).";
    region, with_region = 46, 5, "Region of cache or memory, a number: see [`region`](mod@region).";
    rest, with_rest = 51, 13, "Bits without a name yet.";
}

impl DataSrc {
    /// The bits that say something this build has no name for: the rest, and numbers of hops and regions not given out yet.
    pub const fn unnamed(self) -> u64 {
        let mut bits = self.rest() << 51;
        if self.hops() > hops::HOPS_3 {
            bits |= self.hops() << 43;
        }
        if self.region() > region::MEM7 {
            bits |= self.region() << 46;
        }
        bits
    }
}

macro_rules! values {
    ($(#[$doc:meta])* $module:ident { $($name:ident = $value:literal, $text:literal;)+ }) => {
        $(#[$doc])*
        pub mod $module {
            $(#[doc = $text] pub const $name: u64 = $value;)+
        }
    };
}

values! {
    /// Bits of [`DataSrc::op`].
    op {
        NA = 1, "Not available.";
        LOAD = 2, "Load.";
        STORE = 4, "Store.";
        PFETCH = 8, "Prefetch.";
        EXEC = 16, "Instruction fetch.";
    }
}

values! {
    /// Bits of [`DataSrc::lvl`].
    lvl {
        NA = 0x1, "Not available.";
        HIT = 0x2, "Hit in the levels named.";
        MISS = 0x4, "Missed in the levels named.";
        L1 = 0x8, "L1.";
        LFB = 0x10, "Line fill buffer.";
        L2 = 0x20, "L2.";
        L3 = 0x40, "L3.";
        LOC_RAM = 0x80, "Local memory.";
        REM_RAM1 = 0x100, "Memory one hop away.";
        REM_RAM2 = 0x200, "Memory two hops away.";
        REM_CCE1 = 0x400, "Cache one hop away.";
        REM_CCE2 = 0x800, "Cache two hops away.";
        IO = 0x1000, "I/O memory.";
        UNC = 0x2000, "Uncached memory.";
    }
}

values! {
    /// Bits of [`DataSrc::snoop`].
    snoop {
        NA = 1, "Not available.";
        NONE = 2, "No snoop.";
        HIT = 4, "Found clean.";
        MISS = 8, "Not found.";
        HITM = 16, "Found modified.";
    }
}

values! {
    /// Bits of [`DataSrc::snoopx`].
    snoopx {
        FWD = 1, "Forwarded.";
        PEER = 2, "From a peer cache.";
    }
}

values! {
    /// Bits of [`DataSrc::lock`].
    lock {
        NA = 1, "Not available.";
        LOCKED = 2, "Locked.";
    }
}

values! {
    /// Bits of [`DataSrc::dtlb`].
    tlb {
        NA = 0x1, "Not available.";
        HIT = 0x2, "Hit in the levels named.";
        MISS = 0x4, "Missed in the levels named.";
        L1 = 0x8, "First level.";
        L2 = 0x10, "Second level.";
        WK = 0x20, "Hardware walker.";
        OS = 0x40, "Fault handler of the system.";
    }
}

values! {
    /// Values of [`DataSrc::lvl_num`].
    lvl_num {
        L1 = 1, "L1.";
        L2 = 2, "L2.";
        L3 = 3, "L3.";
        L4 = 4, "L4.";
        L2_MHB = 5, "Miss handling buffer of the L2.";
        MSC = 6, "Memory-side cache.";
        L0 = 7, "L0.";
        UNC = 8, "Uncached memory.";
        CXL = 9, "Memory behind CXL.";
        IO = 10, "I/O memory.";
        ANY_CACHE = 11, "Some cache.";
        LFB = 12, "Line fill buffer, miss address buffer.";
        RAM = 13, "Memory.";
        PMEM = 14, "Persistent memory.";
        NA = 15, "Not available.";
    }
}

values! {
    /// Values of [`DataSrc::hops`].
    hops {
        NOT_GIVEN = 0, "Not given; says nothing about distance.";
        HOPS_0 = 1, "Another core of the same node.";
        HOPS_1 = 2, "Another node of the same socket (IBS: another node, distance unknown).";
        HOPS_2 = 3, "Another socket of the same board.";
        HOPS_3 = 4, "Another board.";
    }
}

values! {
    /// Bits of [`DataSrc::blk`].
    blk {
        NA = 1, "Not available.";
        DATA = 2, "Store data could not be forwarded.";
        ADDR = 4, "Address conflict.";
    }
}

values! {
    /// Values of [`DataSrc::region`]: Intel's off-module response (Diamond Rapids, Nova Lake). CA = caching agent.
    region {
        NA = 0, "Not given.";
        RESERVED = 1, "Reserved.";
        L_SHARE = 2, "Shared cache of the own caching agent.";
        L_NON_SHARE = 3, "Other cache of the own caching agent.";
        O_IO = 4, "I/O agent of another caching agent.";
        O_SHARE = 5, "Shared cache of another caching agent.";
        O_NON_SHARE = 6, "Other cache of another caching agent.";
        MMIO = 7, "Memory-mapped I/O.";
        MEM0 = 8, "Memory region 0; which memory that is, firmware decides.";
        MEM7 = 15, "Memory region 7, the last.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_tile_the_word() {
        let all = DataSrc(u64::MAX);
        let widths = [
            all.op(),
            all.lvl(),
            all.snoop(),
            all.lock(),
            all.dtlb(),
            all.lvl_num(),
            all.remote(),
            all.snoopx(),
            all.blk(),
            all.hops(),
            all.region(),
            all.rest(),
        ]
        .map(u64::count_ones);
        assert_eq!(widths, [5, 14, 5, 2, 7, 4, 1, 2, 3, 3, 5, 13]);
        assert_eq!(widths.iter().sum::<u32>(), 64);
    }

    #[test]
    fn a_field_is_set_without_touching_its_neighbours() {
        let word = DataSrc(u64::MAX).with_lvl_num(0).with_hops(2);
        assert_eq!((word.lvl_num(), word.hops()), (0, 2));
        assert_eq!((word.dtlb(), word.remote(), word.blk()), (0x7f, 1, 7));
        assert_eq!((word.region(), word.rest()), (0x1f, (1 << 13) - 1));
    }

    #[test]
    fn only_what_has_no_name_is_unnamed() {
        let named = DataSrc((1 << 43) - 1)
            .with_hops(hops::HOPS_3)
            .with_region(region::MEM7);
        assert_eq!(named.unnamed(), 0);
        assert_eq!(named.with_rest(5).unnamed(), 5 << 51);
        assert_eq!(named.with_hops(5).unnamed(), 5 << 43);
        assert_eq!(named.with_region(16).unnamed(), 16 << 46);
        assert_eq!(DataSrc(u64::MAX).unnamed(), u64::MAX << 43);
    }

    #[test]
    fn a_word_recorded_on_skylake_reads_as_documented() {
        // 0x6810 0004 2: load, L1 hit, no snoop, TLB L1 or L2 hit, not locked, lvl_num 1.
        let word = DataSrc(0x2_6810_0142);
        assert_eq!(word.op(), op::LOAD);
        assert_eq!(word.lvl(), lvl::HIT | lvl::L1);
        assert_eq!(word.snoop(), snoop::NONE);
        assert_eq!(word.dtlb(), tlb::HIT | tlb::L1 | tlb::L2);
        assert_eq!((word.lock(), word.lvl_num()), (0, lvl_num::L1));
    }
}
