//! What an import is told and tells.

use std::path::PathBuf;

use memwide_model::Source;
use memwide_perf_abi::file::Cut;

/// How a file becomes a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Name of the host in answers; default: the file's host name, else the file's name.
    pub host: Option<String>,
    /// Import again what was imported before: any value not used yet makes a new source.
    pub again: Option<u64>,
    /// Wall time of the first record, nanoseconds since 1970; default: the file's clock data, else so that the last record
    /// is at the file's modification time.
    pub at_wall_ns: Option<u64>,
    /// Take what is whole of a file that ends too early. Without it such a file is refused.
    pub allow_cut: bool,
    /// Folder under which the recorded paths are looked for, as perf's `--symfs`.
    pub symfs: Option<PathBuf>,
    /// A text of `/proc/kallsyms` of the recorded kernel.
    pub kallsyms: Option<PathBuf>,
    /// The ELF file of the recorded kernel.
    pub vmlinux: Option<PathBuf>,
}

/// Samples of one event of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedEvent {
    /// As perf names it.
    pub name: String,
    /// Samples in the file.
    pub samples: u64,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSummary {
    /// What it is called in the store.
    pub source: Source,
    /// Host name in answers.
    pub host: String,
    /// By event, in the file's order.
    pub events: Vec<ImportedEvent>,
    /// Batches, all of them committed.
    pub batches: u64,
    /// Of these, how many the pipeline had before.
    pub batches_known: u64,
    /// Samples that belong to no event of the file: they are sent as a count, undecodable.
    pub skipped_samples: u64,
    /// Operations in hardware trace that cannot be read, at least; sent as a count, undecodable.
    pub broken: u64,
    /// Samples the recorder lost, as the file says.
    pub lost: u64,
    /// Wall time of the first and last record, nanoseconds since 1970.
    pub wall_ns: (u64, u64),
    /// Where the file ends too early, in its records (then `allow_cut` was given) or in its header features.
    pub cut: Option<Cut>,
    /// The file was never finished: its recorder was killed.
    pub unfinished: bool,
    /// Records in the file, up to its end or cut.
    pub records: u64,
}

/// How far an import is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportProgress {
    /// Batches committed.
    pub acked: u64,
    /// Batches in all.
    pub batches: u64,
    /// Why nothing can be sent at the moment; it is tried again.
    pub waits: Option<String>,
}
