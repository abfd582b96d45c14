//! Samples whose user frames come later, put together.
//!
//! ```text
//! SAMPLE { …, nr, ips: kernel frames …, PERF_CONTEXT_USER_DEFERRED, cookie }      in the kernel, on behalf of a thread
//! CALLCHAIN_DEFERRED { cookie, nr, ips: PERF_CONTEXT_USER, user frames … }        when the thread returns to user mode
//! ```
//!
//! As newer perf does, such a sample waits for the next record of deferred frames of its thread and is handed on when that
//! comes, before it; with the frames if the cookie is the same, else as it is. What waits when its thread ends or the file
//! does is handed on as it is. A thread may stay in the kernel for ever, so there is a bound: beyond it the oldest goes on.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::EventTable;
use crate::bytes::len64;
use crate::{HEADER_LEN, RawRecord, Record, SampleLayout, SampleView, Words, kind};

/// Bytes of samples that wait, at most: some 100,000 with a kernel chain each.
const WAITING_BYTES: usize = 64 << 20;
/// What a waiting sample takes beside its record.
const WAITING_OVERHEAD: usize = 96;
/// `PERF_CONTEXT_USER_DEFERRED`.
const USER_DEFERRED: u64 = 640_u64.wrapping_neg();
/// `PERF_CONTEXT_USER`.
const USER: u64 = 512_u64.wrapping_neg();
/// Values from here on are markers (`PERF_CONTEXT_MAX`).
const MARKERS_FROM: u64 = 4095_u64.wrapping_neg();

/// What became of samples whose user frames were to come later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeferredCounts {
    /// Samples that got them.
    pub merged: u64,
    /// Samples that never did: they have their kernel frames only.
    pub alone: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    cookie: u64,
    held: Held,
}

/// A sample as it is handed on.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) offset: u64,
    pub(super) event: usize,
    pub(super) bytes: Vec<u8>,
}

/// What is to be done with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on.
    Pass,
    /// It was taken in; [`Deferred::next`] may have others.
    Taken,
    /// [`Deferred::next`] has what comes before it; then ask again.
    After,
}

/// Samples that wait for their user frames.
#[derive(Debug)]
pub(super) struct Deferred {
    events: Arc<EventTable>,
    /// Nothing waits in files without such records.
    on: bool,
    by_thread: HashMap<u32, VecDeque<Waiting>>,
    /// Numbers and threads of what waits or did, oldest first.
    order: VecDeque<(u64, u32)>,
    numbers: u64,
    /// How many samples wait, and their bytes.
    waiting: usize,
    bytes: usize,
    limit: usize,
    ready: VecDeque<Held>,
    counts: DeferredCounts,
}

impl Deferred {
    pub(super) fn new(events: Arc<EventTable>) -> Self {
        let on = events
            .events()
            .iter()
            .any(|event| event.attr.flags.defer_callchain());
        Self {
            events,
            on,
            by_thread: HashMap::new(),
            order: VecDeque::new(),
            numbers: 0,
            waiting: 0,
            bytes: 0,
            limit: WAITING_BYTES,
            ready: VecDeque::new(),
            counts: DeferredCounts::default(),
        }
    }

    /// Lets fewer bytes wait.
    pub(super) fn limit(&mut self, bytes: usize) {
        self.limit = bytes.min(WAITING_BYTES);
    }

