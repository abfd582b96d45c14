//! The command line, as clap reads it. Texts here are what `--help` prints.

mod archive;
mod files;
mod fleet;
mod live;
mod recording;
mod symbols;

pub(crate) use archive::{ArchiveArgs, ArchiveCommand, ArchiveVerifyArgs, RedecodeArgs};
pub(crate) use files::{
    AllocsArgs, AnnotateArgs, C2cArgs, CallArgs, CallOrder, DiffArgs, FaultsArgs, FileArgs,
    FlamegraphArgs, KernelArgs, OffcpuArgs, RowArgs, RssArgs, SampleArgs, TreeFormat,
};
pub(crate) use fleet::{
    DataArgs, ExportArgs, ExportFormat, InsteadArgs, LatencyArgs, NumaArgs, RulesArgs, SidesArgs,
};
pub(crate) use live::{BoostArgs, DiagnoseArgs, StatArgs};
pub(crate) use recording::{CallGraph, RecordArgs};
pub(crate) use symbols::{SymbolsAddArgs, SymbolsCommand, SymbolsListArgs};

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use memwide_decoder::edge::Places;
use std::ffi::OsString;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Where the query service of `memwide up` listens.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:7070";

/// Cluster-wide, always-on profiler of memory access.
#[derive(Debug, Parser)]
#[command(
    name = "memwide",
    version = memwide_service::build_info::VERSION,
    max_term_width = 100,
    after_help = "Exit codes: 0 fine, 1 failed, 64 wrong usage or configuration, 65 bad input.\n\
                  Logs: MEMWIDE_LOG=info,memwide_decoder=debug. Colours: off when not a terminal or NO_COLOR is set."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole pipeline on this machine and collect here
    Up(UpArgs),
    /// Say what this machine can collect, in which tier, what is missing and the remedy
    Doctor(DoctorArgs),
    /// Stream perf.data files through a running pipeline, each as a host
    Import(ImportArgs),
    /// Print one line a sample of a perf.data file
    Script(ScriptArgs),
    /// Sum up a perf.data file, or what a server holds, like `perf mem report`
    Report(ReportArgs),
    /// Show on which instructions and source lines of functions the samples fall, like `perf annotate`
    Annotate(AnnotateArgs),
    /// Find cache lines that CPUs fight over, and whether they share them falsely, like `perf c2c report`
    C2c(C2cArgs),
    /// Draw the call paths of a perf.data file, by any estimator
    Flamegraph(FlamegraphArgs),
    /// Compare two perf.data files: what changed by more than noise?
    Diff(DiffArgs),
    /// Say where page faults come from, minor and major, by function and memory
    Faults(FaultsArgs),
    /// Tell allocations that grow from those that churn, by the code that makes them
    Allocs(AllocsArgs),
    /// Say where threads wait off the CPU, how long and why
    Offcpu(OffcpuArgs),
    /// Say what made resident memory grow
    Rss(RssArgs),
    /// Tell the kernel's work for a process from what merely interrupted it
    Kernel(KernelArgs),
    /// Say in one shot what is wrong with the memory accesses of a command, a process, this machine or a file, with evidence
    Diagnose(DiagnoseArgs),
    /// Count memory events of this machine, a process or a command, like `perf stat`
    Stat(StatArgs),
    /// Record into a perf.data file: this machine, a process or a command
    Record(RecordArgs),
    /// Sample some processes of live hosts more often for a while, within the hosts' budgets
    Boost(BoostArgs),
    /// Show the functions with the most samples, live on a terminal, with what is behind each
    Top(TopArgs),
    /// Say which functions of a fleet reach over to other NUMA nodes, where their data lies and what to do
    Numa(NumaArgs),
    /// Say how long a fleet's accesses take: quantiles by function and level, apart for each event and kind of latency
    Latency(LatencyArgs),
    /// Say which data of a fleet is slow: variables, heap, stacks, files
    Data(DataArgs),
    /// List the pages of a fleet by where they are used from, and those on the wrong node
    Pages(AskArgs),
    /// List hosts with their facts, tiers and completeness
    Hosts(AskArgs),
    /// Show what is stored and what is missing, by reason
    #[command(after_help = crate::command::ledger::ABOUT)]
    Ledger(AskArgs),
    /// Show the standing rules of a server; with --check a gate for releases
    Rules(RulesArgs),
    /// Bring names to a server, or ask it which programs have none and why
    #[command(subcommand)]
    Symbols(SymbolsCommand),
    /// Say which raw batches are archived, and whether they are whole
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Decode archived days again, with better symbols or a newer taxonomy
    Redecode(RedecodeArgs),
    /// Write call paths or samples of a fleet for another tool: pprof, speedscope, Firefox profiler, OpenTelemetry, perf
    Export(ExportArgs),
    /// Run one guarded SQL query against a server
    Sql(SqlArgs),
    /// Run the collector service of one node
    Collector(RoleArgs),
    /// Run the decoder service
    Decoder(RoleArgs),
    /// Run the aggregator service
    Aggregator(RoleArgs),
    /// Run the sink service (JetStream to ClickHouse)
    Sink(RoleArgs),
    /// Run the embedded store, with ClickHouse's HTTP interface
    Store(RoleArgs),
    /// Run the query service (API, SQL, page)
    Query(RoleArgs),
    #[command(hide = true)]
    StoreEngine(StoreEngineArgs),
    #[command(hide = true)]
    ExecGate(ExecGateArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages, one for each command, into a folder
    Man {
        /// The folder; it is made if it is not there
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// How answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people
    #[default]
    Table,
    /// One stable JSON document
    Json,
    /// Comma-separated values with a header line
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Folder for stream, store and spool [default: $XDG_DATA_HOME/memwide]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Address of page, HTTP and query gRPC; only loopback until TLS and authentication exist
    #[arg(long, value_name = "ADDR:PORT", default_value = DEFAULT_LISTEN)]
    pub(crate) listen: SocketAddr,
    /// Address of the ingest gRPC; port 0 takes any
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7071")]
    pub(crate) ingest: SocketAddr,
    /// Add eight simulated two-socket hosts with known truth, through the real ingest
    #[arg(long)]
    pub(crate) demo: bool,
    /// Do not collect on this machine
    #[arg(long)]
    pub(crate) no_collect: bool,
    /// Use this ClickHouse instead of the embedded engine
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Keep raw batches too, in the folder `archive` of the data: 30 days, 16 GiB at most; see `memwide redecode`
    #[arg(long)]
    pub(crate) archive: bool,
    /// File with the key the archive is encrypted with, 64 hexadecimal digits
    #[arg(long, value_name = "FILE", requires = "archive")]
    pub(crate) archive_key: Option<PathBuf>,
    /// Configuration file (TOML): the keys of the collector on this machine, and `[limits]` and `[[rules]]` of the query service
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Configuration of the collector here: its events, its spool with what it was told centrally [default: none of its own]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// Which server to ask.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// Query service to ask
    #[arg(
        long,
        value_name = "URL",
        env = "MEMWIDE_SERVER",
        default_value = "http://127.0.0.1:7070"
    )]
    pub(crate) server: String,
}

