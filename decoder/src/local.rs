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

mod sample;

pub use sample::{Frame, LocalSample, Named};

use crate::classified::Deriver;
use crate::context::Mode;
use crate::group::GroupReads;
use crate::identity::Identity;
use crate::machine::{Machine, Place};
use crate::memory::EventFacts;
use crate::space::Policy;
use crate::symbols::{ObjectIx, TableState, What};
use crate::table::Loaded;
use memwide_objects::SymbolTable;
use memwide_perf_abi::file::{EventTable, Features};
use memwide_perf_abi::{RawRecord, Record, SampleView, kind};
use std::sync::Arc;

/// Records after which ended tasks and mappings are forgotten: order is all that counts here.
const PRUNE_EVERY: u64 = 1 << 16;

/// Which table is wanted.
#[derive(Debug)]
pub struct ObjectRequest<'a> {
    /// What it is made of: kind, build id, path.
    pub identity: &'a Identity,
    /// What its mapping's name says.
    pub what: What,
    /// Address that kernel and module symbols are to be relative to.
    pub base: u64,
    /// The kernel that ran, for kernel and modules.
    pub kernel: Option<&'a Identity>,
}

/// Finds symbol tables.
pub trait ObjectSource {
    /// The table, or why there is none, as a lower-case phrase. Asked once for each identity.
    fn load(&mut self, request: &ObjectRequest<'_>) -> Result<SymbolTable, String>;
}

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

/// One file's records.
#[derive(Debug)]
pub struct LocalSession<S> {
    events: Arc<EventTable>,
    /// What must be known of each event.
    facts: Vec<EventFacts>,
    machine: Machine,
    deriver: Deriver,
    group: GroupReads,
    source: S,
    /// Counts records: stands for time, as perf applies records in its processing order.
    sequence: u64,
    frames: Vec<(u64, Place)>,
    /// Data addresses are looked up.
    names_data: bool,
    skipped: Skipped,
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
            facts: facts.collect(),
            events,
            machine,
            deriver: Deriver::of_file(features),
            group: GroupReads::default(),
            source,
            sequence: 0,
            frames: Vec::new(),
            names_data: true,
            skipped: Skipped::default(),
        }
    }

    /// Leaves data addresses without names and regions, for those who ask for neither: a third of the work.
    #[must_use]
    pub fn without_data(mut self) -> Self {
        self.names_data = false;
        self
    }

    /// Takes the next record in processing order, written by the event at `event`. `each` gets what perf would print for
    /// it: nothing for side-band, one sample, or one for each member of a group read.
    ///
    /// perf itself passes over samples of guests ([`Mode::Guest`]); here they are given.
    pub fn push(
        &mut self,
        record: &RawRecord<'_>,
        event: Option<usize>,
        mut each: impl FnMut(&LocalSample<'_>),
    ) {
        self.sequence += 1;
        if self.sequence.is_multiple_of(PRUNE_EVERY) {
            self.machine.prune(self.sequence);
        }
        if record.kind != kind::SAMPLE {
            if record.kind < kind::USER_TYPE_START {
                match Record::parse(*record) {
                    Ok(parsed) => self.machine.apply(&parsed, record.misc, self.sequence),
                    Err(_) => self.skipped.malformed += 1,
                }
            }
            return;
        }
        let events = Arc::clone(&self.events);
        let Some((at, event)) = event.and_then(|at| Some((at, events.get(at)?))) else {
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
        self.group.fill(&events, at, &view);
        let rows = std::mem::take(&mut self.group.rows);
        for one in &rows {
            if let Some(event) = events.get(one.event) {
                let sample = self.decode(record.misc, event, one.event, one.period, view);
                each(&sample);
            }
        }
        self.group.rows = rows;
    }

    fn decode<'a>(
        &'a mut self,
        record_misc: u16,
        event: &'a memwide_perf_abi::file::Event,
        event_index: usize,
        period: u64,
        view: SampleView<'a>,
    ) -> LocalSample<'a> {
        let mode = Mode::of(record_misc);
        let (pid, tid) = (
            view.pid().unwrap_or(u32::MAX),
            view.tid().unwrap_or(u32::MAX),
        );
        let now = self.sequence;
        let comm = self.machine.spaces_mut().comm_at(pid, tid, now);
        let code = view.ip().map(|ip| self.code(mode, pid, ip));
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        if let Some(chain) = view.callchain() {
            let whole = crate::chain::walk(chain, |mode, ip| {
                frames.push((ip, self.code(mode, pid, ip)));
            });
            if !whole {
                frames.clear();
            }
        }
        self.frames = frames;
        let facts = self.facts.get(event_index).copied().unwrap_or_default();
        let memory = self.deriver.memory(&view, facts);
        let addr = memory.addr.filter(|_| self.names_data);
        if mode == Mode::Kernel
            && let Some(addr) = addr.filter(|addr| addr >> 63 == 0)
        {
            // Kernel code touches user memory: the region is told by the process's mappings.
            self.data(Mode::User, pid, addr);
        }
        let data = addr.map(|addr| self.data(mode, pid, addr));
        self.remember(code.as_ref());
        self.remember(data.as_ref());
        for at in 0..self.frames.len() {
            let place = self.frames.get(at).map(|(_, place)| *place);
            self.remember(place.as_ref());
        }
        let entry = Deriver::entry(&self.machine, mode, code.as_ref(), &self.frames);
        let access = (memory, facts);
        let derived =
            self.deriver
                .derive(&mut self.machine, &view, access, mode, pid, now, data, entry);
        LocalSample {
            event,
            event_index,
            view,
            mode,
            misc: record_misc,
            period,
            comm: self.machine.spaces().name(comm),
            derived,
            code_place: code,
            data_place: data,
            frames: &self.frames,
            objects: self.machine.objects(),
        }
    }

    fn code(&mut self, mode: Mode, pid: u32, ip: u64) -> Place {
        let place = self.machine.code(mode, pid, ip, self.sequence);
        match place.object {
            Some(object) if self.load(object) => self.machine.code(mode, pid, ip, self.sequence),
            _ => place,
        }
    }

    fn data(&mut self, mode: Mode, pid: u32, addr: u64) -> Place {
        let place = self.machine.data(mode, pid, addr, self.sequence);
        match place.object {
            Some(object) if self.load(object) => self.machine.data(mode, pid, addr, self.sequence),
            _ => place,
        }
    }

    /// Fetches the table of a mapped thing that nobody asked for yet; true if that changed anything.
    fn load(&mut self, object: ObjectIx) -> bool {
        if !matches!(self.machine.objects().state(object), TableState::Missing) {
            return false;
        }
        let Some(wanted) = self.machine.objects().get(object) else {
            return false;
        };
        let request = ObjectRequest {
            identity: &wanted.identity,
            what: wanted.what,
            base: wanted.base,
            kernel: self.machine.kernel().map(|kernel| &kernel.identity),
        };
        let (mapping, kind) = (wanted.mapping, wanted.identity.kind);
        let state = match self.source.load(&request) {
            Ok(table) => TableState::Present(Arc::new(Loaded::new(table, mapping, kind))),
            Err(reason) => TableState::Unavailable(reason.into()),
        };
        self.machine.set_table(mapping, state);
        true
    }

    fn remember(&mut self, place: Option<&Place>) {
        if let Some(place) = place
            && let Some((object, symbol)) = place.object.zip(place.symbol)
        {
            self.machine
                .objects_mut()
                .remember_name(object, symbol, place.variable);
        }
    }

    /// The events.
    pub fn events(&self) -> &Arc<EventTable> {
        &self.events
    }

    /// What is known of the host so far.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What was passed over so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }
}
