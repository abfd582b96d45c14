//! Why a file was not imported.

use std::io;
use std::path::{Path, PathBuf};

use memwide_perf_abi::file::{Cut, FileError};

use crate::uplink::UplinkError;

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
        source: io::Error,
    },
    /// The file is no perf.data file, or a broken one.
    #[error("{} cannot be imported", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: FileError,
    },
    /// The file ends before its data does.
    #[error(
        "{}: {cut}; {records} records come before that: copy it again, or take what is there with --allow-cut",
        path.display()
    )]
    Cut {
        /// The file.
        path: PathBuf,
        /// Where and in what it ends.
        cut: Cut,
        /// Records before that.
        records: u64,
    },
    /// There is no event in it.
    #[error("{} describes no event: nothing in it can be placed; record it again", path.display())]
    NoEvents {
        /// The file.
        path: PathBuf,
    },
    /// The batches could not be delivered.
    #[error("cannot deliver {}", path.display())]
    Uplink {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: UplinkError,
    },
    /// Stopped before everything was committed.
    #[error("stopped after {acked} of {batches} batches; the same command goes on from there")]
    Stopped {
        /// Batches committed.
        acked: u64,
        /// Batches in all.
        batches: u64,
    },
}

impl ImportError {
    pub(super) fn unreadable(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Unreadable {
            path: path.clone(),
            source,
        }
    }

    pub(super) fn malformed(path: &Path) -> impl Fn(FileError) -> Self {
        let path = path.to_owned();
        move |source| match source {
            FileError::Io(source) => Self::Unreadable {
                path: path.clone(),
                source,
            },
            source => Self::Malformed {
                path: path.clone(),
                source,
            },
        }
    }

    /// Whether the input is to blame (exit code 65), not the machine or the pipeline.
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Malformed { .. } | Self::Cut { .. } | Self::NoEvents { .. }
        )
    }
}
