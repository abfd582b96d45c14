//! How much one file may make us keep.

/// Bounds of what is taken from one file or one message.
///
/// Above a bound of a file the rest is left out and a [`crate::Gap`] says so; a message from the
/// wire that exceeds one is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most symbols kept of one file, all kinds together.
    pub symbols: usize,
    /// Most bytes of names kept of one file; at most 4 GiB − 1. Of an ELF file never more than eight times its size: symbols
    /// that share a name are no reason to fill memory.
    pub name_bytes: usize,
    /// Longest name kept whole; longer ones are cut at a character's end, in bytes.
    pub name_len: usize,
    /// Most bytes a received table may decompress to.
    pub decoded_bytes: usize,
    /// Most loadable segments kept of one file.
    pub segments: usize,
}

impl Default for Limits {
    /// Room for the largest real programs (browsers have about a million symbols and 200 MB of
    /// names), small enough for a node.
    fn default() -> Self {
        Self {
            symbols: 8_000_000,
            name_bytes: 768 << 20,
            name_len: 64 << 10,
            decoded_bytes: 1 << 30,
            segments: 4_096,
        }
    }
}
