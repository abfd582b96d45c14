//! Record types: the kernel's (below 64) and perf's own in files (64 and above).

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: u32 = $value;)*

        /// The name perf gives a record type, without `PERF_RECORD_`.
        pub fn name(kind: u32) -> Option<&'static str> {
            match kind {
                $($value => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

kinds! {
    /// A file or memory mapped (old form).
    MMAP = 1;
    /// Records lost because the ring was full.
    LOST = 2;
    /// A task's name.
    COMM = 3;
    /// A task's end.
    EXIT = 4;
    /// An event is throttled.
    THROTTLE = 5;
    /// An event is no longer throttled.
    UNTHROTTLE = 6;
    /// A task's start.
    FORK = 7;
    /// Counter values.
    READ = 8;
    /// A sample.
    SAMPLE = 9;
    /// A file or memory mapped.
    MMAP2 = 10;
    /// New data in the AUX area.
    AUX = 11;
    /// Instruction trace starts.
    ITRACE_START = 12;
    /// Samples the hardware dropped.
    LOST_SAMPLES = 13;
    /// The monitored task is switched.
    SWITCH = 14;
    /// A task is switched on a monitored CPU.
    SWITCH_CPU_WIDE = 15;
    /// A task's namespaces.
    NAMESPACES = 16;
    /// Kernel symbol added or removed.
    KSYMBOL = 17;
    /// BPF program loaded or unloaded.
    BPF_EVENT = 18;
    /// A cgroup's id and path.
    CGROUP = 19;
    /// Kernel text changed.
    TEXT_POKE = 20;
    /// Hardware id of AUX output.
    AUX_OUTPUT_HW_ID = 21;
    /// User callchain delivered after the sample.
    CALLCHAIN_DEFERRED = 22;
    /// An attr with its ids (pipe mode).
    HEADER_ATTR = 64;
    /// An event's name (old pipes).
    HEADER_EVENT_TYPE = 65;
    /// Tracing data follows (pipe mode).
    HEADER_TRACING_DATA = 66;
    /// Build id of a file (pipe mode).
    HEADER_BUILD_ID = 67;
    /// End of a round: earlier rounds are complete.
    FINISHED_ROUND = 68;
    /// Maps ids to events, CPUs and threads.
    ID_INDEX = 69;
    /// Describes the AUX data.
    AUXTRACE_INFO = 70;
    /// AUX data follows.
    AUXTRACE = 71;
    /// An error in AUX data.
    AUXTRACE_ERROR = 72;
    /// The threads recorded.
    THREAD_MAP = 73;
    /// The CPUs recorded.
    CPU_MAP = 74;
    /// `perf stat` configuration.
    STAT_CONFIG = 75;
    /// A `perf stat` count.
    STAT = 76;
    /// Start of a `perf stat` interval.
    STAT_ROUND = 77;
    /// Unit, scale, name or CPUs of an event.
    EVENT_UPDATE = 78;
    /// Converts the time stamp counter to perf time.
    TIME_CONV = 79;
    /// A header feature (pipe mode).
    HEADER_FEATURE = 80;
    /// Records, compressed.
    COMPRESSED = 81;
    /// Synthesized records end here.
    FINISHED_INIT = 82;
    /// Records, compressed, with the size of the data.
    COMPRESSED2 = 83;
    /// Metadata of a BPF program.
    BPF_METADATA = 84;
    /// Scheduler statistics of a CPU.
    SCHEDSTAT_CPU = 85;
    /// Scheduler statistics of a domain of a CPU.
    SCHEDSTAT_DOMAIN = 86;
}

/// First record type that belongs to perf's files, not to the kernel.
pub const USER_TYPE_START: u32 = 64;

/// Record types of simpleperf's own. Their size has 32 bits: `misc` holds the upper half.
pub const SIMPLEPERF_TYPES: std::ops::RangeInclusive<u32> = 0x8000..=0x80ff;
