//! Made samples among the records, by time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io;
use std::sync::Arc;

use super::ring::{Ring, Waiting};
use super::{SpeCounts, Trace};
use crate::file::{Event, EventTable};
use crate::{RawRecord, Record, SampleFields, Weight, encode, kind, misc};

/// Threads remembered with their process. More than any machine runs; what is beyond has no process.
const THREADS_MAX: usize = 1 << 20;
/// Most rings; machines have one a CPU. The trace of more is counted as bytes that belong to nothing.
const RINGS_MAX: usize = 1 << 14;
const NOBODY: u32 = u32::MAX;

/// Makes samples in time.
#[derive(Debug)]
pub(crate) struct Merge {
    trace: Arc<Trace>,
    events: Arc<EventTable>,
    rings: Vec<Ring>,
    /// Next access of each ring that has one.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    started: bool,
    pids: HashMap<u32, u32>,
    /// Who runs on each CPU, by context packets or switches.
    running: HashMap<u32, u32>,
    /// Context packets tell who runs: switches are not needed.
    has_context: bool,
    counts: SpeCounts,
    made: Vec<u8>,
    at: u64,
}

impl Merge {
    pub(crate) fn new(trace: Arc<Trace>, events: Arc<EventTable>) -> Self {
        let mut by_index: BTreeMap<u32, Ring> = BTreeMap::new();
        let mut counts = SpeCounts::default();
        for piece in &trace.pieces {
            counts.pieces += 1;
            counts.bytes = counts.bytes.saturating_add(piece.size);
            if by_index.len() == RINGS_MAX && !by_index.contains_key(&piece.index) {
                counts.bad_bytes = counts.bad_bytes.saturating_add(piece.size);
                counts.broken += 1;
                continue;
            }
            let ring = by_index.entry(piece.index).or_insert_with(|| {
                let cpu = u32::try_from(piece.cpu).ok();
                Ring::new(*piece, trace.core(cpu))
            });
            ring.push(*piece);
        }
        let mut rings: Vec<Ring> = by_index.into_values().collect();
        let count = rings.len();
        for ring in &mut rings {
            ring.share(count);
        }
        Self {
            trace,
            events,
            rings,
            heap: BinaryHeap::new(),
            started: false,
            pids: HashMap::new(),
            running: HashMap::new(),
            has_context: false,
            counts,
            made: Vec::new(),
            at: 0,
        }
    }

    /// What was made so far; complete at the end.
    pub(crate) fn counts(&self) -> SpeCounts {
        self.counts
    }

    /// Index of the made event.
    pub(crate) fn event(&self) -> usize {
        self.trace.event
    }

    /// The sample made last, and where its data stands in the file.
    pub(crate) fn made(&self) -> (&[u8], u64) {
        (&self.made, self.at)
    }

    /// Makes the next sample that is older than `time` (`None`: the next one at all). `read_at` reads the file.
    pub(crate) fn make(
        &mut self,
        time: Option<u64>,
        mut read_at: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        if !self.started {
            self.started = true;
            for at in 0..self.rings.len() {
                self.look(at, &mut read_at)?;
            }
        }
        let Some(&Reverse((next, at))) = self.heap.peek() else {
            return Ok(false);
        };
        if time.is_some_and(|time| next >= time) {
            return Ok(false);
        }
        self.heap.pop();
        let waiting = self.rings.get_mut(at).and_then(Ring::pop);
        if let Some(waiting) = waiting {
            self.encode(at, &waiting);
        }
        self.look(at, &mut read_at)?;
        Ok(waiting.is_some())
    }

    /// Puts a ring into the heap again.
    fn look(
        &mut self,
        at: usize,
        read_at: &mut impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        if let Some(ring) = self.rings.get_mut(at)
            && let Some(time) = ring.next_time(self.trace.clock, &mut self.counts, read_at)?
        {
            self.heap.push(Reverse((time, at)));
        }
        Ok(())
    }

    fn encode(&mut self, at: usize, waiting: &Waiting) {
        let Some(ring) = self.rings.get(at) else {
            return;
        };
        let record = &waiting.record;
        let cpu = ring.cpu;
        if let Some(context) = record.context {
            self.has_context = true;
            self.running.insert(cpu.unwrap_or(NOBODY), context);
        }
        let running = self.running.get(&cpu.unwrap_or(NOBODY)).copied();
        let tid = running.or(ring.tid).unwrap_or(NOBODY);
        let pid = self.pids.get(&tid).copied().unwrap_or(NOBODY);
        let ip = record.ip().unwrap_or_default();
        let (encoding, tells_snoops) = ring.core;
        let fields = SampleFields {
            id: self.trace.id,
            stream_id: self.trace.id,
            ip,
            pid,
            tid,
            time: if waiting.time == u64::MAX {
                0
            } else {
                waiting.time
            },
            addr: record.addr().unwrap_or_default(),
            phys_addr: record.phys_addr().unwrap_or_default(),
            cpu: cpu.unwrap_or(NOBODY),
            period: 1,
            weight: Weight {
                weight: record.total_cycles.unwrap_or_default().into(),
                ..Weight::default()
            },
            data_src: record.data_src(encoding, tells_snoops).unwrap_or_default(),
            ..SampleFields::default()
        };
        let mode = if ip >> 63 == 0 {
            misc::USER
        } else {
            misc::KERNEL
        };
        self.made.clear();
        self.at = waiting.at;
        if encode::sample(&mut self.made, &fields, mode, &self.trace.layout).is_ok() {
            self.counts.accesses += 1;
        }
    }

    /// Takes note of a record on its way: who runs where, and what the kernel says of the trace.
    #[inline]
    pub(crate) fn note(&mut self, record: &RawRecord<'_>, event: Option<usize>) {
        if record.kind != kind::SAMPLE {
            self.note_other(record, event);
        }
    }

    fn note_other(&mut self, record: &RawRecord<'_>, event: Option<usize>) {
        let Ok(parsed) = Record::parse(*record) else {
            return;
        };
        match parsed {
            Record::Comm(comm) => self.belongs(comm.tid, comm.pid),
            Record::Fork(task) => self.belongs(task.tid, task.pid),
            Record::Aux(aux) => {
                self.counts.handed += 1;
                self.counts.truncated += u64::from(aux.truncated());
                self.counts.collided += u64::from(aux.collided());
            }
            Record::SwitchCpuWide(switch) if switch.switch.out && !self.has_context => {
                let trailer = |event: &Event| Some(event.layout.as_ref().ok()?.trailer());
                let event = event.and_then(|event| self.events.get(event));
                let id = event.and_then(trailer).and_then(|at| at.parse(record).ok());
                if let Some(cpu) = id.and_then(|id| id.cpu) {
                    self.belongs(switch.next_prev_tid, switch.next_prev_pid);
                    self.running.insert(cpu, switch.next_prev_tid);
                }
            }
            _ => {}
        }
    }

    fn belongs(&mut self, tid: u32, pid: u32) {
        if self.pids.len() < THREADS_MAX || self.pids.contains_key(&tid) {
            self.pids.insert(tid, pid);
        }
    }
}
