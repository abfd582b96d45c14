//! Which cache lines do several CPUs fight over, by which code, at which offsets?
//!
//! [`Lines`] takes accesses and counts them by line and by site (offset, code address, thread), with `perf c2c`'s counters
//! ([`Counts`]). [`Lines::shared`] hands out the lines as perf would list them, [`Verdict`] says beside it what the samples of
//! a line prove: a line that is passed round (HitM, peer, forwarded) is falsely shared only where others *write* at *another*
//! offset than the one that was read.
//!
//! A line is identified as perf does it: mode of the code, mapped object and address in it; private anonymous memory also
//! by its process; memory that nothing is known of by its address. So private copies of one file's data in two processes are
//! one line of the table; the verdict tells them apart by their physical address or, without one, by the process.

mod counts;
mod rows;
mod set;
mod verdict;

pub use counts::{Counter, Counts};
pub use rows::{Coalesce, Display, LineRow, Mean, Shared, SiteRow};
pub use set::Set;
use verdict::judge;
pub use verdict::{Evidence, Kind, Verdict};

use counts::Increments;
use memwide_decoder::Mode;
use memwide_decoder::local::{LocalSample, Wanted};
use memwide_decoder::{NameIx, Names};
use memwide_model::data_src::{lock, op, snoop, snoopx};
use memwide_model::{DataSrc, Op, Region};
use rustc_hash::FxHashMap;

/// What must be known of samples; with [`Wanted::LINES`] also the lines of the source, with [`Wanted::MEMBERS`] also the members
/// of variables.
pub fn wanted() -> Wanted {
    Wanted::CODE | Wanted::DATA | Wanted::DERIVED
}

/// `data_src` of samples that have none: every field not available, as perf fills it in.
const NOT_AVAILABLE: DataSrc = DataSrc(0x508_0021);

/// Most lines told apart; accesses to further ones are counted together. Some 200 MB.
const LINES_MAX: usize = 1 << 20;
/// Most sites told apart, likewise. Some 1.4 GB, where nearly every access is a site of its own; 550 thousand took 0.4 GB.
const SITES_MAX: usize = 1 << 21;

/// The size of what is called a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineSize {
    /// 64 bytes.
    #[default]
    Single,
    /// 128 bytes: the pair that Intel's adjacent-line prefetcher fetches together.
    Double,
}

impl LineSize {
    /// Bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Single => 64,
            Self::Double => 128,
        }
    }
}

/// One access, as it counts here.
#[derive(Debug, Clone)]
pub struct Access<'a> {
    /// Data source as recorded.
    pub word: DataSrc,
    /// Data address; 0 if there is none.
    pub addr: u64,
    /// The data address in what is mapped there: an offset in the file, or the address itself.
    pub place: u64,
    /// What is mapped at the data address; `None` if nothing is.
    pub data_dso: Option<&'a str>,
    /// The variable there, and bytes from its start.
    pub variable: Option<(&'a str, u64)>,
    /// What kind of memory it is.
    pub region: Region,
    /// Whose code ran.
    pub mode: Mode,
    /// Process, 0 if not recorded.
    pub pid: u32,
    /// Thread, likewise.
    pub tid: u32,
    /// CPU.
    pub cpu: Option<u32>,
    /// Physical address; 0 if not recorded.
    pub phys: u64,
    /// Node of the page.
    pub node: Option<u8>,
    /// Weight, in the unit of the PMU.
    pub weight: u64,
    /// Code address.
    pub ip: u64,
    /// Function, if one covers it.
    pub symbol: Option<&'a str>,
    /// Object of the code; `None` if nothing is mapped.
    pub dso: Option<&'a str>,
    /// A breakpoint waited for this store.
    pub watched: bool,
}

/// Whether each process has this memory for itself, by perf's rule: what no file backs and nobody shares, also where a variable of
/// `.bss` lies in it.
pub(crate) fn is_of_process(region: Region, dso: Option<&str>) -> bool {
    dso == Some("//anon")
        || matches!(
            region,
            Region::Anonymous | Region::Heap | Region::Stack | Region::Vdso
        )
}

