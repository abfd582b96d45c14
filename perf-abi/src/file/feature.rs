//! Numbers of the header features, as perf gives them.

macro_rules! features {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u32 = $number;)*

        /// The name of a feature, as `perf report --header` lists missing ones, in capitals.
        pub fn name(number: u32) -> Option<&'static str> {
            match number {
                $($number => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

features! {
    TRACING_DATA = 1, "Formats of the tracepoints.";
    BUILD_ID = 2, "Build ids of the files with samples.";
    HOSTNAME = 3, "Host name.";
    OSRELEASE = 4, "Kernel release.";
    VERSION = 5, "Version of perf.";
    ARCH = 6, "Machine, as `uname -m` says.";
    NRCPUS = 7, "CPUs configured and online.";
    CPUDESC = 8, "CPU model.";
    CPUID = 9, "CPU vendor, family, model, stepping.";
    TOTAL_MEM = 10, "Memory in KiB.";
    CMDLINE = 11, "Command line of perf.";
    EVENT_DESC = 12, "Names of the events.";
    CPU_TOPOLOGY = 13, "Sockets, dies, cores.";
    NUMA_TOPOLOGY = 14, "Memory nodes and their CPUs.";
    BRANCH_STACK = 15, "Branch stacks were recorded.";
    PMU_MAPPINGS = 16, "Names of the PMUs by attr type.";
    GROUP_DESC = 17, "Event groups.";
    AUXTRACE = 18, "AUX data was recorded.";
    STAT = 19, "The file is of `perf stat record`.";
    CACHE = 20, "CPU caches.";
    SAMPLE_TIME = 21, "Times of the first and last sample.";
    MEM_TOPOLOGY = 22, "Memory blocks of the nodes.";
    CLOCKID = 23, "Resolution of the clock.";
    DIR_FORMAT = 24, "The file is part of a directory.";
    BPF_PROG_INFO = 25, "BPF programs.";
    BPF_BTF = 26, "BPF types.";
    COMPRESSED = 27, "Records are compressed.";
    CPU_PMU_CAPS = 28, "Capabilities of the cpu PMU.";
    CLOCK_DATA = 29, "Wall clock beside the events' clock.";
    HYBRID_TOPOLOGY = 30, "CPUs of each core PMU.";
    PMU_CAPS = 31, "Capabilities of PMUs.";
    CPU_DOMAIN_INFO = 32, "Scheduler domains of the CPUs.";
    E_MACHINE = 33, "ELF machine and flags of the recorded programs.";
    CLN_SIZE = 34, "Bytes of a cache line.";
}
