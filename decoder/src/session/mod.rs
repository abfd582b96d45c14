//! Batches of one source in, blocks of accesses out. Pure: no clock, no I/O.

mod block;
mod clock;
mod event;
mod gone;
mod ledger;
mod names;
mod section;
mod sent;
mod state;
mod tables;
mod workload;

pub use section::{SectionError, unpack};
pub use sent::Sent;
pub use tables::InUse;

use crate::classified::Deriver;
use crate::context::Mode;
use crate::group::GroupReads;
use crate::identity::Kind;
use crate::machine::{Machine, Place};
use crate::space::Policy;
use block::{Block, Row};
use clock::{BatchClock, Clock};
use event::{CpuNames, Events};
use gone::Gone;
use ledger::Ledger;
use memwide_model::{MappingId, Reason, Source, TAXONOMY};
use memwide_perf_abi::{RawRecord, Record, Records, SampleView};
use memwide_proto::v1;
use names::Namer;
use rustc_hash::FxHashMap;
use sent::What;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use workload::Workloads;

/// How long mappings are kept after the batch that ended them is acked, in nanoseconds: records may come that late.
const SLACK_NS: u64 = 10_000_000_000;

/// How often tables that nothing has mapped are looked for, in nanoseconds: it walks over all mappings.
const LET_GO_EVERY_NS: u64 = 30_000_000_000;

/// Version of whoever makes rows, so that those of an older taxonomy can be told and classified again.
pub(crate) static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{}+taxonomy.{TAXONOMY}", env!("CARGO_PKG_VERSION")));

/// Batches whose counter values are kept for a repetition.
const CHECKPOINTS_MAX: usize = 1024;

/// A symbol table that samples wait for.
#[derive(Debug, Clone, PartialEq)]
pub struct Want {
    /// Id of what it is the table of.
    pub mapping: MappingId,
    /// What it is made of.
    pub identity: v1::MappingIdentity,
    /// A process that has it mapped.
    pub pid: u32,
    /// Where, first address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Which file it is, where its path is all else that is known.
    pub file: Option<v1::MappedFile>,
    /// The dump of generated code that the process mapped.
    pub jit_dump: Option<Box<str>>,
}

impl Want {
    /// Whether the table is the same for all hosts: a path names another file on each, generated code is one process's.
    pub fn is_shared(&self) -> bool {
        let kind = Kind::of_wire(self.identity.kind);
        !self.identity.id.is_empty() && kind != Kind::Jit
    }
}

/// A batch, decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// For the aggregator.
    pub batch: v1::DecodedBatch,
    /// Tables that were not here; with them, decode again.
    pub wants: Vec<Want>,
}

/// What a source's batches have said so far.
#[derive(Debug)]
pub struct Session {
    host: String,
    machine: Machine,
    events: Events,
    facts: Option<v1::HostFacts>,
    deriver: Deriver,
    clock: Clock,
    workloads: Workloads,
    gone: Gone,
    group: GroupReads,
    /// Counter values before a batch, so that a repetition gives the same differences.
    checkpoints: BTreeMap<u64, FxHashMap<u64, u64>>,
    side_band_through: u64,
    /// Newest time in each batch.
    newest: BTreeMap<u64, u64>,
    /// Batches decoded against a partly known address space.
    partial: BTreeSet<u64>,
    namer: Namer,
    block: Block,
    raw: Vec<u8>,
    frames: Vec<(u64, Place)>,
    wants: Vec<Want>,
    late: tables::Late,
    generated: FxHashMap<MappingId, tables::Asked>,
    /// When tables that nothing has mapped were let go of last, in the time of samples.
    let_go_ns: u64,
}

impl Session {
    /// For a source of this host name.
    pub fn new(source: &Source, host: &str) -> Self {
        let mut machine = Machine::new(Policy::KERNEL);
        let boot = [source.host.0, source.boot.0].concat();
        machine.set_boot(&boot);
        Self {
            host: host.to_owned(),
            machine,
            events: Events::default(),
            facts: None,
            deriver: Deriver::default(),
            clock: Clock::default(),
            workloads: Workloads::default(),
            gone: Gone::default(),
            group: GroupReads::default(),
            checkpoints: BTreeMap::new(),
            side_band_through: 0,
            newest: BTreeMap::new(),
            partial: BTreeSet::new(),
            namer: Namer::default(),
            block: Block::default(),
            raw: Vec::new(),
            frames: Vec::new(),
            wants: Vec::new(),
            late: tables::Late::default(),
            generated: FxHashMap::default(),
            let_go_ns: 0,
        }
    }

