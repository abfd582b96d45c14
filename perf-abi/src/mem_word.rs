//! Bits of `perf_mem_data_src` that this crate puts together itself, where the kernel or perf would have: from registers of
//! IBS and from records of SPE. What they *mean* is not this crate's business.

macro_rules! bits {
    ($($name:ident = $value:literal << $at:literal;)+) => {
        $(pub(crate) const $name: u64 = $value << $at;)+
    };
}

bits! {
    OP_NA = 1 << 0;
    OP_LOAD = 2 << 0;
    OP_STORE = 4 << 0;
    LVL_NA = 0x1 << 5;
    LVL_HIT = 0x2 << 5;
    LVL_MISS = 0x4 << 5;
    LVL_L1 = 0x8 << 5;
    LVL_LFB = 0x10 << 5;
    LVL_L2 = 0x20 << 5;
    LVL_L3 = 0x40 << 5;
    LVL_LOC_RAM = 0x80 << 5;
    LVL_REM_RAM1 = 0x100 << 5;
    LVL_REM_CCE1 = 0x400 << 5;
    LVL_REM_CCE2 = 0x800 << 5;
    LVL_IO = 0x1000 << 5;
    LVL_UNC = 0x2000 << 5;
    LVL_ALL = 0x3fff << 5;
    SNOOP_NA = 1 << 19;
    SNOOP_NONE = 2 << 19;
    SNOOP_HIT = 4 << 19;
    SNOOP_HITM = 16 << 19;
    SNOOP_ALL = 31 << 19;
    LOCK_NA = 1 << 24;
    LOCK_LOCKED = 2 << 24;
    TLB_NA = 0x1 << 26;
    TLB_HIT = 0x2 << 26;
    TLB_MISS = 0x4 << 26;
    TLB_L1 = 0x8 << 26;
    TLB_L2 = 0x10 << 26;
    TLB_WK = 0x20 << 26;
    NUM_L1 = 1 << 33;
    NUM_L2 = 2 << 33;
    NUM_L3 = 3 << 33;
    NUM_UNC = 8 << 33;
    NUM_CXL = 9 << 33;
    NUM_IO = 10 << 33;
    NUM_ANY_CACHE = 11 << 33;
    NUM_LFB = 12 << 33;
    NUM_RAM = 13 << 33;
    NUM_PMEM = 14 << 33;
    NUM_NA = 15 << 33;
    REMOTE = 1 << 37;
    SNOOPX_PEER = 2 << 38;
    HOPS_0 = 1 << 43;
    HOPS_1 = 2 << 43;
}

/// `PERF_MEM_NA`: nothing is known.
pub(crate) const NA: u64 = OP_NA | LVL_NA | SNOOP_NA | LOCK_NA | TLB_NA | NUM_NA;