impl<'a> Access<'a> {
    /// Of a sample.
    pub fn of(sample: &LocalSample<'a>) -> Self {
        let (code, data) = (sample.code(), sample.data());
        let known = |dso: &'a str| (dso != "[unknown]").then_some(dso);
        let addr = sample.addr().unwrap_or(0);
        let data_dso = known(data.dso);
        Self {
            word: sample.data_src().unwrap_or(NOT_AVAILABLE),
            addr,
            place: if data_dso.is_some() {
                data.shown_address
            } else {
                addr
            },
            data_dso,
            variable: data.symbol.map(|name| (name, data.symbol_offset)),
            region: sample.derived.region,
            mode: sample.mode,
            pid: sample.pid().unwrap_or(0),
            tid: sample.tid().unwrap_or(0),
            cpu: sample.cpu(),
            phys: sample.phys_addr().unwrap_or(0),
            node: sample.derived.page_node,
            weight: sample.weight().map_or(0, |weight| weight.weight),
            ip: sample.ip().unwrap_or(0),
            symbol: code.symbol,
            dso: known(code.dso),
            // A breakpoint has no word, but says what it waits for.
            watched: sample.data_src().is_none()
                && matches!(sample.derived.class.op, Op::Store | Op::LoadStore),
        }
    }

    fn is_load(&self) -> bool {
        self.word.op() & op::LOAD != 0
    }

    /// Another cache had the line: modified, or gave it away.
    fn is_contended(&self) -> bool {
        let passed = self.word.snoopx() & (snoopx::FWD | snoopx::PEER) != 0;
        self.is_load() && (passed || self.word.snoop() & snoop::HITM != 0)
    }

    /// Stores, and locked loads: those are the reading half of a read-modify-write.
    fn writes(&self) -> bool {
        let locked = self.is_load() && self.word.lock() & lock::LOCKED != 0;
        locked || self.watched || self.word.op() & op::STORE != 0
    }

    /// Who accessed: the thread, or where none is recorded the CPU.
    fn who(&self) -> u32 {
        if self.tid == 0 {
            self.cpu.unwrap_or(0)
        } else {
            self.tid
        }
    }

