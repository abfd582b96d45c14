//! Arguments of the commands that measure this machine without services.

use super::files::SampleArgs;
use super::{Format, SymbolArgs};
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, value_parser};
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
        value_parser = NonEmptyStringValueParser::new(),
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
    #[arg(long, value_name = "FILE", value_parser = super::recording::recording_file)]
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

/// What happens, for `--help`.
const BOOST: &str = "\
The kernel samples the hosts more often; samples of others than those asked for are thinned out again, so they cost time on the
host and no room in the store. Of several rules it is enough to meet one. Everything estimates what it did before. Budgets hold: on a busy host there are fewer than asked
for. It ends by itself, also when the decoder goes away or the collector is restarted; only one runs on a host, the last one.
A decoder knows the hosts whose streams it has: with several decoders behind one address name each with --decoder.";

#[derive(Debug, Args)]
#[command(after_help = BOOST)]
#[command(group(ArgGroup::new("whose").required(true).multiple(true)
    .args(["pod", "container", "namespace", "service", "cgroup", "comm", "pid", "end"])))]
pub(crate) struct BoostArgs {
    /// Hosts by name; * stands for anything
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) host: String,
    /// Of this pod
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) pod: Option<String>,
    /// Of this container
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) container: Option<String>,
    /// Of this namespace
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Option<String>,
    /// Of this service: systemd unit, or workload of Kubernetes
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) service: Option<String>,
    /// Of the cgroup with this path
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) cgroup: Option<String>,
    /// Of processes with this name
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) comm: Option<String>,
    /// Of this process
    #[arg(long, value_name = "PID", value_parser = value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) pid: Option<u32>,
    /// How long: 60s, 5m; at most 10m
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = seconds)]
    pub(crate) seconds: u32,
    /// How many times more often
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(2..=1_000))]
    pub(crate) factor: u32,
    /// End what runs
    #[arg(long)]
    pub(crate) end: bool,
    #[command(flatten)]
    pub(crate) server: super::ServerArgs,
    /// Decoders to ask, as http://HOST:PORT [default: the one that the server names]
    #[arg(long = "decoder", value_name = "URL")]
    pub(crate) decoders: Vec<String>,
    /// What the decoder's `boost_token` is; others see it in lists of processes, not so the variable
    #[arg(
        long,
        value_name = "TOKEN",
        env = "MEMWIDE_BOOST_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: super::Format,
}

/// A time in seconds or minutes.
fn seconds(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let number: Option<u32> = digits.parse().ok();
    let seconds = number.and_then(|number| number.checked_mul(unit));
    let possible = seconds.filter(|seconds| (1..=600).contains(seconds));
    possible.ok_or_else(|| "1s to 600s (10m) are possible".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_minutes() {
        for (text, expected) in [("60s", 60), ("5m", 300), ("7", 7), ("10m", 600)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in ["0", "11m", "601s", "1h", "", "-3s", "99999999999m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
