//! Arguments of `memwide archive` and `memwide redecode`.

use super::Format;
use clap::{Args, Subcommand};
use memwide_decoder::archive::Day;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// List the days of an archive
    Ls(ArchiveArgs),
    /// Read every byte of an archive and say what is damaged
    Verify(ArchiveVerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    /// Folder of the archive (`archive_dir` of the decoders; of `memwide up` the folder `archive` of its data folder), or
    /// `s3://BUCKET/START` (their `archive_url`, reached by the AWS_ variables of the environment)
    #[arg(value_name = "DIR|URL")]
    pub(crate) place: PathBuf,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveVerifyArgs {
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Only this day (UTC), repeatable
    #[arg(long = "day", value_name = "YYYY-MM-DD")]
    pub(crate) days: Vec<Day>,
    /// File with the key of an encrypted archive; without it only checksums are compared
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

/// What it does to the store, for `--help`.
const ABOUT: &str = "\
Reads the raw batches of whole days from the archive, decodes them with the symbols and the taxonomy of now, and
replaces the rows of these days. Totals by host and minute stay as they are: a day of which they would differ, of
which batches are missing, or whose hours are not closed yet is left as it is, with the reason. Sinks wait for
seconds meanwhile. It can be ended at any moment and run again.

With --data it works on the folder of a `memwide up` that does not run. With --config (TOML) on a deployment:
  store = \"http://USER:PASSWORD@HOST:8123/memwide\"   as the sinks have it
  symbol_dir = \"/shared/symbols\"                     as the decoders have it
  archive_dir = \"/shared/archive\"                    as the decoders have it, or
  archive_url = \"s3://BUCKET/START\"                  with the AWS_ variables of the decoders
  archive_key_file = \"/etc/memwide/archive.key\"      if it is encrypted
  [nats]
  url = \"nats://HOST:4222\"                           as the sinks have it";

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct RedecodeArgs {
    /// Day (UTC), repeatable
    #[arg(long = "day", value_name = "YYYY-MM-DD", required = true)]
    pub(crate) days: Vec<Day>,
    /// Data folder of a `memwide up` that does not run now
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "config",
        conflicts_with = "config"
    )]
    pub(crate) data: Option<PathBuf>,
    /// Configuration file of a deployment (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// File with the key of an encrypted archive
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Decode and compare in a database beside, change nothing in the store
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Replace a day although more of its samples would have no name than have none now
    #[arg(long)]
    pub(crate) lose_names: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}