    /// Such records come, whatever the events say.
    pub(super) fn expect(&mut self) {
        self.on = true;
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn counts(&self) -> DeferredCounts {
        self.counts
    }

    /// The next sample that need not wait any longer.
    pub(super) fn next(&mut self) -> Option<Held> {
        self.ready.pop_front()
    }

    /// Looks at a record on its way.
    pub(super) fn take(
        &mut self,
        offset: u64,
        event: Option<usize>,
        record: RawRecord<'_>,
    ) -> Verdict {
        match record.kind {
            kind::SAMPLE => self.hold(offset, event, record),
            kind::CALLCHAIN_DEFERRED => self.complete(event, record),
            kind::EXIT => match Record::parse(record) {
                Ok(Record::Exit(task)) if self.release(task.tid, None) => Verdict::After,
                _ => Verdict::Pass,
            },
            _ => Verdict::Pass,
        }
    }

    /// The file ends: whether anything waited.
    pub(super) fn finish(&mut self) -> bool {
        while let Some((number, thread)) = self.order.pop_front() {
            self.release_one(number, thread);
        }
        !self.ready.is_empty()
    }

    fn hold(&mut self, offset: u64, event: Option<usize>, record: RawRecord<'_>) -> Verdict {
        let found = event.and_then(|event| Some((event, self.layout(event)?)));
        let waits = found.and_then(|(event, layout)| {
            let view = SampleView::parse(record.body(), layout).ok()?;
            Some((event, view.tid()?, cookie(view.callchain()?)?))
        });
        let Some((event, thread, cookie)) = waits else {
            return Verdict::Pass;
        };
        let number = self.numbers;
        self.numbers += 1;
        self.waiting += 1;
        self.bytes += record.size() + WAITING_OVERHEAD;
        self.order.push_back((number, thread));
        let held = Held {
            offset,
            event,
            bytes: record.bytes().to_vec(),
        };
        let waiting = self.by_thread.entry(thread).or_default();
        waiting.push_back(Waiting {
            number,
            cookie,
            held,
        });
        while self.bytes > self.limit
            && let Some((number, thread)) = self.order.pop_front()
        {
            self.release_one(number, thread);
        }
        // What was handed on left its number behind.
        if self.order.len() > 2 * self.waiting + 1024 {
            let by_thread = &self.by_thread;
            self.order.retain(|(number, thread)| {
                let waiting = by_thread.get(thread).and_then(VecDeque::front);
                waiting.is_some_and(|oldest| oldest.number <= *number)
            });
        }
        Verdict::Taken
    }

    fn layout(&self, event: usize) -> Option<&SampleLayout> {
        self.events.get(event)?.layout.as_ref().ok()
    }

    /// Frames came: those of the same thread go on. A record nobody waited for stays what it is.
    fn complete(&mut self, event: Option<usize>, record: RawRecord<'_>) -> Verdict {
        let trailer = event.and_then(|event| Some(self.layout(event)?.trailer()));
        let thread = trailer.and_then(|trailer| trailer.parse(&record).ok()?.tid);
        match (thread, Record::parse(record)) {
            (Some(thread), Ok(Record::CallchainDeferred(frames)))
                if self.release(thread, Some((frames.cookie, frames.callchain))) =>
            {
                Verdict::Taken
            }
            _ => Verdict::Pass,
        }
    }

    /// Hands on what waits of a thread; whether anything did.
    fn release(&mut self, thread: u32, frames: Option<(u64, Words<'_>)>) -> bool {
        let Some(waiting) = self.by_thread.remove(&thread) else {
            return false;
        };
        for one in waiting {
            let frames = frames.filter(|(cookie, _)| *cookie == one.cookie);
            self.hand_on(one, frames.map(|(_, frames)| frames));
        }
        true
    }

    /// Hands on the sample with a number, if it still waits: it is the oldest of its thread.
    fn release_one(&mut self, number: u64, thread: u32) {
        let Some(waiting) = self.by_thread.get_mut(&thread) else {
            return;
        };
        if let Some(one) = waiting.pop_front_if(|oldest| oldest.number == number) {
            if waiting.is_empty() {
                self.by_thread.remove(&thread);
            }
            self.hand_on(one, None);
        }
    }

    fn hand_on(&mut self, one: Waiting, frames: Option<Words<'_>>) {
        let mut held = one.held;
        self.waiting -= 1;
        self.bytes -= held.bytes.len() + WAITING_OVERHEAD;
        let merged =
            frames.and_then(|frames| merged(&held.bytes, self.layout(held.event)?, frames));
        match merged {
            Some(bytes) => {
                held.bytes = bytes;
                self.counts.merged += 1;
            }
            None => self.counts.alone += 1,
        }
        self.ready.push_back(held);
    }
}

/// Of a chain whose user frames come later.
fn cookie(chain: Words<'_>) -> Option<u64> {
    let last = chain.len().checked_sub(1)?;
    let marker = chain.get(last.checked_sub(1)?)?;
    (marker == USER_DEFERRED).then(|| chain.get(last))?
}

/// The sample's record with the frames in the place of marker and cookie; frames for which a record has no room are left
/// out.
fn merged(bytes: &[u8], layout: &SampleLayout, frames: Words<'_>) -> Option<Vec<u8>> {
    let body = bytes.get(HEADER_LEN..)?;
    let view = SampleView::parse(body, layout).ok()?;
    let (at, chain) = (view.callchain_at()?, view.callchain()?);
    let (before, rest) = body.split_at_checked(at)?;
    let after = rest.get(8 * (1 + chain.len())..)?;
    let own = chain.len().checked_sub(2)?;
    let has_marker = frames.get(0).is_none_or(|first| first >= MARKERS_FROM);
    let marker = (!has_marker).then_some(USER);
    let fixed = HEADER_LEN + before.len() + 8 * (1 + own) + after.len();
    let room = (usize::from(u16::MAX) / 8 * 8).checked_sub(fixed)? / 8;
    let came: Vec<u64> = marker.into_iter().chain(frames.iter()).take(room).collect();
    let size = u16::try_from(fixed + 8 * came.len()).ok()?;
    let mut out = Vec::with_capacity(size.into());
    out.extend_from_slice(bytes.get(..HEADER_LEN - 2)?);
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(before);
    out.extend_from_slice(&len64(own + came.len()).to_le_bytes());
    for word in chain.iter().take(own).chain(came) {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(after);
    Some(out)
}
