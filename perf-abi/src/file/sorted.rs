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

use super::deferred::{Deferred, DeferredCounts, Held, Verdict};
use super::parts::PartRecords;
use super::spe::Merge;
use super::{Cut, EventTable, FileError, FileRecord, SpeCounts};
use crate::{RawRecord, Records, kind};

/// Bytes of records that wait to be sorted, at most, with what is kept beside each. A file without rounds waits whole; when it is
/// longer, the older half is handed on and later records that should have come before are out of
/// order, as [`SortedRecords::early_flushes`] tells.
pub const QUEUE_BYTES: usize = 512 * 1024 * 1024;

/// Bytes kept for the next round's records, at most.
const SPARE_BYTES: usize = 16 << 20;

#[derive(Debug, Clone, Copy)]
struct Queued {
    time: u64,
    offset: u64,
    /// Where the record lies in the arena.
    at: usize,
    /// Index of its event; [`NO_EVENT`] for none.
    event: u32,
    len: u16,
    /// Which file of a directory it is of: of records of the same time those of the first file come first.
    part: u16,
}

/// Files have far fewer events.
const NO_EVENT: u32 = u32::MAX;

impl Queued {
    /// For a record that lies `at` in the arena.
    #[inline]
    fn new(
        record: &RawRecord<'_>,
        time: u64,
        offset: u64,
        at: usize,
        event: Option<usize>,
    ) -> Self {
        let event = event.and_then(|event| u32::try_from(event).ok());
        Self {
            time,
            offset,
            at,
            event: event.unwrap_or(NO_EVENT),
            len: u16::try_from(record.size()).unwrap_or(u16::MAX),
            part: 0,
        }
    }

    fn event(self) -> Option<usize> {
        let event = Some(self.event).filter(|event| *event != NO_EVENT)?;
        usize::try_from(event).ok()
    }

    fn bytes(self, arena: &[u8]) -> &[u8] {
        let end = self.at.saturating_add(self.len.into());
        arena.get(self.at..end).unwrap_or_default()
    }
}

/// Lends the records of a file in perf's order.
#[derive(Debug)]
pub struct SortedRecords<'f, R> {
    records: PartRecords<'f, R>,
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
    /// What was handed on before its time was as new as this.
    flushed_until: u64,
    limit: usize,
    early_flushes: u64,
    failure: Option<FileError>,
    ended: bool,
    /// Makes samples of SPE data.
    spe: Option<Merge>,
    /// Puts samples and user frames that came later together.
    deferred: Deferred,
    /// The last sample of those.
    held: Option<Held>,
    /// What is next, while others go before it.
    pending: Option<Step>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Queued(Queued),
    Unsorted {
        offset: u64,
        event: Option<usize>,
    },
    /// A sample made of SPE data.
    Made,
    /// A sample that had waited for its user frames.
    Held,
    End,
}

