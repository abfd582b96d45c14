//! Records in the order perf processes them.
//!
//! A file holds the rings of all CPUs one after another, round by round. At the end of each round
//! perf writes FINISHED_ROUND; what round n + 1 holds is never older than what round n − 1 ended
//! with. So at a FINISHED_ROUND everything up to the newest time of the round *before* is final:
//!
//! ```text
//!  cpu 0: 1 3 5 | 6 8   | 10 …
//!  cpu 1: 2 4 7 | 9     | 11 …
//!               ↑ nothing is final; the newest time is 7
//!                       ↑ up to 7 is final; the newest time is 9
//! ```
//!
//! Records without time, with time 0 or the greatest time are handed on at once, before anything
//! queued.

use std::io::{Read, Seek};
use std::sync::Arc;

use super::spe::Merge;
use super::{Cut, EventTable, FileError, FileRecord, FileRecords, SpeCounts};
use crate::{RawRecord, kind};

/// Bytes of records that wait to be sorted, at most. A file without rounds waits whole; when it is
/// longer, the older half is handed on and later records that should have come before are out of
/// order, as [`SortedRecords::early_flushes`] tells.
pub const QUEUE_BYTES: usize = 512 * 1024 * 1024;

/// Bytes kept for the next round's records, at most.
const SPARE_BYTES: usize = 16 << 20;

#[derive(Debug, Clone, Copy)]
struct Queued {
    time: u64,
    offset: u64,
    event: Option<usize>,
    /// Where the record lies in the arena.
    at: usize,
    len: usize,
}

/// Lends the records of a file in perf's order.
#[derive(Debug)]
pub struct SortedRecords<'f, R> {
    records: FileRecords<'f, R>,
    events: Arc<EventTable>,
    /// Waiting records; sorted by time up to `ready`.
    queue: Vec<Queued>,
    arena: Vec<u8>,
    /// The arena before, to be used again.
    spare: Vec<u8>,
    /// Entries of the queue handed on already.
    handed: usize,
    /// Entries that may be handed on.
    ready: usize,
    /// Newest time of the round before.
    final_until: u64,
    newest: u64,
    limit: usize,
    early_flushes: u64,
    failure: Option<FileError>,
    ended: bool,
    /// Makes samples of SPE data.
    spe: Option<Merge>,
    /// What is next, while made samples go before it.
    pending: Option<Step>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Queued(Queued),
    Unsorted { offset: u64, event: Option<usize> },
    End,
}

impl<'f, R: Read + Seek> SortedRecords<'f, R> {
    pub(crate) fn new(records: FileRecords<'f, R>) -> Self {
        Self {
            events: Arc::clone(records.events()),
            records,
            queue: Vec::new(),
            arena: Vec::new(),
            spare: Vec::new(),
            handed: 0,
            ready: 0,
            final_until: 0,
            newest: 0,
            limit: QUEUE_BYTES,
            early_flushes: 0,
            failure: None,
            ended: false,
            spe: None,
            pending: None,
        }
    }

    pub(crate) fn with_spe(mut self, spe: Option<Merge>) -> Self {
        self.spe = spe;
        self
    }

    /// What was made of SPE data, if the file has any; complete once [`SortedRecords::next`] has said `None`.
    pub fn spe(&self) -> Option<SpeCounts> {
        self.spe.as_ref().map(Merge::counts)
    }

    /// Lets at most `bytes` of records wait instead of [`QUEUE_BYTES`].
    #[must_use]
    pub fn with_queue_bytes(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Where the file ends too early; known once [`SortedRecords::next`] has said `None`.
    pub fn cut(&self) -> Option<Cut> {
        self.records.cut()
    }

    /// Records of simpleperf's own that were passed over so far.
    pub fn skipped(&self) -> u64 {
        self.records.skipped()
    }

    /// How often the queue was full and its older half was handed on before its time.
    pub fn early_flushes(&self) -> u64 {
        self.early_flushes
    }

    /// The next record; `None` at the end. FINISHED_ROUND records are used up. An error of the file
    /// comes after all that was whole before it.
    #[expect(clippy::should_implement_trait, reason = "it lends")]
    pub fn next(&mut self) -> Result<Option<FileRecord<'_>>, FileError> {
        let step = self.pending.take().unwrap_or_else(|| self.advance());
        if self.make_before(&step)? {
            self.pending = Some(step);
            return self.lend_made();
        }
        let (offset, event, bytes) = match step {
            Step::Queued(entry) => {
                let end = entry.at.saturating_add(entry.len);
                (
                    entry.offset,
                    entry.event,
                    self.arena.get(entry.at..end).unwrap_or_default(),
                )
            }
            Step::Unsorted { offset, event } => (offset, event, self.records.lent()),
            Step::End => return self.failure.take().map_or(Ok(None), Err),
        };
        let record =
            RawRecord::new(bytes).map_err(|source| FileError::Record { offset, source })?;
        if let Some(spe) = &mut self.spe {
            spe.note(&record, event);
        }
        Ok(Some(FileRecord {
            offset,
            record,
            event,
        }))
    }

