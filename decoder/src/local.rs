//! The records of a perf.data file, decoded one by one in perf's processing order: for commands that need no services.
//!
//! ```no_run
//! # use memwide_decoder::{edge::FileSource, local::LocalSession};
//! # use memwide_perf_abi::PerfFile;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut file = PerfFile::open(std::fs::File::open("perf.data")?)?;
//! let mut session = LocalSession::new(file.events().clone(), file.features(), FileSource::default());
//! let mut records = file.sorted()?;
//! while let Some(record) = records.next()? {
//!     session.push(&record.record, record.event, |sample| {
//!         let code = sample.code();
//!         println!("{} {} {:?}", sample.event.name, sample.comm, code.symbol);
//!     });
//! }
//! # Ok(())
//! # }
//! ```

mod chains;
mod frames;
mod members;
mod met;
mod missing;
mod request;
mod sample;
mod shared;
mod source;
mod unwind;
mod wanted;

pub use chains::ChainIx;
pub use members::Member;
pub use request::{ObjectRequest, ObjectSource, RecordedKernel};
pub use sample::{Frame, InlinedFrame, LocalSample, Named};
pub use shared::SharedTables;
pub use unwind::{ChainBy, ChainEnd};
pub use wanted::Wanted;

use crate::classified::{Derived, Deriver};
use crate::context::Mode;
use crate::group::GroupReads;
use crate::machine::{Machine, Place};
use crate::memory::{EventFacts, Memory};
use crate::space::Policy;
use crate::symbols::{ObjectIx, TableState, What};
use crate::table::Loaded;
use chains::Chains;
use members::Members;
use memwide_model::LatencyKind;
use memwide_objects::DebugInfo;
use memwide_perf_abi::file::{EventTable, Features};
use memwide_perf_abi::{RawRecord, Record, SampleView, kind, sample as field};
use met::{MetCode, MetIx};
use sample::{More, Taken};
use source::{Chain, SourceLines};
use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::sync::Arc;
use unwind::Unwinding;

/// Records after which ended tasks and mappings are forgotten: order is all that counts here.
const PRUNE_EVERY: u64 = 1 << 16;

/// What was passed over, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Samples of events nobody declared.
    pub unknown_event: u64,
    /// Samples of events whose fields have no known place.
    pub unknown_layout: u64,
    /// Records that end before their fields do.
    pub malformed: u64,
}

impl AddAssign for Skipped {
    fn add_assign(&mut self, other: Self) {
        self.unknown_event += other.unknown_event;
        self.unknown_layout += other.unknown_layout;
        self.malformed += other.malformed;
    }
}

/// One file's records.
#[derive(Debug)]
pub struct LocalSession<S> {
    events: Arc<EventTable>,
    group: GroupReads,
    decoder: SampleDecoder<S>,
    skipped: Skipped,
}

/// What turns samples into [`LocalSample`]s; apart from the events, which those borrow too.
#[derive(Debug)]
struct SampleDecoder<S> {
    /// What must be known of each event.
    facts: Vec<EventFacts>,
    machine: Machine,
    deriver: Deriver,
    source: S,
    /// Counts records: stands for time, as perf applies records in its processing order.
    sequence: u64,
    met: MetCode,
    frames: Vec<(u64, Place)>,
    chains: Chains,
    /// Of the sample decoded last, where asked for.
    derived: Derived,
    /// The same, where more than the fields had to be looked at.
    memory: Memory,
    /// User frames that no record holds as such.
    made: Vec<u64>,
    unwinding: Unwinding,
    /// Lines of the frames, where wanted.
    frame_lines: Vec<Chain>,
    lines: SourceLines,
    tables: SharedTables,
    members: Members,
    /// Things whose code was met and that have no names.
    nameless: BTreeSet<ObjectIx>,
    wanted: Wanted,
}