    /// Newest batch whose side-band was applied; 0: none.
    pub fn side_band_through(&self) -> u64 {
        self.side_band_through
    }

    /// Applies what a batch says besides its samples. A batch that was applied before changes nothing.
    pub fn apply_side_band(&mut self, batch: &v1::Batch) {
        if batch.number <= self.side_band_through {
            return;
        }
        self.side_band_through = batch.number;
        if let Some(facts) = &batch.facts {
            self.learn_facts(facts);
        }
        let cpu = self.cpu_names();
        self.events.learn(&batch.events, &cpu);
        self.clock.learn(batch.number, &batch.anchors);
        if let Some(readings) = &batch.readings {
            self.workloads.learn(&readings.workloads);
        }
        if batch.side_band_partial {
            self.partial.insert(batch.number);
        }
        let Some(section) = &batch.side_band else {
            return;
        };
        let mut raw = std::mem::take(&mut self.raw);
        match unpack(section, &mut raw) {
            Ok(()) => self.apply_records(batch.number, &raw),
            Err(error) => {
                tracing::warn!(batch = batch.number, %error, "side-band cannot be read; rows are marked partial");
                self.partial.insert(batch.number);
            }
        }
        self.raw = raw;
    }

    fn learn_facts(&mut self, facts: &v1::HostFacts) {
        if self.facts.as_ref() == Some(facts) {
            return;
        }
        self.machine.set_kernel_release(&facts.os_release);
        self.deriver = Deriver::new(facts);
        self.facts = Some(facts.clone());
        self.events.rebuild(&CpuNames::of(facts));
    }

    fn cpu_names(&self) -> CpuNames {
        self.facts.as_ref().map(CpuNames::of).unwrap_or_default()
    }