/// Filters every question takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FilterArgs {
    /// Start: -15m, -2h, 2026-11-29T10:00:00Z or Unix nanoseconds [default: one hour before the end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<String>,
    /// End [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) until: Option<String>,
    /// `KEY=VALUE`, repeatable: build_id, comm, function, event, op, level, locality, snoop, context; of a server also host, namespace, pod, container, service, tier; of a file also pid, tid, cpu, dso, outcome, region, mem, tlb, locked, blocked, symbol_daddr, dso_daddr; values as tables print them
    #[arg(long = "filter", short = 'F', value_name = "KEY=VALUE")]
    pub(crate) filters: Vec<String>,
    /// Rows at most
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = rows)]
    pub(crate) limit: Option<u32>,
    /// Of a server: say the address of this answer on its page, at absolute times, on standard error
    #[arg(long)]
    pub(crate) link: bool,
}

/// A number of rows.
fn rows(text: &str) -> Result<u32, String> {
    let rows = text.parse();
    rows.map_err(|_| format!("rows are a whole number from 1 on, not `{text}`"))
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// perf.data files
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Host name to import as [default: the one in the file]
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Moment of the file's first sample, RFC 3339 or Unix nanoseconds [default: the file's clock data, else so that it ends at its modification time]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// Import once more what was imported before
    #[arg(long)]
    pub(crate) again: bool,
    /// Import a file that ends early up to its cut
    #[arg(long)]
    pub(crate) allow_cut: bool,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