    /// Makes a sample that comes before `step`.
    #[inline]
    fn make_before(&mut self, step: &Step) -> Result<bool, FileError> {
        let Some(spe) = &mut self.spe else {
            return Ok(false);
        };
        let until = match step {
            Step::Queued(entry) => Some(entry.time),
            Step::Unsorted { .. } => return Ok(false),
            Step::End => None,
        };
        let records = &mut self.records;
        Ok(spe.make(until, |at, out| records.read_elsewhere(at, out))?)
    }

    fn lend_made(&self) -> Result<Option<FileRecord<'_>>, FileError> {
        let Some(spe) = &self.spe else {
            return Ok(None);
        };
        let (bytes, offset) = spe.made();
        let record =
            RawRecord::new(bytes).map_err(|source| FileError::Record { offset, source })?;
        Ok(Some(FileRecord {
            offset,
            record,
            event: Some(spe.event()),
        }))
    }

    fn advance(&mut self) -> Step {
        loop {
            if self.handed < self.ready {
                if let Some(entry) = self.queue.get(self.handed) {
                    self.handed += 1;
                    return Step::Queued(*entry);
                }
                self.ready = self.handed;
            }
            if self.ended {
                return Step::End;
            }
            if self.handed > 0 {
                self.forget_handed();
            }
            if let Some(step) = self.take_one() {
                return step;
            }
        }
    }

    /// Reads one record: queues it or says that it is to be handed on at once.
    fn take_one(&mut self) -> Option<Step> {
        let item = match self.records.next() {
            Ok(Some(item)) => item,
            Ok(None) => {
                self.finish();
                return None;
            }
            Err(wrong) => {
                self.failure = Some(wrong);
                self.finish();
                return None;
            }
        };
        let FileRecord {
            offset,
            record,
            event,
        } = item;
        if record.kind == kind::FINISHED_ROUND {
            self.sort(self.final_until);
            self.final_until = self.newest;
            return None;
        }
        match self.events.time_of(event, &record) {
            None | Some(0 | u64::MAX) => Some(Step::Unsorted { offset, event }),
            Some(time) => {
                self.queue.push(Queued {
                    time,
                    offset,
                    event,
                    at: self.arena.len(),
                    len: record.size(),
                });
                self.arena.extend_from_slice(record.bytes());
                self.newest = self.newest.max(time);
                if self.arena.len() > self.limit {
                    self.flush_half();
                }
                None
            }
        }
    }

    fn finish(&mut self) {
        self.ended = true;
        self.sort(u64::MAX);
    }

    fn flush_half(&mut self) {
        let oldest = self
            .queue
            .iter()
            .map(|entry| entry.time)
            .min()
            .unwrap_or_default();
        self.early_flushes += 1;
        self.sort(oldest + self.newest.saturating_sub(oldest) / 2);
    }

    /// Sorts the queue and makes everything up to `time` ready. Records of the same time stay in
    /// the order of the file.
    fn sort(&mut self, time: u64) {
        self.queue.sort_by_key(|entry| entry.time);
        self.ready = self.queue.partition_point(|entry| entry.time <= time);
    }

    /// Drops what was handed on and moves the rest together.
    fn forget_handed(&mut self) {
        self.queue.drain(..self.handed);
        (self.handed, self.ready) = (0, 0);
        self.spare.clear();
        for entry in &mut self.queue {
            let end = entry.at.saturating_add(entry.len);
            let record = self.arena.get(entry.at..end).unwrap_or_default();
            entry.at = self.spare.len();
            self.spare.extend_from_slice(record);
        }
        std::mem::swap(&mut self.arena, &mut self.spare);
        if self.spare.capacity() > SPARE_BYTES {
            self.spare = Vec::new();
        }
    }
}