    /// In the order of their times: rings of several CPUs were drained one after the other.
    fn apply_records(&mut self, number: u64, raw: &[u8]) {
        let mut timed: Vec<(u64, RawRecord<'_>)> = Vec::new();
        let mut damaged = false;
        let mut last = 0;
        for record in Records::new(raw) {
            let Ok(record) = record else {
                damaged = true;
                break;
            };
            let table = self.events.table();
            let time = table.time_of(table.event_of(&record), &record);
            last = time.unwrap_or(last);
            timed.push((last, record));
        }
        timed.sort_by_key(|(time, _)| *time);
        for (time, record) in &timed {
            match Record::parse(*record) {
                Ok(Record::Cgroup(cgroup)) => {
                    let path = String::from_utf8_lossy(cgroup.path);
                    self.workloads.learn_path(cgroup.id, &path);
                }
                Ok(parsed) => {
                    if let Record::Fork(task) = &parsed
                        && task.pid == task.tid
                    {
                        self.workloads.started(task.pid, task.ppid);
                    }
                    if let Record::Exit(task) = &parsed
                        && let Some(cpu) = self.cpu_of(record)
                    {
                        self.gone.learn(cpu, *time, task.pid, task.tid);
                    }
                    self.machine.apply(&parsed, record.misc, *time);
                }
                Err(_) => damaged = true,
            }
        }
        if let Some((newest, _)) = timed.last() {
            self.note_time(number, *newest);
        }
        if damaged || self.machine.spaces_mut().take_dropped() > 0 {
            self.partial.insert(number);
        }
    }

    /// The CPU that wrote a record, as its trailer says.
    fn cpu_of(&self, record: &RawRecord<'_>) -> Option<u32> {
        let table = self.events.table();
        let layout = table.get(table.event_of(record)?)?.layout.ok()?;
        layout.trailer().parse(record).ok()?.cpu
    }

    fn note_time(&mut self, number: u64, time: u64) {
        let newest = self.newest.entry(number).or_default();
        *newest = (*newest).max(time);
    }

    /// Decodes a batch. `sent` says which definitions its stream has; [`Sent::record`] the answer once it is handed over.
    ///
    /// The same batch after the same ones with the same tables gives the same answer.
    pub fn decode(&mut self, batch: &v1::Batch, sent: &Sent) -> Decoded {
        self.apply_side_band(batch);
        self.restore_counters(batch.number);
        self.group.in_force = self.events.periods(&batch.counts);
        self.wants.clear();
        self.namer.waited.clear();
        let mut ledger = Ledger::of_batch(batch, &self.events);
        let clock = self.clock.of_batch(batch.number, batch.closed_wall_ns);
        if let Some(section) = batch.samples.as_ref().filter(|_| batch.gap.is_none()) {
            let mut raw = std::mem::take(&mut self.raw);
            match unpack(section, &mut raw) {
                Ok(()) => self.decode_samples(batch, &raw, &clock, sent, &mut ledger),
                Err(error) => {
                    tracing::warn!(batch = batch.number, %error, "samples cannot be read; they are counted as undecodable");
                    ledger.poison(u64::from(section.records));
                }
            }
            self.raw = raw;
        }
        self.define_events(batch, sent);
        let accesses = self.block.take();
        ledger.stored(&accesses);
        self.define_workloads(&accesses.workloads, sent);
        let facts = self.facts.clone().filter(|facts| !sent.has_facts(facts));
        Decoded {
            batch: v1::DecodedBatch {
                number: batch.number,
                closed_wall_ns: batch.closed_wall_ns,
                host: self.host.clone(),
                accesses: Some(accesses),
                definitions: self.namer.definitions.take(),
                ledger: ledger.finish(),
                facts,
                readings: batch.readings.clone(),
                decoder_version: VERSION.clone(),
            },
            wants: std::mem::take(&mut self.wants),
        }
    }

    fn restore_counters(&mut self, number: u64) {
        if let Some(values) = self.checkpoints.get(&number) {
            self.group.set_values(values.clone());
        } else if let Some(values) = self.group.values() {
            self.checkpoints.insert(number, values.clone());
            if self.checkpoints.len() > CHECKPOINTS_MAX {
                self.checkpoints.pop_first();
            }
        } else {
            self.checkpoints.entry(number).or_default();
        }
    }

    fn decode_samples(
        &mut self,
        batch: &v1::Batch,
        raw: &[u8],
        clock: &BatchClock,
        sent: &Sent,
        ledger: &mut Ledger,
    ) {
        let partial = self.partial.contains(&batch.number);
        let mut newest = 0;
        for (walked, record) in (0_u64..).zip(Records::new(raw)) {
            let Ok(record) = record else {
                let section = batch.samples.as_ref();
                let all = section.map_or(0, |section| u64::from(section.records));
                ledger.add(0, Reason::Undecodable, all.saturating_sub(walked).max(1));
                break;
            };
            if record.is_sample() {
                let time = self.decode_sample(&record, clock, sent, ledger, partial);
                newest = newest.max(time);
            } else if let Ok(Record::Aux(aux)) = Record::parse(record) {
                let event = self.events.table().event_of(&record);
                let event = event.and_then(|at| self.events.meta(at));
                ledger.trace(event.map_or(0, |meta| meta.id), aux);
            }
        }
        self.note_time(batch.number, newest);
    }

    /// One sample: its rows go into the block. The answer is its time.
    fn decode_sample(
        &mut self,
        record: &RawRecord<'_>,
        clock: &BatchClock,
        sent: &Sent,
        ledger: &mut Ledger,
        partial: bool,
    ) -> u64 {
        let Some(event) = self.events.table().event_of(record) else {
            ledger.add(0, Reason::Undecodable, 1);
            return 0;
        };
        let id = self.events.meta(event).map_or(0, |meta| meta.id);
        ledger.saw(id);
        let layout = self
            .events
            .table()
            .get(event)
            .and_then(|event| event.layout.ok());
        let view = layout
            .as_ref()
            .and_then(|layout| SampleView::parse(record.body(), layout).ok());
        let Some(view) = view else {
            ledger.add(id, Reason::Undecodable, 1);
            return 0;
        };
        let mode = Mode::of(record.misc);
        let time = view.time().unwrap_or(0);
        let mut pid = view.pid().unwrap_or(u32::MAX);
        let mut tid = view.tid().unwrap_or(u32::MAX);
        if tid == u32::MAX
            && let Some((was, thread)) = view.cpu().and_then(|cpu| self.gone.last(cpu, time))
        {
            (pid, tid) = (was, thread);
        }
        let code = self.code(mode, pid, view.ip().unwrap_or(0), time);
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        if let Some(chain) = view.callchain() {
            let whole = crate::chain::walk(chain, |mode, ip| {
                frames.push((ip, self.code(mode, pid, ip, time)));
            });
            if !whole {
                frames.clear();
            }
        }
        let facts = self
            .events
            .meta(event)
            .map(|meta| meta.facts)
            .unwrap_or_default();
        let memory = self.deriver.memory(&view, facts);
        let data = memory.addr.filter(|addr| *addr != 0);
        let data = data.map(|addr| self.machine.data(mode, pid, addr, time));
        if let Some(place) = data {
            self.want(&place, mode, pid, memory.addr.unwrap_or(0), time);
        }
        let deriver = std::mem::take(&mut self.deriver);
        let callers = || Deriver::entry_of(&self.machine, &frames);
        let entry = Deriver::entry(&self.machine, mode, Some(&code), callers);
        let derived = deriver.derive(
            &mut self.machine,
            &view,
            (&memory, facts),
            mode,
            pid,
            time,
            data,
            entry,
        );
        self.deriver = deriver;
        if let (Some(place), Some(addr)) = (derived.data, memory.addr) {
            // Kernel code touches user memory: the variable is the process's.
            let owner = if addr >> 63 == 0 {
                Mode::User
            } else {
                Mode::Kernel
            };
            self.want(&place, owner, pid, addr, time);
        }
        let ids = self.namer.code(&self.machine, sent, &code);
        let stack = self.namer.stack(&self.machine, sent, &frames);
        self.frames = frames;
        let place = derived.data;
        let data = self
            .namer
            .data(&self.machine, sent, derived.region, place.as_ref());
        let name = self.machine.spaces_mut().comm_at(pid, tid, time);
        let spaces = self.machine.spaces();
        let comm = self.block.comm(name, |name| spaces.name(name).to_owned());
        let workload = self.workloads.of_sample(pid, view.cgroup());
        let workload = self.block.workload(workload);
        let time_wall_ns = view
            .time()
            .map_or_else(|| clock.wall_ns(u64::MAX), |time| clock.wall_ns(time));
        self.group.fill(self.events.table(), event, &view);
        let rows = std::mem::take(&mut self.group.rows);
        let sampled = event;
        for one in &rows {
            let id = self.events.meta(one.event).map_or(0, |meta| meta.id);
            if one.event != sampled {
                // The collector counts a record for the event that wrote it; a group read is a sample of each member.
                ledger.add(id, Reason::Produced, 1);
            }
            let Some(event) = self.block.event(id) else {
                ledger.add(id, Reason::Undecodable, 1);
                continue;
            };
            let row = Row {
                time_wall_ns,
                pid,
                tid,
                comm,
                event,
                code: ids,
                stack,
                data,
                period: one.period,
                memory,
                derived,
                workload,
            };
            self.block.push(&row, &view);
            ledger.add(id, Reason::Unresolved, u64::from(ids.waits));
            ledger.add(id, Reason::Nameless, u64::from(!ids.named && !ids.waits));
            ledger.add(id, Reason::Partial, u64::from(partial));
        }
        self.group.rows = rows;
        time
    }

    fn code(&mut self, mode: Mode, pid: u32, ip: u64, time: u64) -> Place {
        let place = self.machine.code(mode, pid, ip, time);
        self.want(&place, mode, pid, ip, time);
        place
    }

    fn define_events(&mut self, batch: &v1::Batch, sent: &Sent) {
        let cpu = self.cpu_names();
        let counted: Vec<u64> = batch
            .counts
            .iter()
            .filter_map(|count| Some(self.events.by_ordinal(count.event)?.id))
            .collect();
        let used = self.block.events().to_vec();
        for id in used.into_iter().chain(counted) {
            if !self.namer.definitions.wants(sent, What::Event, id, 0) {
                continue;
            }
            if let Some(meta) = self.events.by_id(id) {
                let definition = meta.definition(&cpu);
                self.namer.definitions.out.events.push(definition);
            }
        }
    }

    fn define_workloads(&mut self, used: &[u64], sent: &Sent) {
        for id in used.iter().filter(|id| **id != 0) {
            if self.namer.definitions.wants(sent, What::Workload, *id, 0)
                && let Some(workload) = self.workloads.get(*id)
            {
                self.namer.definitions.out.workloads.push(workload.clone());
            }
        }
    }

    /// Batches up to here are safe: what ended before them is forgotten.
    pub fn acknowledged(&mut self, through: u64) {
        let after = self.newest.split_off(&(through.saturating_add(1)));
        let acked = std::mem::replace(&mut self.newest, after);
        self.checkpoints = self.checkpoints.split_off(&through);
        self.partial = self.partial.split_off(&through);
        if let Some(newest) = acked.values().max() {
            self.machine.prune(newest.saturating_sub(SLACK_NS));
            if self.let_go_ns.saturating_add(LET_GO_EVERY_NS) < *newest {
                self.let_go_ns = *newest;
                if self.machine.let_go() {
                    self.namer.forget();
                }
            }
        }
    }

    /// Name of the host.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// What is known of the host.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

#[cfg(test)]
mod tests;
