//! Arguments of `memwide symbols`.

use super::{Format, ServerArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum SymbolsCommand {
    /// Give a server the names in debug files or programs; what it has stored of them is named too
    Add(SymbolsAddArgs),
    /// List programs with the rank of their names, why they have no better ones, and the remedy
    List(SymbolsListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SymbolsAddArgs {
    /// Debug files, programs and libraries before they were stripped, a kernel's vmlinux, or files of its modules (.ko, packed or not)
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Do not read the lines of the source
    #[arg(long)]
    pub(crate) no_lines: bool,
}

/// What the columns mean, for `--help`.
const ABOUT: &str = "\
Names, from the best to none:
  dwarf    names, with file and line of the source
  debug    names of a separate debug file
  symtab   names of the program's own table of symbols, or of kallsyms
  dynsym   names of exported functions only
  none     no names; functions are told apart by their starts where those are known
`nameless` are samples of the time range that have no function name.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct SymbolsListArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Start of the time range samples are counted in: -15m, -2h, 2026-11-29T10:00:00Z or Unix nanoseconds [default: one hour ago]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<String>,
    /// Only what lacks names
    #[arg(long)]
    pub(crate) missing: bool,
    /// Rows at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u32,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}
