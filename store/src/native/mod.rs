//! ClickHouse's Native format, as HTTP and insert streams take it (revision 0), little-endian throughout:
//!
//! ```text
//! block   = varint columns, varint rows, column*
//! column  = string name, string type, data        (no data if there are no rows)
//! string  = varint length, bytes
//! data    = fixed width   rows × width bytes
//!           String        rows strings
//!           Array(T)      rows × u64 (end offset of each row), then data of T
//!           LowCardinality(String)
//!                         u64 1 (version), u64 index width | 1 << 9, u64 keys, key strings, u64 rows, indexes
//! ```
//!
//! Blocks put one behind the other are a valid body. [`walk`] reads what a block is made of without decoding values,
//! [`append_constants`] gives every row the same further values.

mod column;
mod revise;
mod walk;

pub use column::{
    ArrayOfStrings, ArrayOfU64, Code, Column, Named, NamedCodes, Seconds, Strings, TimeNs,
    write_block,
};
pub use revise::revised;
pub use walk::{BlockView, ColumnView, Constant, append_constants, names, walk};

/// What is wrong with a Native block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// It ends too early.
    #[error("the block ends within {0}")]
    Truncated(&'static str),
    /// A name or a type is not text.
    #[error("a column's name or type is not UTF-8")]
    NotText,
    /// A column has a type that is not written here.
    #[error("column `{name}` has type `{kind}`, which is not known here")]
    UnknownType {
        /// The column.
        name: String,
        /// Its type.
        kind: String,
    },
    /// A column contradicts itself.
    #[error("column `{name}`: {why}")]
    Damaged {
        /// The column.
        name: String,
        /// What does not fit.
        why: &'static str,
    },
    /// Something follows the block.
    #[error("{0} bytes follow the block's last column")]
    Trailing(usize),
}
