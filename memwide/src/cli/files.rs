//! Arguments of the commands that answer questions on one perf.data file.

use super::{ABOUT_FILES, FilterArgs, Format, InsteadArgs, ServerArgs, SidesArgs, SymbolArgs};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Which samples count, and where their symbols are.
#[derive(Debug, Clone, Args)]
pub(crate) struct SampleArgs {
    /// `KEY=VALUE`, repeatable: event, comm, pid, tid, cpu, function, dso, build_id, op, level, outcome, locality, region, snoop, context, mem, tlb, locked, blocked, symbol_daddr, dso_daddr, member; values as tables print them. Of a server the keys of `memwide top -F`
    #[arg(long = "filter", short = 'F', value_name = "KEY=VALUE")]
    pub(crate) filters: Vec<String>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

/// What every command takes that answers with rows.
#[derive(Debug, Clone, Args)]
pub(crate) struct FileArgs {
    /// perf.data file
    #[arg(short = 'i', long, value_name = "FILE", default_value = "perf.data")]
    pub(crate) input: PathBuf,
    #[command(flatten)]
    pub(crate) instead: InsteadArgs,
    #[command(flatten)]
    pub(crate) samples: SampleArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
}

impl FileArgs {
    /// The server to ask instead, and what of it.
    pub(crate) fn asked(&self) -> Option<(ServerArgs, FilterArgs)> {
        self.instead.asked(&self.samples.filters, self.rows.limit)
    }
}

/// How rows are shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct RowArgs {
    /// Rows at most
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = super::rows)]
    pub(crate) limit: Option<u32>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

impl RowArgs {
    /// Rows at most.
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(usize::MAX, |limit| limit as usize)
    }
}

/// What of callchains is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct CallArgs {
    /// The tree of calls below each row: from its function to the callers, or from the outermost caller down to it
    #[arg(
        short = 'g',
        long,
        value_name = "ORDER",
        value_enum,
        num_args = 0..=1,
        default_missing_value = "callee",
        conflicts_with = "server"
    )]
    pub(crate) call_graph: Option<CallOrder>,
    /// Also what each function and all it called add up to; rows for functions that only call
    #[arg(long, conflicts_with = "server")]
    pub(crate) children: bool,
    /// Leave functions out of the tree that were inlined
    #[arg(long, requires = "call_graph")]
    pub(crate) no_inline: bool,
    /// Branches of the tree below this percentage of the event's sum are cut, and counted
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0.5,
        requires = "call_graph"
    )]
    pub(crate) percent_limit: f64,
}

/// Which way a tree of calls grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallOrder {
    /// From the function to its callers
    Callee,
    /// From the outermost caller down
    Caller,
}

#[derive(Debug, Args)]
#[command(after_help = ABOUT_FILES)]
pub(crate) struct AnnotateArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Function to show [default: those with the most samples, five or as many as --limit says]
    #[arg(value_name = "SYMBOL")]
    pub(crate) symbol: Option<String>,
    /// Estimator behind shares: perf_weight, weight, samples, period [default: perf_weight where weights exist, else samples;
    /// perf: period]; of a server samples, weight, est_events, latency_cycles
    #[arg(long, value_name = "ESTIMATOR")]
    pub(crate) by: Option<String>,
    /// All instructions, not only those with samples and their neighbours
    #[arg(long, conflicts_with = "server")]
    pub(crate) full: bool,
}

#[derive(Debug, Args)]
#[command(after_help = ABOUT_FILES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of a command line, each by itself"
)]
pub(crate) struct C2cArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Lines by which loads: tot (HitM), lcl, rmt, peer [default: tot, or peer where no HitM but peer snoops are recorded]
    #[arg(short = 'd', long, value_name = "WHAT", conflicts_with = "server")]
    pub(crate) display: Option<String>,
    /// What tells accesses at an offset apart: pid, tid, iaddr, dso
    #[arg(
        short = 'c',
        long,
        value_name = "KEY,KEY…",
        default_value = "iaddr",
        conflicts_with = "server"
    )]
    pub(crate) coalesce: String,
    /// Of each offset also how many CPUs of each node came there, with their shares of HitM (or peer) loads and of stores; given
    /// twice the CPUs of each node
    #[arg(short = 'N', long, action = clap::ArgAction::Count, conflicts_with = "server")]
    pub(crate) node_info: u8,
    /// Lines of 128 bytes, as the adjacent-line prefetcher fetches them
    #[arg(long, conflicts_with = "server")]
    pub(crate) double_cl: bool,
    /// Also lines without any of the loads in question
    #[arg(long, conflicts_with = "server")]
    pub(crate) show_all: bool,
    /// Do not look for lines of the source
    #[arg(long, conflicts_with = "server")]
    pub(crate) no_source: bool,
    /// The summary only
    #[arg(long, conflicts_with = "server")]
    pub(crate) stats: bool,
}

