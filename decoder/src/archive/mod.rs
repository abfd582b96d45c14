//! Raw batches kept in files, so that whole days can be decoded again (`docs/archive.md`).
//!
//! ```text
//! DIR/2026-11-30/HOST-SOURCE/RANDOM.mwa      one file a stream, source and day; only its writer ever writes to it
//! ```
//!
//! With a bucket files go up when they are full or old, under the same names, and are removed here (`upload`).
//!
//! The format ([`frame`]) says of each entry whether it is whole, with or without the key. What is damaged is named with its
//! place and never guessed. Rows are no concern of this module: see `service/redecode.rs`.

mod day;
mod error;
mod files;
mod frame;
mod key;
mod place;
mod read;
mod source;
#[cfg(test)]
mod tests;
mod upload;
mod write;

pub use day::Day;
pub use error::ArchiveError;
pub use frame::Kind;
pub use key::Key;
pub use place::{Kept, Place};
pub use read::{Checked, check};
pub use source::{Held, held};

pub(crate) use source::{Entry, Plan};
pub(crate) use upload::UploadError;
pub(crate) use write::{Archive, Up, Writer};

/// End of the name of an archive's file.
const EXTENSION: &str = "mwa";

/// What the name of an object has before that end if symbol tables are in it: days behind its own need only those.
const TABLES: &str = ".tables";
