//! What a partition has applied, what it has committed, and when it flushes. Pure: times come as arguments.
//!
//! ```text
//!   offer ──▶ applied ──begin_flush──▶ in flight ──committed──▶ committed
//!     │          │                         │
//!     │          └──────── reload (fenced): back to what the cursor says, the rest is offered again
//!     └─ duplicate, ahead, expired
//! ```

use std::collections::BTreeMap;

use memwide_model::Source;
use memwide_proto::{SCHEMA_VERSION, v1};

/// Nanoseconds of a day.
pub(crate) const DAY_NS: u64 = 86_400 * 1_000_000_000;

/// A source that was silent for so long leaves the cursor.
pub(crate) const SILENT_NS: u64 = 7 * DAY_NS;

/// `SourceCursor::last_wall_ns` of a source that never leaves: an import comes again with the same identity.
pub(crate) const NEVER_SILENT: u64 = u64::MAX - 1;

/// Lowest bit of `SourceCursor::last_wall_ns`: everything this source has sent since it came back was expired.
const EXPIRED_BIT: u64 = 1;

/// Sources a partition remembers; their cursor must fit one message (about 70 bytes each).
pub(crate) const SOURCES_MAX: usize = 8_000;

/// Messages a flush may be estimated at before it must go out: with one more batch it stays below
/// `limits::STREAM_BATCH_MESSAGES_MAX`.
const FLUSH_MESSAGES: u64 = 400;

/// Bounds of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Age of the oldest unflushed batch at which a flush is due, in nanoseconds.
    pub flush_after_ns: u64,
    /// Built bytes at which a flush is due at once.
    pub flush_bytes: u64,
    /// Built bytes at which nothing more is taken.
    pub pending_bytes_max: u64,
}

/// What to do with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is the next one: build its rows, then call [`Partition::grew`].
    Apply,
    /// Counted as applied, but its rows must not be built: it may have been committed long ago.
    Expired,
    /// Applied before; batches up to `committed` are in the stream.
    Duplicate {
        /// Last batch committed.
        committed: u64,
    },
    /// Batch `next` is due.
    Ahead {
        /// The batch wanted.
        next: u64,
    },
}

/// A batch as far as its place in the order is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Offered {
    /// Its number, from 1.
    pub number: u64,
    /// When the collector closed it, by the wall clock.
    pub closed_wall_ns: u64,
    /// It comes from an imported file: its source comes again whenever the file does.
    pub import: bool,
    /// Its sender was already asked for an earlier one and has none.
    pub has_no_earlier: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    applied: u64,
    committed: u64,
    last_wall_ns: u64,
    /// Opened, nothing applied yet, or only expired batches.
    unknown: bool,
}

/// A flush that has been taken out and is not answered yet.
#[derive(Debug, Clone, PartialEq)]
pub struct FlushHead {
    /// Content of the cursor message.
    pub cursor: v1::Cursor,
    /// Stream sequence the cursor's subject must be at.
    pub expected: u64,
}

/// What the stream's cursor says of a flush whose commit was not answered, or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// It is in the stream.
    Committed,
    /// It is not, and the cursor is still the one before: it may be sent once more.
    Again,
    /// Another publisher has moved the cursor.
    Fenced,
}

impl FlushHead {
    /// Judges by the cursor found at stream sequence `sequence` (0: there is none), as its leader says.
    pub fn judge(&self, found: Option<&v1::Cursor>, sequence: u64) -> Judged {
        let wanted = (self.cursor.publisher, self.cursor.flush);
        if found.is_some_and(|cursor| (cursor.publisher, cursor.flush) == wanted) {
            Judged::Committed
        } else if sequence == self.expected {
            Judged::Again
        } else {
            Judged::Fenced
        }
    }
}

/// One partition's state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Partition {
    limits: Limits,
    publisher: u64,
    flush: u64,
    expected: u64,
    sources: BTreeMap<Source, State>,
    pending_bytes: u64,
    pending_messages: u64,
    oldest_ns: Option<u64>,
    in_flight: bool,
}

impl Partition {
    /// Knows nothing until the first [`Partition::reload`].
    pub fn new(limits: Limits, publisher: u64) -> Self {
        Self {
            limits,
            publisher,
            flush: 0,
            expected: 0,
            sources: BTreeMap::new(),
            pending_bytes: 0,
            pending_messages: 0,
            oldest_ns: None,
            in_flight: false,
        }
    }

    /// Forgets everything and takes what the cursor at stream sequence `sequence` (0: there is none) says. Whoever
    /// calls this drops the rows built since, and tells every stream where to resume.
    pub fn reload(&mut self, cursor: Option<&v1::Cursor>, sequence: u64) {
        self.sources.clear();
        for entry in cursor.map_or(&[][..], |cursor| &cursor.sources) {
            let Some(Ok(source)) = entry.source.as_ref().map(Source::try_from) else {
                continue;
            };
            let state = State {
                applied: entry.through,
                committed: entry.through,
                last_wall_ns: entry.last_wall_ns & !EXPIRED_BIT,
                unknown: entry.last_wall_ns & EXPIRED_BIT != 0,
            };
            self.sources.insert(source, state);
        }
        self.expected = sequence;
        self.pending_bytes = 0;
        self.pending_messages = 0;
        self.oldest_ns = None;
        self.in_flight = false;
    }