#[derive(Debug, Args)]
#[command(after_help = ABOUT_FILES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of a command line, each by itself"
)]
pub(crate) struct FlamegraphArgs {
    /// perf.data file
    #[arg(short = 'i', long, value_name = "FILE", default_value = "perf.data")]
    pub(crate) input: PathBuf,
    #[command(flatten)]
    pub(crate) instead: InsteadArgs,
    #[command(flatten)]
    pub(crate) samples: SampleArgs,
    /// What widths are: samples, weight, perf_weight (weight, 0 counted as 1), period; of a server samples, weight, est_events,
    /// latency_cycles
    #[arg(long, value_name = "ESTIMATOR")]
    pub(crate) by: Option<String>,
    /// Leave functions out that were inlined
    #[arg(long, conflicts_with = "server")]
    pub(crate) no_inline: bool,
    /// The root at the top
    #[arg(long)]
    pub(crate) inverted: bool,
    /// From the innermost function to its callers
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Text: one line a path, `frame;frame;frame value`
    #[arg(long, conflicts_with = "format")]
    pub(crate) folded: bool,
    /// Write here instead of standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TreeFormat,
}

/// How a call tree is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TreeFormat {
    /// A picture that zooms and searches in any browser
    #[default]
    Svg,
    /// One line a path
    Folded,
    /// Nested name, value, self, children
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = ABOUT_FILES)]
pub(crate) struct DiffArgs {
    /// perf.data file of before
    #[arg(value_name = "A", required_unless_present = "server")]
    pub(crate) before: Option<PathBuf>,
    /// perf.data file of after
    #[arg(value_name = "B", required_unless_present = "server")]
    pub(crate) after: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sides: SidesArgs,
    /// Keys, as those of `report`
    #[arg(
        short = 's',
        long,
        value_name = "K,K…",
        value_delimiter = ',',
        default_value = "symbol,dso",
        conflicts_with = "server"
    )]
    pub(crate) sort: Vec<String>,
    /// What shares are of: samples, weight, perf_weight (weight, 0 counted as 1), period [default: perf_weight where weights exist, else samples]
    #[arg(long, value_name = "ESTIMATOR", conflicts_with = "server")]
    pub(crate) by: Option<String>,
    /// Only rows whose change is larger than the noise
    #[arg(long, conflicts_with = "server")]
    pub(crate) significant: bool,
    #[command(flatten)]
    pub(crate) samples: SampleArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
}

/// How finely code is told apart.
#[derive(Debug, Clone, Args)]
pub(crate) struct SiteArgs {
    /// Callers that tell equal functions apart; 0: all calls of a function are one row
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "server")]
    pub(crate) callers: usize,
}

/// What a question needs to be recorded with.
const RECORD_FAULTS: &str = "Record with `perf record -e minor-faults,major-faults -c 1 -d -g`, or `memwide record -g` \
                             (its default events). Faults are counted by the kernel without gaps: the sum of periods is their number.";
const RECORD_ALLOCS: &str = "Record with `perf record -g -e syscalls:sys_enter_mmap,syscalls:sys_exit_mmap,syscalls:sys_enter_munmap,\
                             syscalls:sys_enter_brk,syscalls:sys_exit_brk,syscalls:sys_enter_mremap,\
                             syscalls:sys_exit_mremap` for address space, `-e kmem:mm_page_alloc,kmem:mm_page_free` \
                             for pages, `-e kmem:kmalloc,kmem:kfree` for the kernel's objects.";
const RECORD_OFFCPU: &str = "Record with `perf record -a -g -e sched:sched_switch` (all CPUs: a switch in is an event of the thread that \
                             leaves; and `-e sched:sched_wakeup` to tell blocked from \
                             waiting for a CPU), or one program with `--switch-events`. \
                             For a server: the event `sched:sched_switch`, or `sched:sched_switch/threads=8/` for one \
                             thread of 8, among the collectors' `events`.";
const RECORD_RSS: &str = "Record with `perf record -g -e kmem:rss_stat`.";
const RECORD_KERNEL: &str = "Record with kernel callchains (`-g`, or `memwide record -g`): only they tell a fault from an interrupt. \
                             Filter with `-F comm=NAME` for one program.";

#[derive(Debug, Args)]
#[command(after_help = RECORD_FAULTS)]
pub(crate) struct FaultsArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) sites: SiteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = RECORD_ALLOCS)]
pub(crate) struct AllocsArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) sites: SiteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = RECORD_OFFCPU)]
pub(crate) struct OffcpuArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) sites: SiteArgs,
    /// Text: one line a stack with its microseconds, for flame graphs
    #[arg(long)]
    pub(crate) folded: bool,
}

#[derive(Debug, Args)]
#[command(after_help = RECORD_RSS)]
pub(crate) struct RssArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) sites: SiteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = RECORD_KERNEL)]
pub(crate) struct KernelArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
}
