//! Arguments of the commands that measure this machine without services.

use super::files::SampleArgs;
use super::{Format, SymbolArgs};
use clap::{Args, value_parser};
use std::ffi::OsString;
use std::path::PathBuf;

const ABOUT_STAT: &str = "Without -e the memory group is counted: faults, cache, TLB and memory node events, as many as this machine has; the \
                          others are named with the reason. Rates are per second of elapsed time, with the 95 % interval that their number of \
                          events gives if they are independent; bursts vary more: -r shows by how much. Where events take turns on the counters, \
                          `running` is the share of time each was counted, and counts are scaled by it, as perf does. With a command the answer \
                          goes to standard error, as perf's, or to -o FILE, and its exit code is that of the command.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT_STAT)]
pub(crate) struct StatArgs {
    /// Events, repeatable, or in a list with commas: names as `perf stat` has them, with :u, :k; SYSTEM:NAME, PMU/TERMS/, rNNN, mem:0xADDR/LEN:rwx [default: the memory group]
    #[arg(short = 'e', long = "event", value_name = "EVENT,…")]
    pub(crate) events: Vec<String>,
    /// All processes on all CPUs
    #[arg(short = 'a', long = "all-cpus", conflicts_with = "pid")]
    pub(crate) all: bool,
    /// Only this process, its threads and what they start
    #[arg(short = 'p', long, value_name = "PID", value_parser = value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) pid: Option<u32>,
    /// Only on these CPUs: 0-2,5
    #[arg(short = 'C', long = "cpu", value_name = "LIST")]
    pub(crate) cpus: Option<String>,
    /// Print counts every so many milliseconds
    #[arg(short = 'I', long = "interval-print", value_name = "MS", value_parser = value_parser!(u64).range(1..=86_400_000))]
    pub(crate) interval: Option<u64>,
    /// Run the command so often; shows mean and spread
    #[arg(short = 'r', long = "repeat", value_name = "N", value_parser = value_parser!(u32).range(1..=10_000), requires = "command", conflicts_with = "interval")]
    pub(crate) repeat: Option<u32>,
    /// Stop after so many milliseconds
    #[arg(long, value_name = "MS", value_parser = value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// Lines as those of `perf stat -x`, with this between fields
    #[arg(
        short = 'x',
        long = "field-separator",
        value_name = "SEP",
        conflicts_with = "format"
    )]
    pub(crate) separator: Option<String>,
    /// Write the answer to this file
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Do not count: show what a file of `perf stat record` holds, or the totals by event of any perf.data file
    #[arg(short = 'i', long, value_name = "FILE", conflicts_with_all = ["events", "all", "pid", "cpus", "interval", "repeat", "timeout", "command"])]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Command to run and count from its start to its end; with -a or -p it says how long to count
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

const ABOUT_DIAGNOSE: &str = "Takes the best that this machine offers: precise memory events, else hardware cache events, and always page faults, \
                              switches and memory calls by tracepoints, the kernel's pressure accounting and counters. Each step that is not \
                              there is named with its reason. A finding is a number whose 95 % interval lies above its threshold and that rests \
                              on enough samples; what is above it without that, one cannot tell. Thresholds stand in docs/diagnose.md. The answer \
                              goes to standard output; what the command prints goes to standard error.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT_DIAGNOSE)]
pub(crate) struct DiagnoseArgs {
    /// Diagnose a perf.data file instead of recording
    #[arg(short = 'i', long, value_name = "FILE", conflicts_with_all = ["events", "all", "pid", "seconds", "keep", "command"])]
    pub(crate) input: Option<PathBuf>,
    /// All processes on all CPUs
    #[arg(short = 'a', long = "all-cpus", conflicts_with = "pid")]
    pub(crate) all: bool,
    /// Only this process, its threads and what they start
    #[arg(short = 'p', long, value_name = "PID", conflicts_with = "command", value_parser = value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) pid: Option<u32>,
    /// Record so long at most; a command is ended then [default: 10; a command: to its end]
    #[arg(short = 's', long, value_name = "S", value_parser = value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: Option<u64>,
    /// Record these events too, as mem:0xADDR/8:rw
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    pub(crate) events: Vec<String>,
    /// Keep the recording in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) samples: SampleArgs,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Command to run and diagnose
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