    /// A stream of `source` begins: the batch it must send next. `None`: no room for another source.
    pub fn open(&mut self, source: Source) -> Option<u64> {
        if !self.sources.contains_key(&source) && self.sources.len() >= SOURCES_MAX {
            return None;
        }
        let fresh = State {
            applied: 0,
            committed: 0,
            last_wall_ns: 0,
            unknown: true,
        };
        Some(self.sources.entry(source).or_insert(fresh).applied + 1)
    }

    /// Last batch of `source` in the stream; 0: none.
    pub fn committed_of(&self, source: &Source) -> u64 {
        self.sources.get(source).map_or(0, |state| state.committed)
    }

    /// The last stream of `source` ended.
    pub fn close(&mut self, source: &Source) {
        if self
            .sources
            .get(source)
            .is_some_and(|state| state.applied == 0)
        {
            self.sources.remove(source);
        }
    }

    /// Decides about a batch; after `Apply` and `Expired` it counts as applied.
    pub fn offer(&mut self, source: &Source, batch: Offered, wall_ns: u64, now_ns: u64) -> Verdict {
        let Some(state) = self.sources.get_mut(source) else {
            return Verdict::Ahead { next: 1 };
        };
        let next = state.applied + 1;
        if batch.number < next {
            return Verdict::Duplicate {
                committed: state.committed,
            };
        }
        // A source that is not in the cursor either never was, or has left it. Its collector then holds no batch 1
        // any more; what it holds is taken, unless it is so old that the cursor may have covered it once.
        let stale = batch.closed_wall_ns.saturating_add(SILENT_NS) < wall_ns;
        if batch.number > next && !(state.unknown && batch.has_no_earlier) {
            return Verdict::Ahead { next };
        }
        let expired = state.unknown && stale && !batch.import;
        state.applied = batch.number;
        let import = batch.import || (state.last_wall_ns == NEVER_SILENT && !state.unknown);
        state.last_wall_ns = if import {
            NEVER_SILENT
        } else {
            wall_ns & !EXPIRED_BIT
        };
        // An expired source stays unknown, so that its other old batches expire too.
        state.unknown = expired;
        self.oldest_ns.get_or_insert(now_ns);
        if expired {
            Verdict::Expired
        } else {
            Verdict::Apply
        }
    }

    /// The rows built and not taken out for a flush are so large now.
    pub fn grew(&mut self, pending_bytes: u64, pending_messages: u64) {
        self.pending_bytes = pending_bytes;
        self.pending_messages = pending_messages;
    }

    /// Nothing more may be offered until a flush has been taken out.
    pub fn full(&self) -> bool {
        self.pending_bytes >= self.limits.pending_bytes_max
            || self.pending_messages >= FLUSH_MESSAGES
    }

    /// When to call [`Partition::begin_flush`]; `None`: nothing to flush, or a flush is under way.
    pub fn flush_due_ns(&self) -> Option<u64> {
        let oldest = self.oldest_ns.filter(|_| !self.in_flight)?;
        let early = self.pending_bytes >= self.limits.flush_bytes || self.full();
        Some(if early {
            oldest
        } else {
            oldest.saturating_add(self.limits.flush_after_ns)
        })
    }

    /// Takes out everything applied. The caller takes the built rows at the same moment.
    pub fn begin_flush(&mut self, wall_ns: u64) -> Option<FlushHead> {
        if self.in_flight || self.oldest_ns.is_none() {
            return None;
        }
        self.flush += 1;
        self.in_flight = true;
        self.oldest_ns = None;
        self.pending_bytes = 0;
        self.pending_messages = 0;
        let silent = |state: &State| {
            state.last_wall_ns != NEVER_SILENT
                && state.last_wall_ns.saturating_add(SILENT_NS) < wall_ns
        };
        self.sources
            .retain(|_, state| state.applied == 0 || !silent(state));
        let sources = self.sources.iter().filter(|(_, state)| state.applied > 0);
        let cursor = v1::Cursor {
            schema_version: SCHEMA_VERSION,
            publisher: self.publisher,
            flush: self.flush,
            sources: sources
                .map(|(source, state)| v1::SourceCursor {
                    source: Some(source.into()),
                    through: state.applied,
                    last_wall_ns: state.last_wall_ns | if state.unknown { EXPIRED_BIT } else { 0 },
                })
                .collect(),
        };
        Some(FlushHead {
            cursor,
            expected: self.expected,
        })
    }

    /// The flush is in the stream, its cursor at `sequence`: the sources and the batches to acknowledge.
    pub fn committed(&mut self, flushed: &v1::Cursor, sequence: u64) -> Vec<(Source, u64)> {
        self.in_flight = false;
        self.expected = sequence;
        let mut advanced = Vec::new();
        for entry in &flushed.sources {
            let Some(Ok(source)) = entry.source.as_ref().map(Source::try_from) else {
                continue;
            };
            let Some(state) = self.sources.get_mut(&source) else {
                continue;
            };
            if state.committed < entry.through {
                state.committed = entry.through;
                advanced.push((source, entry.through));
            }
        }
        advanced
    }
}

#[cfg(test)]
mod tests;
