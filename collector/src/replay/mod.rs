//! A perf.data file as a host.

use std::path::{Path, PathBuf};

use memwide_model::Source;
use memwide_service::CancellationToken;

/// How a file becomes a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Name of the host in answers; default: the file's host name, else the file's name.
    pub host: Option<String>,
    /// Import again what was imported before: any value not used yet makes a new source.
    pub again: Option<u64>,
    /// Wall time of the first sample, nanoseconds since 1970; default: the file's clock data, else so that the last record
    /// is at the file's modification time.
    pub at_wall_ns: Option<u64>,
    /// Folder under which the recorded paths are looked for, as perf's `--symfs`.
    pub symfs: Option<PathBuf>,
    /// A text of `/proc/kallsyms` of the recorded kernel.
    pub kallsyms: Option<PathBuf>,
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
    /// Samples that could not be placed in any event; they are not sent.
    pub skipped_samples: u64,
    /// Samples the recorder lost, as the file says.
    pub lost: u64,
    /// Wall time of the first and last record, nanoseconds since 1970.
    pub wall_ns: (u64, u64),
}

/// How far an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportProgress {
    /// Batches committed.
    pub acked: u64,
    /// Batches in all.
    pub batches: u64,
}

/// Why a file was not imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file cannot be opened or read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is no perf.data file, or a broken one: bad input.
    #[error("{} is not a whole perf.data file", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The batches could not be delivered.
    #[error("cannot deliver {}", path.display())]
    Uplink {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: crate::uplink::UplinkError,
    },
    /// Stopped before everything was committed; the same import goes on where it was.
    #[error("stopped after {acked} of {batches} batches; the same command goes on from there")]
    Stopped {
        /// Batches committed.
        acked: u64,
        /// Batches in all.
        batches: u64,
    },
}

impl ImportError {
    /// Whether the input is to blame (exit code 65), not the machine or the pipeline.
    pub fn is_bad_input(&self) -> bool {
        matches!(self, Self::Malformed { .. })
    }
}

/// A file ready to be sent.
#[derive(Debug)]
pub struct Import {
    path: PathBuf,
}

impl Import {
    /// Reads the file once: its events, counts, times, the number of batches.
    pub fn open(path: &Path, _options: ImportOptions) -> Result<Self, ImportError> {
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Sends it to the decoder at `endpoint` and waits until all of it is committed.
    pub async fn run(
        self,
        _endpoint: &str,
        _progress: impl Fn(ImportProgress) + Send + Sync + 'static,
        _stop: CancellationToken,
    ) -> Result<ImportSummary, ImportError> {
        Err(ImportError::Unreadable {
            path: self.path,
            source: std::io::Error::other("not implemented"),
        })
    }
}
