//! Which instructions and lines of a function the samples fall on, and what they waited for.
//!
//! [`Sites`] takes samples and sums them by instruction; [`Listing`] lays the sums of one function over its instructions and
//! source lines.

mod disassembly;
mod listing;

pub use disassembly::{Code, Instruction, Machine, disassemble};
pub use listing::{Line, Listing, Row};

use crate::significance::Sums;
use memwide_decoder::ObjectIx;
use memwide_decoder::local::{LocalSample, Wanted};
use memwide_model::{Level, Locality};
use memwide_objects::SymbolRef;
use rustc_hash::FxHashMap;

/// Most instructions kept; what comes beyond is counted in the totals alone. Hostile files must not fill memory.
const SITES_MAX: usize = 1 << 22;

/// What the question needs of samples.
pub fn wanted() -> Wanted {
    Wanted::CODE | Wanted::DERIVED
}

/// Where accesses were served, coarse enough for columns; together they are all samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// Level 1 (or 0).
    L1,
    /// A fill buffer: another miss of the line was pending.
    Lfb,
    /// Level 2.
    L2,
    /// Level 3, 4, or a local cache whose level is not told.
    L3,
    /// Memory of the own node, or of a node that is not told; CXL and persistent memory too.
    Ram,
    /// Cache or memory of another node.
    Remote,
    /// Anything else, or not told.
    Other,
}

impl Served {
    /// All, in the order of the columns.
    pub const ALL: [Self; 7] = [
        Self::L1,
        Self::Lfb,
        Self::L2,
        Self::L3,
        Self::Ram,
        Self::Remote,
        Self::Other,
    ];

    /// Name of the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::L1 => "L1",
            Self::Lfb => "LFB",
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::Ram => "RAM",
            Self::Remote => "remote",
            Self::Other => "other",
        }
    }

    fn of(sample: &LocalSample<'_>) -> Self {
        let derived = &sample.derived;
        if derived.locality == Locality::Remote {
            return Self::Remote;
        }
        match derived.class.level {
            Level::L0 | Level::L1 => Self::L1,
            Level::Lfb => Self::Lfb,
            Level::L2 | Level::L2Mhb => Self::L2,
            Level::L3 | Level::L4 | Level::AnyCache | Level::Msc => Self::L3,
            Level::Ram | Level::Cxl | Level::Pmem => Self::Ram,
            _ => Self::Other,
        }
    }
}

/// A mean over the samples that have the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    /// Samples with a value above 0.
    pub n: u64,
    /// Σ value, in cycles.
    pub sum: u64,
}

impl Latency {
    fn add(&mut self, cycles: u64) {
        self.n += u64::from(cycles > 0);
        self.sum = self.sum.saturating_add(cycles);
    }

    fn merge(&mut self, other: Self) {
        self.n += other.n;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Cycles; `None` where no sample has a value.
    pub fn mean(self) -> Option<f64> {
        (self.n > 0).then(|| self.sum as f64 / self.n as f64)
    }
}

/// What is summed of an instruction, a line or a function.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counts {
    /// Samples, and the value that shares rest on.
    pub sums: Sums,
    /// Samples by where they were served, as [`Served::ALL`].
    pub served: [u64; Served::ALL.len()],
    /// Weight, in the unit of the PMU.
    pub weight: Latency,
    /// Instruction latency.
    pub ins_lat: Latency,
    /// Retire latency.
    pub retire_lat: Latency,
}

impl Counts {
    fn add(&mut self, sample: &LocalSample<'_>, value: f64) {
        self.sums.add(value);
        if let Some(count) = self.served.get_mut(Served::of(sample) as usize) {
            *count += 1;
        }
        if let Some(weight) = sample.weight() {
            self.weight.add(weight.weight);
            self.ins_lat.add(weight.ins_lat.into());
            self.retire_lat.add(weight.retire_lat.into());
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.sums.merge(&other.sums);
        for (count, more) in self.served.iter_mut().zip(other.served) {
            *count += more;
        }
        self.weight.merge(other.weight);
        self.ins_lat.merge(other.ins_lat);
        self.retire_lat.merge(other.retire_lat);
    }

    /// Samples served there.
    pub fn served(&self, by: Served) -> u64 {
        self.served.get(by as usize).copied().unwrap_or(0)
    }
}

/// A function, for one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// Place of the event in the file.
    pub event: usize,
    /// What is mapped there.
    pub object: ObjectIx,
    /// Its symbol in the table of that.
    pub symbol: SymbolRef,
}

/// Samples by instruction.
#[derive(Debug, Default)]
pub struct Sites {
    instructions: FxHashMap<(Function, u64), Counts>,
    functions: FxHashMap<Function, Counts>,
    /// All samples of each event.
    totals: Vec<Counts>,
    /// Samples in no function.
    nameless: u64,
}

impl Sites {
    /// Adds a sample, which counts with this value where shares are told.
    pub fn add(&mut self, sample: &LocalSample<'_>, value: f64) {
        let event = sample.event_index;
        if self.totals.len() <= event {
            self.totals.resize(event + 1, Counts::default());
        }
        if let Some(total) = self.totals.get_mut(event) {
            total.add(sample, value);
        }
        let place = sample.code_place();
        let Some((place, object, symbol)) = place.and_then(|p| Some((p, p.object?, p.symbol?)))
        else {
            self.nameless += 1;
            return;
        };
        let function = Function {
            event,
            object,
            symbol,
        };
        self.functions
            .entry(function)
            .or_default()
            .add(sample, value);
        let key = (function, place.address);
        if self.instructions.len() < SITES_MAX || self.instructions.contains_key(&key) {
            self.instructions.entry(key).or_default().add(sample, value);
        }
    }

    /// All functions, the largest share of its event first.
    pub fn functions(&self) -> Vec<(Function, Counts)> {
        let mut all: Vec<_> = self
            .functions
            .iter()
            .map(|(f, counts)| (*f, *counts))
            .collect();
        let share = |function: &Function, counts: &Counts| {
            counts
                .sums
                .share(&self.total(function.event).sums)
                .unwrap_or(0.0)
        };
        all.sort_unstable_by(|(a, of_a), (b, of_b)| {
            let by_share = share(b, of_b).total_cmp(&share(a, of_a));
            by_share.then_with(|| a.cmp(b))
        });
        all
    }

    /// All samples of an event.
    pub fn total(&self, event: usize) -> Counts {
        self.totals.get(event).copied().unwrap_or_default()
    }

    /// Samples in no function.
    pub fn nameless(&self) -> u64 {
        self.nameless
    }

    /// The sums of a function's instructions by address, in ascending order.
    pub fn of(&self, function: Function) -> Vec<(u64, Counts)> {
        let of = self
            .instructions
            .iter()
            .filter(|((of, _), _)| *of == function);
        let mut sites: Vec<_> = of
            .map(|((_, address), counts)| (*address, *counts))
            .collect();
        sites.sort_unstable_by_key(|(address, _)| *address);
        sites
    }
}
