//! Arguments of the commands that answer questions on one perf.data file.

use super::{ABOUT_FILES, Format, SymbolArgs};
use clap::Args;
use std::path::PathBuf;

/// What every such command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct FileArgs {
    /// perf.data file
    #[arg(short = 'i', long, value_name = "FILE", default_value = "perf.data")]
    pub(crate) input: PathBuf,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
}

/// What is counted and how it is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct RowArgs {
    /// `KEY=VALUE`, repeatable: event, comm, pid, tid, cpu, function, dso, build_id, op, level, locality, snoop, context
    #[arg(long = "filter", short = 'F', value_name = "KEY=VALUE")]
    pub(crate) filters: Vec<String>,
    /// Rows at most
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = ABOUT_FILES)]
pub(crate) struct C2cArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Lines by which loads: tot (HitM), lcl, rmt, peer [default: tot, or peer where no HitM but peer snoops are recorded]
    #[arg(short = 'd', long, value_name = "WHAT")]
    pub(crate) display: Option<String>,
    /// What tells accesses at an offset apart: pid, tid, iaddr, dso
    #[arg(short = 'c', long, value_name = "KEY,KEY…", default_value = "iaddr")]
    pub(crate) coalesce: String,
    /// Lines of 128 bytes, as the adjacent-line prefetcher fetches them
    #[arg(long)]
    pub(crate) double_cl: bool,
    /// Also lines without any of the loads in question
    #[arg(long)]
    pub(crate) show_all: bool,
    /// The summary only
    #[arg(long)]
    pub(crate) stats: bool,
}
