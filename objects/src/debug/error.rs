//! Why there is no source line.

use std::borrow::Cow;

/// Why debug information tells nothing, or not all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DebugError {
    /// The file has none.
    #[error("no debug information; build with -g, or install the package with the debug symbols")]
    None,

    /// Not an ELF file, or its table of sections cannot be read.
    #[error("the sections of the {len} byte file cannot be read")]
    Sections {
        /// Bytes of the file.
        len: u64,
    },

    /// A compressed section that does not decompress, or to another size than it says.
    #[error("section {name} cannot be decompressed")]
    Compressed {
        /// Its name.
        name: &'static str,
    },

    /// More debug information than is read.
    #[error("{bytes} bytes of debug information, at most {limit} are read")]
    TooLarge {
        /// Bytes the file announces.
        bytes: u64,
        /// Most that are read.
        limit: u64,
    },

    /// It refers to itself so often that reading it would take for ever.
    #[error(
        "{bytes} bytes of debug information that ask for more work than a real file of that size; given up"
    )]
    Effort {
        /// Bytes of debug information.
        bytes: usize,
    },

    /// It does not follow the standard.
    #[error("malformed debug information: {what}")]
    Malformed {
        /// What is wrong.
        what: Cow<'static, str>,
    },

    /// Reading the file failed.
    #[error("the file cannot be read: {kind}")]
    Unreadable {
        /// What the system says.
        kind: std::io::ErrorKind,
    },
}

impl From<gimli::Error> for DebugError {
    fn from(error: gimli::Error) -> Self {
        Self::Malformed {
            what: error.to_string().into(),
        }
    }
}

/// What does not follow the standard.
pub(super) fn malformed(what: &'static str) -> DebugError {
    DebugError::Malformed { what: what.into() }
}
