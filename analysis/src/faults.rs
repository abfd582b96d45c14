//! Where do page faults come from: which functions, in which memory, minor or major?
//!
//! The events are counted by the kernel without gaps, so Σ period estimates the faults; with a period of 1 it is their number.

use crate::site::{self, Site, SiteKey};
use memwide_decoder::Names;
use memwide_decoder::local::{LocalSample, Wanted};
use memwide_model::Region;
use memwide_perf_abi::attr_kind;
use memwide_perf_abi::file::Event;
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Most pages told apart for one row.
const PAGES_MAX: usize = 1 << 20;
/// Most rows.
const ROWS_MAX: usize = 1 << 20;

/// Numbers of the software events, as the kernel gives them.
const PAGE_FAULTS: u64 = 2;
const MINOR_FAULTS: u64 = 5;
const MAJOR_FAULTS: u64 = 6;

/// Kernel functions that every fault goes through.
const ENTRY: [&str; 10] = [
    "asm_exc_page_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "do_kern_addr_fault",
    "handle_mm_fault",
    "__handle_mm_fault",
    "do_page_fault",
    "do_mem_abort",
    "page_fault",
    "perf_",
];

/// What must be known of samples.
pub fn wanted() -> Wanted {
    Wanted::CODE | Wanted::FRAMES | Wanted::DATA | Wanted::DERIVED
}

/// What an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Served without reading from a device.
    Minor,
    /// Had to read from a device.
    Major,
    /// Both (`page-faults`): the same faults as minor and major together.
    All,
    /// The processor's exception (`exceptions:page_fault_*`), whatever became of it.
    Exception,
}

impl Kind {
    /// Of an event; `None` if it counts no faults.
    pub fn of(event: &Event) -> Option<Self> {
        match (event.attr.kind, event.attr.config) {
            (attr_kind::SOFTWARE, PAGE_FAULTS) => Some(Self::All),
            (attr_kind::SOFTWARE, MINOR_FAULTS) => Some(Self::Minor),
            (attr_kind::SOFTWARE, MAJOR_FAULTS) => Some(Self::Major),
            (attr_kind::TRACEPOINT, _) if event.name.starts_with("exceptions:page_fault") => {
                Some(Self::Exception)
            }
            _ => None,
        }
    }

    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minor => "minor",
            Self::Major => "major",
            Self::All => "all",
            Self::Exception => "exception",
        }
    }
}

/// One fault sample.
#[derive(Debug, Clone, Copy)]
pub struct Fault<'a> {
    /// What its event counts.
    pub kind: Kind,
    /// Who ran into it.
    pub site: Site<'a>,
    /// In which memory.
    pub region: Region,
    /// Data address; 0 if not recorded.
    pub addr: u64,
    /// Process.
    pub pid: u32,
    /// Faults it stands for.
    pub period: u64,
}

impl<'a> Fault<'a> {
    /// Of a sample, with that many callers; `None` if its event counts no faults.
    pub fn of(sample: &LocalSample<'a>, callers: usize, buffer: &'a mut String) -> Option<Self> {
        let wanted = site::Wanted {
            skip: &ENTRY,
            over: &[],
            callers,
        };
        Some(Self {
            kind: Kind::of(sample.event)?,
            site: Site::of(sample, wanted, buffer),
            region: sample.derived.region,
            addr: sample.addr().unwrap_or(0),
            pid: sample.pid().unwrap_or(0),
            period: sample.period,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    site: SiteKey,
    region: Region,
}

#[derive(Debug, Default)]
struct Sums {
    samples: u64,
    faults: u64,
    pages: FxHashSet<(u32, u64)>,
}

/// Faults by function and memory.
#[derive(Debug, Default)]
pub struct Faults {
    names: Names,
    rows: FxHashMap<Key, Sums>,
    totals: FxHashMap<Kind, (u64, u64)>,
    other: u64,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<'a> {
    /// What is counted.
    pub kind: Kind,
    /// Who ran into it.
    pub site: Site<'a>,
    /// In which memory.
    pub region: Region,
    /// Samples.
    pub samples: u64,
    /// Σ period: faults.
    pub faults: u64,
    /// Share of the faults of its kind.
    pub share: f64,
    /// Different pages among the samples; 0 where no addresses are recorded.
    pub pages: u64,
}

impl Faults {
    /// Adds a fault.
    pub fn add(&mut self, fault: &Fault<'_>) {
        let total = self.totals.entry(fault.kind).or_default();
        total.0 += 1;
        total.1 = total.1.saturating_add(fault.period);
        let key = Key {
            kind: fault.kind,
            site: SiteKey::of(&mut self.names, &fault.site),
            region: fault.region,
        };
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            self.other += 1;
            return;
        }
        let sums = self.rows.entry(key).or_default();
        sums.samples += 1;
        sums.faults = sums.faults.saturating_add(fault.period);
        if fault.addr != 0 && sums.pages.len() < PAGES_MAX {
            sums.pages.insert((fault.pid, fault.addr / PAGE));
        }
    }

    /// Samples and Σ period of each kind.
    pub fn totals(&self) -> Vec<(Kind, u64, u64)> {
        let totals = self.totals.iter();
        let mut all: Vec<_> = totals
            .map(|(kind, (samples, faults))| (*kind, *samples, *faults))
            .collect();
        all.sort_unstable();
        all
    }

    /// Samples that no row had room for.
    pub fn other(&self) -> u64 {
        self.other
    }

    /// The rows, the most faults first.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let row = |(key, sums): (&Key, &Sums)| Row {
            kind: key.kind,
            site: key.site.site(&self.names),
            region: key.region,
            samples: sums.samples,
            faults: sums.faults,
            share: self.totals.get(&key.kind).map_or(0.0, |(_, faults)| {
                sums.faults as f64 / (*faults).max(1) as f64
            }),
            pages: sums.pages.len() as u64,
        };
        let mut rows: Vec<Row<'_>> = self.rows.iter().map(row).collect();
        rows.sort_by(|one, other| {
            let by_faults = other.faults.cmp(&one.faults);
            by_faults.then_with(|| (one.kind, one.site).cmp(&(other.kind, other.site)))
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(function: &'static str, addr: u64, kind: Kind) -> Fault<'static> {
        Fault {
            kind,
            site: Site::named(function),
            region: Region::Heap,
            addr,
            pid: 1,
            period: 7,
        }
    }

    #[test]
    fn faults_are_summed_by_function_and_kind_and_pages_counted_once() {
        let mut faults = Faults::default();
        faults.add(&fault("fill", 0x1000, Kind::Minor));
        faults.add(&fault("fill", 0x1008, Kind::Minor));
        faults.add(&fault("read", 0x5000, Kind::Minor));
        faults.add(&fault("fill", 0x9000, Kind::Major));
        let rows = faults.rows();
        assert_eq!(faults.totals(), [(Kind::Minor, 3, 21), (Kind::Major, 1, 7)]);
        assert_eq!(rows.len(), 3);
        let first = &rows[0];
        assert_eq!(
            (first.site.function, first.faults, first.pages),
            ("fill", 14, 1)
        );
        assert!((first.share - 14.0 / 21.0).abs() < 1e-12);
    }
}