impl<S: ObjectSource> LocalSession<S> {
    /// For a file with these events and header features.
    pub fn new(events: Arc<EventTable>, features: &Features, source: S) -> Self {
        let mut machine = Machine::new(Policy::PERF);
        for entry in features.build_ids() {
            let path = String::from_utf8_lossy(&entry.filename);
            machine.set_build_id(&path, entry.build_id, entry.misc);
        }
        if let Some(release) = features.os_release() {
            machine.set_kernel_release(&release);
        }
        let pmus = features.pmu_mappings().unwrap_or_default();
        let facts = events.events().iter().map(|event| {
            let pmu = pmus.iter().find(|(kind, _)| *kind == event.attr.kind);
            EventFacts::new(&event.attr, pmu.map(|(_, name)| name.as_str()), &event.name)
        });
        Self {
            decoder: SampleDecoder {
                facts: facts.collect(),
                machine,
                deriver: Deriver::of_file(features),
                source,
                sequence: 0,
                met: MetCode::default(),
                frames: Vec::new(),
                chains: Chains::default(),
                derived: Derived::UNASKED,
                memory: Memory::default(),
                made: Vec::new(),
                unwinding: Unwinding::new(features.arch().as_deref()),
                frame_lines: Vec::new(),
                lines: SourceLines::default(),
                tables: SharedTables::default(),
                members: Members::default(),
                nameless: BTreeSet::new(),
                wanted: Wanted::ALL,
            },
            events,
            group: GroupReads::default(),
            skipped: Skipped::default(),
        }
    }

    /// Finds out of samples what is wanted only; the rest reads as unknown.
    #[must_use]
    pub fn wanting(mut self, wanted: Wanted) -> Self {
        self.decoder.wanted = wanted;
        self
    }

    /// Has its symbol tables in common with other sessions of the same file.
    #[must_use]
    pub fn sharing(mut self, tables: SharedTables) -> Self {
        self.decoder.tables = tables;
        self
    }

    /// Takes the next record for what it says of tasks and mappings alone: another session has the samples.
    pub fn follow(&mut self, record: &RawRecord<'_>) {
        self.decoder.count_record();
        if record.kind < kind::USER_TYPE_START
            && record.kind != kind::SAMPLE
            && let Ok(parsed) = Record::parse(*record)
        {
            self.decoder.apply(&parsed, record.misc);
        }
    }

    /// Takes the next record in processing order, written by the event at `event`. `each` gets what perf would print for
    /// it: nothing for side-band, one sample, or one for each member of a group read.
    ///
    /// perf itself passes over samples of guests ([`Mode::Guest`]); here they are given.
    #[inline]
    pub fn push(
        &mut self,
        record: &RawRecord<'_>,
        event: Option<usize>,
        mut each: impl FnMut(&LocalSample<'_>),
    ) {
        self.decoder.count_record();
        if record.kind != kind::SAMPLE {
            if record.kind < kind::USER_TYPE_START {
                match Record::parse(*record) {
                    Ok(parsed) => self.decoder.apply(&parsed, record.misc),
                    Err(_) => self.skipped.malformed += 1,
                }
            }
            return;
        }
        let Some((at, event)) = event.and_then(|at| Some((at, self.events.get(at)?))) else {
            self.skipped.unknown_event += 1;
            return;
        };
        let Ok(layout) = &event.layout else {
            self.skipped.unknown_layout += 1;
            return;
        };
        let Ok(view) = SampleView::parse(record.body(), layout) else {
            self.skipped.malformed += 1;
            return;
        };
        let taken = Taken {
            misc: record.misc,
            event,
            at,
            period: view.period().unwrap_or(event.attr.sample_period),
            view: &view,
        };
        if !event.attr.samples(field::READ) {
            self.decoder.decode(taken, &mut each);
            return;
        }
        self.group.fill(&self.events, at, &view);
        for one in &self.group.rows {
            if let Some(event) = self.events.get(one.event) {
                let (at, period) = (one.event, one.period);
                let taken = Taken {
                    event,
                    at,
                    period,
                    ..taken
                };
                self.decoder.decode(taken, &mut each);
            }
        }
    }

    /// The events.
    pub fn events(&self) -> &Arc<EventTable> {
        &self.events
    }

    /// What is known of the host so far.
    pub fn machine(&self) -> &Machine {
        &self.decoder.machine
    }

    /// Debug information of a mapped thing, looked for when first asked for; `None` if there is none, see
    /// [`LocalSession::without_lines`].
    pub fn debug_info(&mut self, object: ObjectIx) -> Option<&mut DebugInfo> {
        let SampleDecoder {
            machine,
            lines,
            source,
            ..
        } = &mut self.decoder;
        lines.info(machine, source, object)
    }

    /// What the weight of a sampled load measures on the recorded machine.
    pub fn load_latency(&self) -> LatencyKind {
        self.decoder.deriver.load_latency()
    }

    /// Where symbols and debug information come from.
    pub fn source(&self) -> &S {
        &self.decoder.source
    }

    /// What was passed over so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }
}

/// Whether samples mean something only with the ones before: of counters that are read, the differences are shown.
pub fn needs_every_sample(events: &EventTable) -> bool {
    let mut events = events.events().iter();
    events.any(|event| event.attr.samples(field::READ))
}

impl<S: ObjectSource> SampleDecoder<S> {
    fn count_record(&mut self) {
        self.sequence += 1;
        if self.sequence.is_multiple_of(PRUNE_EVERY) {
            self.machine.prune(self.sequence);
        }
    }