    /// What tells private copies of one line apart.
    fn memory(&self, line_bytes: u64) -> u64 {
        if self.phys != 0 {
            self.phys / line_bytes
        } else if matches!(self.region, Region::Kernel | Region::Shared)
            || self.mode == Mode::Kernel
        {
            0
        } else {
            self.pid.into()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct LineKey {
    mode: Mode,
    dso: NameIx,
    /// 0 unless the memory is private.
    pid: u32,
    place: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SiteKey {
    line: u32,
    offset: u8,
    ip: u64,
    pid: u32,
    tid: u32,
    memory: u64,
}

/// One line.
#[derive(Debug)]
struct Line {
    /// Its address, of the first access.
    address: u64,
    counts: Counts,
    data_dso: NameIx,
    /// The variable at the first access that has one, with the line's distance from its start.
    variable: Option<(NameIx, i64)>,
    region: Region,
    nodes: Set<u8>,
    physical: Set<u64>,
    sites: Vec<u32>,
}

/// What one thread did with one instruction at one offset.
#[derive(Debug)]
struct Site {
    key: SiteKey,
    who: u32,
    counts: Counts,
    contended: u32,
    writes: u32,
    latencies: rows::Latencies,
    cpus: Set,
    nodes: Set<u8>,
    physical: Set<u64>,
    symbol: Option<NameIx>,
    dso: NameIx,
    /// `file:line` of the code.
    source: Option<NameIx>,
    /// The member of a variable at the offset.
    member: Option<NameIx>,
    mode: Mode,
}

/// What debug information says of an access.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// `file:line` of the code.
    pub source: Option<String>,
    /// The member of a variable at the data address.
    pub member: Option<String>,
}

/// Accesses by line and site.
#[derive(Debug)]
pub struct Lines {
    size: LineSize,
    names: Names,
    total: Counts,
    /// Of lines and sites beyond the bounds.
    other: Counts,
    all: Vec<Line>,
    line_index: FxHashMap<LineKey, u32>,
    sites: Vec<Site>,
    site_index: FxHashMap<SiteKey, u32>,
    /// Counters by site and CPU, where they are wanted.
    by_cpu: Option<FxHashMap<(u32, u32), Counts>>,
}

impl Lines {
    /// With lines of this size.
    pub fn new(size: LineSize) -> Self {
        Self {
            size,
            names: Names::default(),
            total: Counts::default(),
            other: Counts::default(),
            all: Vec::new(),
            line_index: FxHashMap::default(),
            sites: Vec::new(),
            site_index: FxHashMap::default(),
            by_cpu: None,
        }
    }

    /// Counts what each CPU did at a site too, for [`SiteRow::by_cpu`].
    #[must_use]
    pub fn counting_cpus(mut self) -> Self {
        self.by_cpu = Some(FxHashMap::default());
        self
    }

    /// Adds an access.
    pub fn add(&mut self, access: &Access<'_>) {
        self.add_from(access, Details::default);
    }

    /// The same; `details` are asked for where code at an offset is new.
    pub fn add_from(&mut self, access: &Access<'_>, details: impl FnOnce() -> Details) {
        let mapped = access.data_dso.is_some() && access.dso.is_some();
        let increments = Increments::of(access.word, access.addr, mapped);
        self.total.apply(&increments);
        let Some(line) = self.line(access) else {
            self.other.apply(&increments);
            return;
        };
        let bytes = self.size.bytes();
        let physical = (access.phys != 0).then_some(access.phys / bytes);
        if let Some(line) = self.all.get_mut(line as usize) {
            line.counts.apply(&increments);
            line.physical.extend(physical);
            line.nodes.extend(access.node);
            if line.variable.is_none() {
                line.variable = variable(&mut self.names, access, bytes);
            }
        }
        let Some(site) = self.site(line, access, details) else {
            self.other.apply(&increments);
            return;
        };
        if let (Some(by_cpu), Some(cpu)) = (&mut self.by_cpu, access.cpu) {
            by_cpu.entry((site, cpu)).or_default().apply(&increments);
        }
        if let Some(site) = self.sites.get_mut(site as usize) {
            site.counts.apply(&increments);
            site.contended += u32::from(access.is_contended());
            site.writes += u32::from(access.writes());
            site.latencies.add(&increments, access.weight);
            site.cpus.extend(access.cpu);
            site.physical.extend(physical);
            site.nodes.extend(access.node);
        }
    }

    fn line(&mut self, access: &Access<'_>) -> Option<u32> {
        let bytes = self.size.bytes();
        let is_private = access.data_dso.is_some()
            && access.mode != Mode::Kernel
            && is_of_process(access.region, access.data_dso);
        let key = LineKey {
            mode: access.mode,
            dso: self.names.intern(access.data_dso.unwrap_or_default()),
            pid: if is_private { access.pid } else { 0 },
            place: access.place / bytes * bytes,
        };
        if let Some(line) = self.line_index.get(&key) {
            return Some(*line);
        }
        if self.all.len() >= LINES_MAX {
            return None;
        }
        let at = u32::try_from(self.all.len()).ok()?;
        self.all.push(Line {
            address: access.addr / bytes * bytes,
            counts: Counts::default(),
            data_dso: key.dso,
            variable: None,
            region: access.region,
            nodes: Set::default(),
            physical: Set::default(),
            sites: Vec::new(),
        });
        self.line_index.insert(key, at);
        Some(at)
    }

    fn site(
        &mut self,
        line: u32,
        access: &Access<'_>,
        details: impl FnOnce() -> Details,
    ) -> Option<u32> {
        let bytes = self.size.bytes();
        let key = SiteKey {
            line,
            offset: u8::try_from(access.place % bytes).unwrap_or(u8::MAX),
            ip: access.ip,
            pid: access.pid,
            tid: access.tid,
            memory: access.memory(bytes),
        };
        if let Some(site) = self.site_index.get(&key) {
            return Some(*site);
        }
        if self.sites.len() >= SITES_MAX {
            return None;
        }
        let at = u32::try_from(self.sites.len()).ok()?;
        let Details { source, member } = details();
        self.sites.push(Site {
            key,
            who: access.who(),
            counts: Counts::default(),
            contended: 0,
            writes: 0,
            latencies: rows::Latencies::default(),
            cpus: Set::default(),
            nodes: Set::default(),
            physical: Set::default(),
            symbol: access.symbol.map(|symbol| self.names.intern(symbol)),
            dso: self.names.intern(access.dso.unwrap_or("[unknown]")),
            source: source.map(|source| self.names.intern(&source)),
            member: member.map(|member| self.names.intern(&member)),
            mode: access.mode,
        });
        self.site_index.insert(key, at);
        self.all.get_mut(line as usize)?.sites.push(at);
        Some(at)
    }

    /// Counters over everything.
    pub fn total(&self) -> &Counts {
        &self.total
    }

    /// Counters of what no line or site had room for.
    pub fn other(&self) -> &Counts {
        &self.other
    }

    /// Lines seen.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Size of a line.
    pub fn size(&self) -> LineSize {
        self.size
    }
}

/// The variable, and where the line starts seen from the variable's start.
fn variable(names: &mut Names, access: &Access<'_>, bytes: u64) -> Option<(NameIx, i64)> {
    let (name, into) = access.variable?;
    let offset = access.place % bytes;
    let distance = into.cast_signed().wrapping_sub(offset.cast_signed());
    Some((names.intern(name), distance))
}

#[cfg(test)]
mod tests;
