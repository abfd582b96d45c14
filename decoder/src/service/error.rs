//! Why the process ends badly.

use memwide_service::run::RunError;
use std::path::PathBuf;

/// Why the decoder cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration makes no sense.
    #[error("configuration: {0}")]
    Config(String),
    /// The place of symbol tables cannot be used.
    #[error(
        "cannot use {} for symbol tables; set symbol_dir to a writable folder, or to s3://BUCKET/START with the AWS_ variables that reach it",
        folder.display()
    )]
    SymbolDir {
        /// The folder, or the URL.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The archive of raw batches cannot be used.
    #[error(
        "cannot use the archive; set archive_dir to a writable folder, archive_key_file to its key and archive_url, if any, to s3://BUCKET/START"
    )]
    Archive(#[from] crate::archive::ArchiveError),
    /// The gRPC server failed.
    #[error("gRPC server failed")]
    Serve(#[source] tonic::transport::Error),
    /// A task failed.
    #[error(transparent)]
    Run(#[from] RunError),
}
