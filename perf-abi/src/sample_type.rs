//! Bits of `perf_event_attr` masks that decide where a sample's fields are.

/// Bits of `sample_type`.
pub mod sample {
    macro_rules! bits {
        ($($name:ident = $bit:literal, $text:literal;)*) => {
            $(#[doc = $text] pub const $name: u64 = 1 << $bit;)*
            /// Every bit this crate knows the place of.
            pub const KNOWN: u64 = 0 $(| $name)*;
            /// Names of the bits set in `sample_type`, lowest first; bits without a name are left out.
            pub fn names(sample_type: u64) -> impl Iterator<Item = &'static str> {
                [$(($name, stringify!($name))),*]
                    .into_iter()
                    .filter(move |(bit, _)| sample_type & bit != 0)
                    .map(|(_, name)| name)
            }
        };
    }

    bits! {
        IP = 0, "Instruction pointer.";
        TID = 1, "Process and thread id.";
        TIME = 2, "Time stamp.";
        ADDR = 3, "Data address.";
        READ = 4, "Counter values.";
        CALLCHAIN = 5, "Callchain.";
        ID = 6, "Event id.";
        CPU = 7, "CPU number.";
        PERIOD = 8, "Period.";
        STREAM_ID = 9, "Stream id.";
        RAW = 10, "Raw data, as of tracepoints.";
        BRANCH_STACK = 11, "Branch stack.";
        REGS_USER = 12, "User registers.";
        STACK_USER = 13, "Copy of the user stack.";
        WEIGHT = 14, "Weight, 64 bits.";
        DATA_SRC = 15, "Where the data came from.";
        IDENTIFIER = 16, "Event id at a place independent of the other bits.";
        TRANSACTION = 17, "Transaction flags.";
        REGS_INTR = 18, "Registers at the interrupt.";
        PHYS_ADDR = 19, "Physical data address.";
        AUX = 20, "AUX data.";
        CGROUP = 21, "Cgroup id.";
        DATA_PAGE_SIZE = 22, "Page size of the data address.";
        CODE_PAGE_SIZE = 23, "Page size of the instruction pointer.";
        WEIGHT_STRUCT = 24, "Weight in three parts.";
    }
}

/// Bits of `read_format`.
pub mod read_format {
    /// Time enabled.
    pub const TOTAL_TIME_ENABLED: u64 = 1;
    /// Time running.
    pub const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    /// Event id with each value.
    pub const ID: u64 = 1 << 2;
    /// All values of the group.
    pub const GROUP: u64 = 1 << 3;
    /// Lost samples with each value.
    pub const LOST: u64 = 1 << 4;
    /// Every bit this crate knows.
    pub const KNOWN: u64 = (1 << 5) - 1;
}

/// Bits of `branch_sample_type` that change a sample's layout.
pub mod branch_sample {
    /// Only branches of calls that have not returned: together they are the stack.
    pub const CALL_STACK: u64 = 1 << 11;
    /// A hardware index stands before the entries.
    pub const HW_INDEX: u64 = 1 << 17;
    /// A word of counters for each entry stands after the entries.
    pub const COUNTERS: u64 = 1 << 19;
    /// Every bit this crate knows.
    pub const KNOWN: u64 = (1 << 20) - 1;
}
