//! Sums over precise accesses: locality, translation, level, and in which order a function walks through memory.

use crate::significance::Sums;
use memwide_decoder::local::{LocalSample, Wanted};
use memwide_decoder::{NameIx, Names};
use memwide_model::{Level, Locality, Op, Outcome, Tlb};
use rustc_hash::FxHashMap;

/// Functions told apart, at most.
const FUNCTIONS_MAX: usize = 1 << 16;
/// Threads whose last address is remembered, at most.
const THREADS_MAX: usize = 1 << 16;

/// What must be known of samples.
pub fn wanted() -> Wanted {
    Wanted::CODE | Wanted::DERIVED | Wanted::DATA
}

/// Sums of a function, or of all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Function {
    /// Accesses with a data source.
    pub accesses: u64,
    /// Of those, loads.
    pub loads: u64,
    /// Accesses whose locality is known.
    pub located: u64,
    /// Of those, remote.
    pub remote: u64,
    /// Accesses whose translation is known.
    pub translated: u64,
    /// Of those, by a walk of the page tables.
    pub walked: u64,
    /// Weights of loads whose level is known; 1 each where there are none.
    pub levelled: Sums,
    /// Of those, served by memory.
    pub memory: Sums,
    /// Loads that lie behind the thread's last one in this function.
    pub ascending: u64,
    /// … before it.
    pub descending: u64,
}

impl Function {
    fn add(&mut self, sample: &LocalSample<'_>, step: Option<std::cmp::Ordering>) {
        let derived = &sample.derived;
        let class = &derived.class;
        self.accesses += 1;
        if derived.locality != Locality::Unknown {
            self.located += 1;
            self.remote += u64::from(derived.locality == Locality::Remote);
        }
        if class.tlb != Tlb::Unknown {
            self.translated += 1;
            self.walked += u64::from(class.tlb == Tlb::Walk);
        }
        if !is_load(class.op) {
            return;
        }
        self.loads += 1;
        match step {
            Some(std::cmp::Ordering::Greater) => self.ascending += 1,
            Some(std::cmp::Ordering::Less) => self.descending += 1,
            _ => {}
        }
        if class.outcome == Outcome::Hit && !matches!(class.level, Level::Unknown | Level::None) {
            let weight = sample.weight().map_or(1, |weight| weight.weight.max(1));
            let weight = weight as f64;
            self.levelled.add(weight);
            if matches!(class.level, Level::Ram | Level::Cxl | Level::Pmem) {
                self.memory.add(weight);
            }
        }
    }
}

fn is_load(op: Op) -> bool {
    matches!(op, Op::Load | Op::LoadStore)
}

/// Accesses of a file.
#[derive(Debug, Default)]
pub struct Memory {
    names: Names,
    functions: FxHashMap<NameIx, Function>,
    total: Function,
    /// The last address of a thread in a function.
    last: FxHashMap<(u32, NameIx), u64>,
}

impl Memory {
    /// Adds a sample; what is no precise access is passed over.
    pub fn add(&mut self, sample: &LocalSample<'_>) {
        let has_source = sample.data_src().is_some() && sample.derived.class.op != Op::Unknown;
        if !has_source || sample.derived.class.op == Op::None {
            return;
        }
        let name = self
            .names
            .intern(sample.code().symbol.unwrap_or("[unknown]"));
        let mut step = None;
        if let (Some(addr), Some(tid)) = (sample.addr().filter(|addr| *addr != 0), sample.tid())
            && is_load(sample.derived.class.op)
            && (self.last.len() < THREADS_MAX || self.last.contains_key(&(tid, name)))
        {
            let before = self.last.insert((tid, name), addr);
            step = before.map(|before| addr.cmp(&before));
        }
        self.total.add(sample, step);
        if self.functions.len() < FUNCTIONS_MAX || self.functions.contains_key(&name) {
            self.functions.entry(name).or_default().add(sample, step);
        }
    }

    /// All together.
    pub fn total(&self) -> &Function {
        &self.total
    }

    /// The function that has most of something, and its sums.
    pub fn most(&self, of: impl Fn(&Function) -> f64) -> Option<(&str, &Function)> {
        let mut all: Vec<(&str, &Function)> = self
            .functions
            .iter()
            .map(|(name, sums)| (self.names.get(*name), sums))
            .collect();
        // Equal ones by name, so that the answer is the same every time.
        all.sort_unstable_by_key(|(name, _)| *name);
        all.into_iter()
            .rev()
            .max_by(|(_, one), (_, other)| of(one).total_cmp(&of(other)))
    }
}
