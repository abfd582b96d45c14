//! ClickHouse's Native format.

/// What is wrong with a Native block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// It ends too early.
    #[error("the block ends at byte {0}, in the middle of a column")]
    Truncated(usize),
}
