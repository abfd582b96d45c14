//! Arguments of the commands that ask a server about a fleet.

use super::{FilterArgs, Format, ServerArgs};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// A server to ask instead of reading a file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InsteadArgs {
    /// Ask this server instead of reading a file
    #[arg(long, value_name = "URL", conflicts_with = "input")]
    pub(crate) server: Option<String>,
    /// Of a server, start: -15m, -2h, 2026-11-29T10:00:00Z or Unix nanoseconds [default: one hour before the end]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "server"
    )]
    pub(crate) since: Option<String>,
    /// Of a server, end [default: now]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "server"
    )]
    pub(crate) until: Option<String>,
    /// Of a server: say the address of this answer on its page, at absolute times, on standard error
    #[arg(long, requires = "server")]
    pub(crate) link: bool,
}

impl InsteadArgs {
    /// The server, and the filters of a command on files as filters of a question.
    pub(crate) fn asked(
        &self,
        filters: &[String],
        limit: Option<u32>,
    ) -> Option<(ServerArgs, FilterArgs)> {
        let server = self.server.clone()?;
        let filter = FilterArgs {
            since: self.since.clone(),
            until: self.until.clone(),
            filters: filters.to_vec(),
            limit,
            link: self.link,
        };
        Some((ServerArgs { server }, filter))
    }
}

/// Two sides of a fleet to compare, instead of two files.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SidesArgs {
    /// Compare what this server holds instead of files: --since and --until with --before-since and --before-until, or with
    /// --before-build or --before-host [default: with the time just before]
    #[arg(long, value_name = "URL", conflicts_with_all = ["before", "after"])]
    pub(crate) server: Option<String>,
    /// Of a server, start of after: -15m, -2h, 2026-11-29T10:00:00Z or Unix nanoseconds [default: one hour before the end]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "server"
    )]
    pub(crate) since: Option<String>,
    /// Of a server, end of after [default: now]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "server"
    )]
    pub(crate) until: Option<String>,
    /// Of a server, start of before
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "server"
    )]
    pub(crate) before_since: Option<String>,
    /// Of a server, end of before
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "server"
    )]
    pub(crate) before_until: Option<String>,
    /// Of a server, build of before; that of after is -F build_id=ID
    #[arg(long, value_name = "ID", requires = "server")]
    pub(crate) before_build: Option<String>,
    /// Of a server, hosts of before, with commas; those of after are -F host=NAME
    #[arg(long, value_name = "NAME,…", requires = "server")]
    pub(crate) before_host: Option<String>,
    /// Of a server: say the address of this answer on its page, at absolute times, on standard error
    #[arg(long, requires = "server")]
    pub(crate) link: bool,
}

impl SidesArgs {
    /// The server, and what after is, as those of other commands.
    pub(crate) fn instead(&self) -> InsteadArgs {
        InsteadArgs {
            server: self.server.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            link: self.link,
        }
    }
}

/// How to read an answer about NUMA.
const ABOUT_NUMA: &str = "Shares are of all remote samples of the same tier, event and basis (hw: the hardware says so; page: the page lies on \
                          another node than the CPU), with a 95 % interval over hosts and hours where there are enough of them. Mean latencies \
                          are of one kind each and never mixed. A gain is an upper bound: the part of the function's sampled latency that would \
                          go away if remote accesses took as long as local ones of the same level; it is no CPU time. Nodes of pages need \
                          physical addresses; parts are of the first 20 rows. --format json has all numbers behind each advice.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT_NUMA)]
pub(crate) struct NumaArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Order by: samples, weight, est_events, latency_cycles [default: samples]
    #[arg(long, value_name = "ESTIMATOR")]
    pub(crate) by: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// What tells distributions apart, for `--help`.
const ABOUT_LATENCY: &str = "Latencies are of one kind and event a row: kinds are never mixed. Quantiles are exact, of the samples that have a latency; \
                             --format json also has the buckets of each row, four to a factor of two.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT_LATENCY)]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// What tells rows apart: function, level, locality, op, snoop, tlb, region, data, context, host, workload, comm [default: function,level]
    #[arg(long, value_name = "K,K…")]
    pub(crate) by: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Order by: samples, weight, est_events, latency_cycles [default: samples]
    #[arg(long, value_name = "ESTIMATOR")]
    pub(crate) by: Option<String>,
    /// One row for each function that touches the data
    #[arg(long)]
    pub(crate) per_function: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// How rules are made.
const ABOUT_RULES: &str = "A rule is a question or a statement that the query service asks again and again; it fires when a column is beyond a \
                           threshold, on demand by more than its interval. Rules stand in the service's configuration ([[rules]], see \
                           deploy/config/query.toml); what fires is also the metric query_standing_queries and a webhook.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT_RULES)]
pub(crate) struct RulesArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// End with exit code 1 unless all rules are quiet
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check: only this rule, repeatable
    #[arg(long, value_name = "NAME", requires = "check")]
    pub(crate) rule: Vec<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// pprof's protobuf, call paths of one event
    Pprof,
    /// Folded stacks, call paths of one event, one line each
    Folded,
    /// speedscope's JSON, one profile an event
    Speedscope,
    /// The Firefox profiler's JSON, one thread an event
    Firefox,
    /// OpenTelemetry's protobuf (ProfilesData), one profile for each event and estimator
    Otlp,
    /// Samples of one host (-F host=NAME) as a perf.data file
    PerfData,
}

/// What is beside the file.
const ABOUT_EXPORT: &str = "Standard error says how complete the answer is and which events it leaves out; of formats of one event it is \
                            that of the best tier with most samples, or the one of -F event=NAME. perf-data has at most 200,000 samples.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT_EXPORT)]
pub(crate) struct ExportArgs {
    /// What to write
    #[arg(value_enum, value_name = "FORMAT")]
    pub(crate) format: ExportFormat,
    /// File to write; replaced if it exists [default: standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Estimator: samples, weight, est_events, latency_cycles [default: samples]
    #[arg(long, value_name = "ESTIMATOR")]
    pub(crate) by: Option<String>,
}
