//! Rows of one table, cut by day and into blocks that fit a message.

use std::collections::BTreeMap;

use memwide_store::rows::{NativeBlock, TableRows};

/// Rows of a block are cut here, in bytes before compression: whatever their content, the message stays below
/// `limits::STREAM_MESSAGE_BYTES`.
const CHUNK_BYTES: usize = 576 << 10;

/// Longest text that goes into a row, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 4 << 10;

/// At most [`TEXT_BYTES_MAX`] of `text`.
pub(super) fn short(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[derive(Debug, Default)]
struct Open<T> {
    rows: T,
    bytes: usize,
}

/// Gathers rows of one table.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    open: BTreeMap<u16, Open<T>>,
    closed: Vec<NativeBlock>,
    bytes: u64,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            closed: Vec::new(),
            bytes: 0,
        }
    }
}

impl<T: TableRows> Chunks<T> {
    /// The builder for a row of `day` that takes about `bytes`.
    pub(super) fn room(&mut self, day: u16, bytes: usize) -> &mut T {
        self.bytes += bytes as u64;
        let open = self.open.entry(day).or_default();
        if open.bytes + bytes > CHUNK_BYTES && open.bytes > 0 {
            self.closed.extend(std::mem::take(open).rows.finish());
        }
        open.bytes += bytes;
        &mut open.rows
    }

    /// Bytes of all rows, about.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages the rows will take.
    pub(super) fn messages(&self) -> u64 {
        (self.closed.len() + self.open.len()) as u64
    }

    /// All blocks.
    pub(super) fn finish(self) -> impl Iterator<Item = NativeBlock> {
        self.closed
            .into_iter()
            .chain(self.open.into_values().flat_map(|open| open.rows.finish()))
    }
}