/// Where binaries and kernel symbols are found.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SymbolArgs {
    /// Look for binaries below this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) symfs: Option<PathBuf>,
    /// Kernel symbols from this file instead of /proc/kallsyms
    #[arg(long, value_name = "FILE")]
    pub(crate) kallsyms: Option<PathBuf>,
    /// The recorded kernel's ELF file, for its symbols, source lines and code as it was linked [default for code: the copy that
    /// `perf record --kcore` made, else /proc/kcore of the kernel that runs]
    #[arg(short = 'k', long, value_name = "FILE")]
    pub(crate) vmlinux: Option<PathBuf>,
    /// Ask these servers (https://HOST or http://HOST:PORT, separated by blanks) for symbols and debug information that are not
    /// here; '' for none
    #[arg(
        long,
        value_name = "URLS",
        env = "DEBUGINFOD_URLS",
        value_delimiter = ' ',
        value_parser = server_url
    )]
    pub(crate) debuginfod: Vec<String>,
}

/// A name that filters can name: they take lists with commas.
fn host_name(name: &str) -> Result<String, String> {
    if name.trim().is_empty() {
        return Err("a host needs a name".to_owned());
    }
    match name.chars().find(|sign| *sign == ',' || sign.is_control()) {
        Some(sign) => Err(format!("no filter could name a host with {sign:?} in it")),
        None => Ok(name.to_owned()),
    }
}

/// Also nothing, which stands for no server.
fn server_url(url: &str) -> Result<String, String> {
    let is_known = ["http://", "https://"]
        .iter()
        .any(|scheme| url.starts_with(scheme));
    if is_known || url.is_empty() {
        Ok(url.to_owned())
    } else {
        Err("servers are asked by http:// or https://".to_owned())
    }
}

impl SymbolArgs {
    /// As the decoder wants it.
    pub(crate) fn places(&self) -> Places {
        let servers = self.debuginfod.iter().filter(|url| !url.is_empty());
        Places {
            symfs: self.symfs.clone(),
            kallsyms: self.kallsyms.clone(),
            vmlinux: self.vmlinux.clone(),
            debuginfod: servers.cloned().collect(),
            ..Places::default()
        }
    }
}

/// What a reader of files can expect of them.
const ABOUT_FILES: &str = "`-i -` reads standard input (`perf record -o - … | memwide report -i -`); what comes by a pipe is kept in a temporary file. \
                           Files that are not whole: of a file that is cut, or whose recorder was killed, all whole records are read and shown; \
                           then standard error says where and in what it ends, and the exit code is 65, as for files of which nothing \
                           can be read. Only a pipe that ends in less than a record's header is taken as whole, as perf does (exit \
                           code 0). What is not shown (samples of guests, of unknown events, lost records) is counted on standard \
                           error. Files of machines of the other byte order are read as any other.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT_FILES)]
pub(crate) struct ScriptArgs {
    /// perf.data file
    #[arg(short = 'i', long, value_name = "FILE", default_value = "perf.data")]
    pub(crate) input: PathBuf,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ScriptFormat,
    /// Fields to add: +srcline (line of the source); in ndjson +inline (functions inlined in callchains, with their lines) and
    /// +member (member of a variable at the data address)
    #[arg(short = 'F', long, value_name = "+FIELD,…", value_delimiter = ',')]
    pub(crate) fields: Vec<ScriptField>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    /// Samples at most
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) jobs: JobArgs,
}

/// How many threads read a file.
#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// Threads that decode samples [default: one a core, 8 at most]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) jobs: Option<u16>,
}

/// What `script` prints beyond the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScriptField {
    /// Line of the source that the code comes from
    #[value(name = "+srcline", alias = "srcline")]
    Srcline,
    /// Functions inlined in callchains
    #[value(name = "+inline", alias = "inline")]
    Inline,
    /// Member of a variable at the data address
    #[value(name = "+member", alias = "member")]
    Member,
}