    fn apply(&mut self, record: &Record<'_>, misc: u16) {
        self.machine.apply(record, misc, self.sequence);
    }

    /// Gives `each` the sample.
    #[inline]
    fn decode(&mut self, taken: Taken<'_>, each: &mut impl FnMut(&LocalSample<'_>)) {
        let Taken { misc, at, view, .. } = taken;
        let wanted = self.wanted;
        let ip = view.ip().filter(|_| wanted.has(Wanted::CODE));
        let code = ip.map(|ip| {
            let pid = view.pid().unwrap_or(u32::MAX);
            self.meet_code(Mode::of(misc), pid, ip)
        });
        let facts = self.facts.get(at).copied().unwrap_or_default();
        if wanted.is_within(Wanted::CODE) && facts.says_no_more() {
            each(&LocalSample {
                code_place: code.and_then(|at| self.met.place(at)),
                ..LocalSample::of_fields(taken, self.machine.objects())
            });
            return;
        }
        let code = code.and_then(|at| self.met.place(at)).copied();
        self.decode_all(taken, code, facts, each);
    }

    /// The same with all that is wanted.
    #[inline(never)]
    fn decode_all(
        &mut self,
        taken: Taken<'_>,
        code: Option<Place>,
        facts: EventFacts,
        each: &mut impl FnMut(&LocalSample<'_>),
    ) {
        let Taken {
            misc, event, view, ..
        } = taken;
        let mode = Mode::of(misc);
        let (pid, tid) = (
            view.pid().unwrap_or(u32::MAX),
            view.tid().unwrap_or(u32::MAX),
        );
        let (now, wanted) = (self.sequence, self.wanted);
        let comm = wanted
            .has(Wanted::COMM)
            .then(|| self.machine.spaces_mut().comm_at(pid, tid, now));
        let lines = code.filter(|_| wanted.has(Wanted::LINES));
        let lines = lines.map(|place| {
            let (machine, source) = (&self.machine, &mut self.source);
            self.lines.chain(machine, source, &place, false)
        });
        let chain = view.callchain().filter(|_| wanted.has(Wanted::FRAMES));
        let chain = chain.map(|chain| self.chain(event, view, (mode, pid, code), chain));
        let chain = chain.unwrap_or_else(|| self.no_chain());
        let is_looked_at = wanted.has(Wanted::DERIVED) || !facts.says_no_more();
        if is_looked_at {
            self.memory = self.deriver.memory(view, facts);
        }
        let addr = match (wanted.has(Wanted::DATA), is_looked_at) {
            (false, _) => None,
            (true, false) => view.addr(),
            (true, true) => self.memory.addr,
        };
        if mode == Mode::Kernel
            && let Some(addr) = addr.filter(|addr| addr >> 63 == 0)
        {
            // Kernel code touches user memory: the region is told by the process's mappings.
            self.data(Mode::User, pid, addr);
        }
        let data = addr.map(|addr| self.data(mode, pid, addr));
        if wanted.has(Wanted::DERIVED) {
            let callers = || {
                let leaf = chain.leaf.as_ref();
                let leaf = leaf.and_then(|(_, place)| self.machine.entry(place));
                leaf.or_else(
                    || match chain.kept.and_then(|kept| self.chains.callers(kept)) {
                        Some((_, entry)) => entry,
                        None => Deriver::entry_of(&self.machine, &self.frames),
                    },
                )
            };
            let entry = Deriver::entry(&self.machine, mode, code.as_ref(), callers);
            let access = (&self.memory, facts);
            self.derived =
                self.deriver
                    .derive(&mut self.machine, view, access, mode, pid, now, data, entry);
        }
        let member = self.derived.data.filter(|_| wanted.has(Wanted::MEMBERS));
        let member = member.and_then(|place| {
            let found = (&mut self.lines, &mut self.source);
            self.members.at(&self.machine, found, &place)
        });
        let kept = chain.kept.and_then(|chain| self.chains.callers(chain));
        let more = More {
            data_place: data,
            leaf: chain.leaf,
            callers: kept.map_or(&self.frames, |(frames, _)| frames),
            chain: chain.number,
            chain_by: chain.by,
            chain_end: chain.end,
            lines: lines.as_deref().unwrap_or_default(),
            frame_lines: &self.frame_lines,
            member: member.as_deref(),
        };
        each(&LocalSample {
            comm: comm.map_or("", |comm| self.machine.spaces().name(comm)),
            derived: &self.derived,
            memory: is_looked_at.then_some(&self.memory),
            code_place: code.as_ref(),
            more: &more,
            ..LocalSample::of_fields(taken, self.machine.objects())
        });
    }

    /// What a code address means.
    #[inline]
    fn code(&mut self, mode: Mode, pid: u32, ip: u64) -> Place {
        let at = self.meet_code(mode, pid, ip);
        self.met.place(at).copied().unwrap_or_default()
    }

    /// The same; the place is kept there until the next address is met.
    #[inline]
    fn meet_code(&mut self, mode: Mode, pid: u32, ip: u64) -> MetIx {
        let stamp = self.machine.stamp(mode, pid);
        let at = MetCode::at(ip, stamp);
        if !self.met.has(at, ip, stamp) {
            let place = self.new_code(mode, pid, ip);
            self.met.keep(at, ip, stamp, place);
        }
        at
    }

    #[inline(never)]
    fn new_code(&mut self, mode: Mode, pid: u32, ip: u64) -> Place {
        let mut place = self.machine.code(mode, pid, ip, self.sequence);
        // Where there is a symbol, there is a table.
        if let Some(object) = place.object.filter(|_| place.symbol.is_none()) {
            if self.load(object) {
                place = self.machine.code(mode, pid, ip, self.sequence);
            }
            if matches!(
                self.machine.objects().state(object),
                TableState::Unavailable(_)
            ) {
                self.nameless.insert(object);
            }
        }
        place
    }

    fn data(&mut self, mode: Mode, pid: u32, addr: u64) -> Place {
        let mut place = self.machine.data(mode, pid, addr, self.sequence);
        if place.object.is_some_and(|object| self.load(object)) {
            place = self.machine.data(mode, pid, addr, self.sequence);
        }
        self.bss(mode, pid, addr, &place).unwrap_or(place)
    }

    /// The variable at an address that no file backs, as most of a large `.bss`.
    fn bss(&mut self, mode: Mode, pid: u32, addr: u64, place: &Place) -> Option<Place> {
        if mode != Mode::User || self.machine.what(place) != Some(What::Anonymous) {
            return None;
        }
        let file = self.machine.file_before(pid, addr, self.sequence)?;
        self.load(file.object);
        self.machine.bss(pid, addr, self.sequence)
    }

    fn load(&mut self, object: ObjectIx) -> bool {
        load(&mut self.machine, &mut self.source, &self.tables, object)
    }
}

/// Fetches the table of a mapped thing that nobody asked for yet; true if that changed anything.
fn load<S: ObjectSource>(
    machine: &mut Machine,
    source: &mut S,
    tables: &SharedTables,
    object: ObjectIx,
) -> bool {
    if !matches!(machine.objects().state(object), TableState::Missing) {
        return false;
    }
    let Some(wanted) = machine.objects().get(object) else {
        return false;
    };
    let request = ObjectRequest {
        identity: &wanted.identity,
        what: wanted.what,
        base: wanted.base,
        jit_dump: machine.jit_dump(wanted.mapping),
        kernel: recorded_kernel(machine),
    };
    let (mapping, kind) = (wanted.mapping, wanted.identity.kind);
    let state = tables.get(mapping, || match source.load(&request) {
        Ok(table) => TableState::Present(Arc::new(Loaded::new(table, mapping, kind))),
        Err(reason) => TableState::Unavailable(reason.into()),
    });
    machine.set_table(mapping, state);
    true
}

fn recorded_kernel(machine: &Machine) -> Option<RecordedKernel<'_>> {
    Some(RecordedKernel {
        identity: &machine.kernel()?.identity,
        code: machine.kernel_code()?,
    })
}
