//! What can be wrong with a perf.data file.

use crate::{AttrError, RecordError};

/// Why a perf.data file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file could not be read, written or positioned.
    #[error("perf.data could not be read or written")]
    Io(#[from] std::io::Error),

    /// There is nothing in the file.
    #[error("the file is empty; was perf record stopped before it wrote anything?")]
    Empty,

    /// The first bytes are not those of perf.data.
    #[error("not a perf.data file: it starts with {start:02x?} instead of PERFILE2")]
    NotPerfData {
        /// The first bytes, at most 8.
        start: Vec<u8>,
    },

    /// The file ends inside its header.
    #[error("the file has {have} bytes, its header needs {need}; record it again")]
    HeaderCut {
        /// Bytes needed.
        need: u64,
        /// Bytes there.
        have: u64,
    },

    /// A size in the file header makes no sense.
    #[error("{what} in the file header is {value}, which cannot be; the file is damaged")]
    Header {
        /// Which field.
        what: &'static str,
        /// Its value.
        value: u64,
    },

    /// A section of the header lies outside the file.
    #[error("{what} should be {size} bytes at {offset}, but the file has {file_len} bytes")]
    Section {
        /// Which section.
        what: &'static str,
        /// Where it should start.
        offset: u64,
        /// Its size, in bytes.
        size: u64,
        /// Size of the file, in bytes.
        file_len: u64,
    },

    /// More than the reader takes: a bound against damaged files.
    #[error("{what}: {count} are more than the {limit} this reader takes")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// How many are taken.
        limit: u64,
    },

    /// An event's attr is too short.
    #[error("event {index} of the file is unreadable")]
    Attr {
        /// Index in the file.
        index: usize,
        /// Why.
        #[source]
        source: AttrError,
    },

    /// A record breaks the framing, so nothing after it can be trusted.
    #[error("record at byte {offset} of the file is malformed")]
    Record {
        /// Where its header starts in the file.
        offset: u64,
        /// Why.
        #[source]
        source: RecordError,
    },

    /// Compressed records do not decompress.
    #[error("compressed record at byte {offset} of the file does not decompress: {reason}")]
    Inflate {
        /// Where the compressed record starts in the file.
        offset: u64,
        /// What zstd says.
        reason: String,
    },

    /// Compressed records become more than the reader takes.
    #[error("compressed record at byte {offset} of the file becomes more than {limit} bytes")]
    InflateTooLarge {
        /// Where the compressed record starts in the file.
        offset: u64,
        /// How many bytes one record may become.
        limit: u64,
    },

    /// A record could not be written.
    #[error("a record could not be encoded")]
    Encode(#[from] crate::EncodeError),
}