impl<'f, R: Read + Seek> SortedRecords<'f, R> {
    pub(crate) fn new(records: PartRecords<'f, R>) -> Self {
        Self {
            events: Arc::clone(records.events()),
            deferred: Deferred::new(Arc::clone(records.events())),
            held: None,
            records,
            queue: Vec::new(),
            arena: Vec::new(),
            spare: Vec::new(),
            handed: 0,
            ready: 0,
            final_until: 0,
            newest: 0,
            flushed_until: 0,
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

    /// What became of samples whose user frames came later; complete once [`SortedRecords::next`] has said `None`.
    pub fn deferred(&self) -> DeferredCounts {
        self.deferred.counts()
    }

    /// Lets at most `bytes` of records wait instead of [`QUEUE_BYTES`].
    #[must_use]
    pub fn with_queue_bytes(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self.deferred.limit(bytes);
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

    /// How often the order is uncertain: the queue was full and its older half was handed on before its time. Files of a
    /// directory are read side by side and have no rounds: there, how many records came too late.
    pub fn early_flushes(&self) -> u64 {
        self.early_flushes
    }

    /// The next record; `None` at the end. FINISHED_ROUND records are used up. An error of the file
    /// comes after all that was whole before it.
    #[expect(clippy::should_implement_trait, reason = "it lends")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<FileRecord<'_>>, FileError> {
        // Nearly always: what is queued goes on, and nothing is made, held or noted beside it.
        if self.handed < self.ready
            && self.is_plain()
            && let Some(entry) = self.queue.get(self.handed).copied()
        {
            self.handed += 1;
            let (offset, event) = (entry.offset, entry.event());
            let record = RawRecord::new(entry.bytes(&self.arena));
            let record = record.map_err(|source| FileError::Record { offset, source })?;
            return Ok(Some(FileRecord {
                offset,
                record,
                event,
            }));
        }
        self.next_of_all()
    }

    #[inline]
    fn is_plain(&self) -> bool {
        self.spe.is_none() && self.pending.is_none() && !self.deferred.is_on()
    }

    #[inline(never)]
    fn next_of_all(&mut self) -> Result<Option<FileRecord<'_>>, FileError> {
        let step = self.step()?;
        if let Step::Made = step {
            return self.lend_made();
        }
        let held = self.held.as_ref();
        let Some((offset, event, record)) = lend(step, &self.arena, &self.records, held)? else {
            return self.failure.take().map_or(Ok(None), Err);
        };
        if let Some(spe) = &mut self.spe {
            spe.note(&record, event);
        }
        Ok(Some(FileRecord {
            offset,
            record,
            event,
        }))
    }

    /// What comes next, with samples made and samples that waited in their places.
    #[inline]
    fn step(&mut self) -> Result<Step, FileError> {
        loop {
            if self.deferred.is_on() {
                self.held = self.deferred.next();
                if self.held.is_some() {
                    return Ok(Step::Held);
                }
            }
            let step = self.pending.take().unwrap_or_else(|| self.advance());
            if self.make_before(&step)? {
                self.pending = Some(step);
                return Ok(Step::Made);
            }
            if !self.deferred.is_on() {
                return Ok(step);
            }
            match self.judge(step)? {
                Verdict::Pass => return Ok(step),
                Verdict::Taken => {}
                Verdict::After => self.pending = Some(step),
            }
        }
    }

    /// Whether a step waits, or ends the waiting of others.
    fn judge(&mut self, step: Step) -> Result<Verdict, FileError> {
        if let Step::End = step {
            let more = self.deferred.finish();
            return Ok(if more { Verdict::After } else { Verdict::Pass });
        }
        let Some((offset, event, record)) = lend(step, &self.arena, &self.records, None)? else {
            return Ok(Verdict::Pass);
        };
        Ok(self.deferred.take(offset, event, record))
    }

    /// Makes a sample that comes before `step`.
    #[inline]
    fn make_before(&mut self, step: &Step) -> Result<bool, FileError> {
        let Some(spe) = &mut self.spe else {
            return Ok(false);
        };
        let until = match step {
            Step::Queued(entry) => Some(entry.time),
            Step::End => None,
            Step::Unsorted { .. } | Step::Made | Step::Held => return Ok(false),
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
            if self.take_run() {
                continue; // it became too much to wait
            }
            if let Some(step) = self.take_one() {
                return step;
            }
        }
    }

    /// Queues the kernel's records that are read already, up to the first that needs more care; true if the queue is full now.
    fn take_run(&mut self) -> bool {
        let Some(run) = self.records.run() else {
            return false;
        };
        let (start, mut taken, mut full) = (self.arena.len(), 0, false);
        for record in Records::new(run.bytes) {
            let Ok(record) = record else { break };
            if record.kind >= kind::USER_TYPE_START || record.kind == kind::CALLCHAIN_DEFERRED {
                break;
            }
            let event = self.events.event_of(&record);
            let time = match self.events.time_of(event, &record) {
                None | Some(0 | u64::MAX) => break,
                Some(time) => time,
            };
            let (offset, at) = (run.offset_of(taken), start + taken);
            self.queue
                .push(Queued::new(&record, time, offset, at, event));
            taken += record.size();
            self.newest = self.newest.max(time);
            if start + taken + self.queue.len() * size_of::<Queued>() > self.limit {
                full = true;
                break;
            }
        }
        let read = run.bytes.get(..taken).unwrap_or_default();
        self.arena.extend_from_slice(read);
        self.records.pass(taken);
        if full {
            self.flush_half();
        }
        full
    }

    /// Reads one record: queues it or says that it is to be handed on at once.
    fn take_one(&mut self) -> Option<Step> {
        let several = self.records.are_several();
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
            // The rounds of one file say nothing of others.
            if !several {
                self.sort(self.final_until);
                self.final_until = self.newest;
            }
            return None;
        }
        if record.kind == kind::CALLCHAIN_DEFERRED {
            self.deferred.expect();
        }
        match self.events.time_of(event, &record) {
            None | Some(0 | u64::MAX) => Some(Step::Unsorted { offset, event }),
            Some(time) => {
                let at = self.arena.len();
                self.queue
                    .push(Queued::new(&record, time, offset, at, event));
                self.arena.extend_from_slice(record.bytes());
                if several && let Some(last) = self.queue.last_mut() {
                    last.part = self.records.current();
                }
                self.newest = self.newest.max(time);
                self.early_flushes += u64::from(several && time < self.flushed_until);
                if self.arena.len() + self.queue.len() * size_of::<Queued>() > self.limit {
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
        self.early_flushes += u64::from(!self.records.are_several());
        self.flushed_until = oldest + self.newest.saturating_sub(oldest) / 2;
        self.sort(self.flushed_until);
    }

    /// Sorts the queue and makes everything up to `time` ready. Records of the same time stay in
    /// the order of the file.
    fn sort(&mut self, time: u64) {
        if self.records.are_several() {
            self.queue.sort_by_key(|entry| (entry.time, entry.part));
        } else {
            self.queue.sort_by_key(|entry| entry.time);
        }
        self.ready = self.queue.partition_point(|entry| entry.time <= time);
    }

    /// Drops what was handed on. What waits mostly lies together at the end, as a round does; else it is moved together.
    fn forget_handed(&mut self) {
        self.queue.drain(..self.handed);
        (self.handed, self.ready) = (0, 0);
        let waiting: usize = self.queue.iter().map(|entry| usize::from(entry.len)).sum();
        let first = self.queue.iter().map(|entry| entry.at).min();
        let first = first.unwrap_or(self.arena.len());
        if self.arena.len() - first <= waiting.saturating_mul(2) {
            self.arena.drain(..first);
            for entry in &mut self.queue {
                entry.at -= first;
            }
            return;
        }
        self.spare.clear();
        for entry in &mut self.queue {
            let record = entry.bytes(&self.arena);
            entry.at = self.spare.len();
            self.spare.extend_from_slice(record);
        }
        std::mem::swap(&mut self.arena, &mut self.spare);
        if self.spare.capacity() > SPARE_BYTES {
            self.spare = Vec::new();
        }
    }
}

/// Where a record stands in the file, its event, itself.
type Lent<'a> = (u64, Option<usize>, RawRecord<'a>);

/// The record of a step.
#[inline]
fn lend<'a, R: Read + Seek>(
    step: Step,
    arena: &'a [u8],
    records: &'a PartRecords<'_, R>,
    held: Option<&'a Held>,
) -> Result<Option<Lent<'a>>, FileError> {
    let (offset, event, bytes) = match step {
        Step::Queued(entry) => (entry.offset, entry.event(), entry.bytes(arena)),
        Step::Unsorted { offset, event } => (offset, event, records.lent()),
        Step::Held => match held {
            Some(held) => (held.offset, Some(held.event), held.bytes.as_slice()),
            None => return Ok(None),
        },
        Step::Made | Step::End => return Ok(None),
    };
    let record = RawRecord::new(bytes).map_err(|source| FileError::Record { offset, source })?;
    Ok(Some((offset, event, record)))
}