/// How `script` prints a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ScriptFormat {
    /// Columns for people, one line a sample
    #[default]
    Text,
    /// One JSON object a line
    Ndjson,
}

#[derive(Debug, Args)]
#[command(after_help = ABOUT_FILES)]
pub(crate) struct ReportArgs {
    /// perf.data file
    #[arg(short = 'i', long, value_name = "FILE", default_value = "perf.data")]
    pub(crate) input: PathBuf,
    /// Ask this server instead of reading a file
    #[arg(long, value_name = "URL", conflicts_with = "input")]
    pub(crate) server: Option<String>,
    /// Keys: symbol, mem, dso, comm, pid, tid, cpu, node (of the CPU), symbol_daddr, dso_daddr, member, snoop, tlb, locked, blocked, dcacheline, local_weight, event, context, srcline, srcfile; also op, level, outcome, locality, region [default: symbol,mem; of a server: symbol]
    #[arg(short = 's', long, value_name = "K,K…", value_delimiter = ',')]
    pub(crate) sort: Vec<String>,
    /// Estimator behind `overhead`: perf_weight (weight, 0 counted as 1), weight, samples, period [default: perf_weight where weights exist, else samples]
    #[arg(long, value_name = "ESTIMATOR")]
    pub(crate) by: Option<String>,
    /// One level a key: the sums of the first key's values, within each those of the second, and so on
    #[arg(long, conflicts_with_all = ["server", "call_graph", "children"])]
    pub(crate) hierarchy: bool,
    #[command(flatten)]
    pub(crate) calls: CallArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    #[command(flatten)]
    pub(crate) jobs: JobArgs,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// Arguments of the process that waits to become the recorded command.
#[derive(Debug, Args)]
pub(crate) struct ExecGateArgs {
    /// Folder of the gate
    pub(crate) folder: PathBuf,
    /// What to become
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(mut_arg("since", |since| since.help(
    "Start: -15m, -2h, 2026-11-29T10:00:00Z or Unix nanoseconds [default: 15 minutes ago; with --until one hour before that]"
)))]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Order by: samples, weight, est_events, latency_cycles
    #[arg(long, value_name = "ESTIMATOR", default_value = "samples")]
    pub(crate) by: String,
    /// Split by host
    #[arg(long)]
    pub(crate) per_host: bool,
    /// Print once and end; the default when the output is no terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between refreshes
    #[arg(long, value_name = "S", default_value_t = 2)]
    pub(crate) interval: u64,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    /// One SELECT; `-` reads standard input. Newcomers: `select * from functions limit 5`
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,
    /// `NAME=VALUE`, repeatable: a `{NAME:Type}` parameter of the query
    #[arg(long = "param", short = 'P', value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct RoleArgs {
    /// Configuration file (TOML); variables `MEMWIDE_<KEY>` and defaults fill the rest
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the resolved configuration with its origin and end
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Logs as JSON
    #[arg(long)]
    pub(crate) log_json: bool,
}

/// Arguments of the engine's own process.
#[derive(Debug, Args)]
pub(crate) struct StoreEngineArgs {
    /// Passed on to the store package
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<String>,
}

/// Prints what clap found, with exit code 64 for wrong usage and 0 for `--help`.
pub(crate) fn print_usage(wrong: &clap::Error) -> ExitCode {
    let code = if wrong.use_stderr() {
        ExitCode::from(memwide_service::exit::USAGE)
    } else {
        ExitCode::SUCCESS
    };
    match wrong.print() {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Prints the completion script of a shell.
pub(crate) fn print_completions(shell: clap_complete::Shell) -> std::io::Result<()> {
    // Not straight to standard output: what cannot be written there makes the generator panic.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "memwide", &mut script);
    std::io::stdout().write_all(&script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_limit_that_is_no_number_of_rows_is_told_so() {
        for command in ["top", "faults"] {
            let wrong = Cli::try_parse_from(["memwide", command, "--limit", "-1"]).unwrap_err();
            let text = wrong.to_string();
            assert!(
                text.contains("rows are a whole number from 1 on, not `-1`"),
                "{text}"
            );
        }
    }
}
