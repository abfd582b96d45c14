//! Rows: sums of the samples with equal keys, apart for each event. Nothing is allocated for a sample whose row exists.

use super::Estimator;
use super::interval::{Sums, share};
use super::keys::{Key, Reader, Shown, data_src};
use hashbrown::HashTable;
use memwide_decoder::local::LocalSample;
use memwide_model::DataSrc;
use memwide_perf_abi::file::{EventTable, Features};
use memwide_perf_abi::sample;
use rustc_hash::FxHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

/// What is summed; a sum that 64 bits cannot hold stays at their end, as only made-up weights reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Measures {
    /// Samples.
    pub(super) samples: u64,
    /// Σ weight, in the unit of the PMU.
    pub(super) weight: u64,
    /// Σ weight, 0 counted as 1.
    pub(super) perf_weight: u64,
    /// Σ period, in events.
    pub(super) period: u64,
    /// Σ instruction latency, in cycles.
    pub(super) ins_lat: u64,
    /// Σ retire latency, in cycles.
    pub(super) retire_lat: u64,
}

impl Measures {
    fn of(sample: &LocalSample<'_>) -> Self {
        let weight = sample.weight().unwrap_or_default();
        Self {
            samples: 1,
            weight: weight.weight,
            perf_weight: weight.weight.max(1),
            period: sample.period,
            ins_lat: weight.ins_lat.into(),
            retire_lat: weight.retire_lat.into(),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.weight = self.weight.saturating_add(other.weight);
        self.perf_weight = self.perf_weight.saturating_add(other.perf_weight);
        self.period = self.period.saturating_add(other.period);
        self.ins_lat = self.ins_lat.saturating_add(other.ins_lat);
        self.retire_lat = self.retire_lat.saturating_add(other.retire_lat);
    }

    /// The value that an estimator sums.
    fn value(&self, by: Estimator) -> f64 {
        let value = match by {
            Estimator::Samples => self.samples,
            Estimator::Weight => self.weight,
            Estimator::PerfWeight => self.perf_weight,
            Estimator::Period => self.period,
        };
        value as f64
    }
}

/// What is known of an event's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Weights {
    /// It records weights.
    pub(super) any: bool,
    /// It records instruction and retire latency beside them.
    pub(super) latencies: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    measures: Measures,
    sums: Sums,
}

/// Numbers of keys that stand in the row itself, so that comparing them with a sample's is one look into memory.
const INLINE: usize = 2;

#[derive(Debug)]
struct Row {
    hash: u64,
    event: usize,
    /// Numbers of the first keys.
    inline: [u64; INLINE],
    /// `data_src` of the first sample.
    first: DataSrc,
    measures: Measures,
    /// Σ value² of the estimator that `overhead` rests on.
    squares: f64,
}

/// One row, ready to be shown.
#[derive(Debug)]
pub(super) struct Ready {
    /// Index of the event.
    pub(super) event: usize,
    /// One for each key.
    pub(super) keys: Vec<Shown>,
    pub(super) measures: Measures,
    /// Share within the event and its interval; `None` if the event has nothing to share.
    pub(super) share: Option<(f64, Option<[f64; 2]>)>,
}

/// The sums of a file.
#[derive(Debug)]
pub(crate) struct Rows {
    keys: Vec<Key>,
    events: Arc<EventTable>,
    /// What `overhead` rests on, for each event.
    by: Vec<Estimator>,
    reader: Reader,
    all: Vec<Row>,
    /// Numbers of the keys behind the first, row after row.
    more: Vec<u64>,
    index: HashTable<u32>,
    totals: Vec<Total>,
    /// Samples that wait for their rows; their numbers one after the other.
    waiting: Vec<Waiting>,
    numbers: Vec<u64>,
}

/// Samples whose rows are looked up together: the memory they lie in then comes in one wait, not one after the other.
const TOGETHER: usize = 64;

/// What of a sample goes into its row.
#[derive(Debug)]
struct Waiting {
    hash: u64,
    event: usize,
    first: DataSrc,
    measures: Measures,
    value: f64,
}

impl Rows {
    /// For a file with these events and features. Without an estimator each event gets perf's: weight where there is one,
    /// else the number of samples.
    pub(crate) fn new(
        keys: Vec<Key>,
        by: Option<Estimator>,
        events: &Arc<EventTable>,
        features: &Features,
    ) -> Self {
        let count = events.events().len();
        let by =
            (0..count).map(|event| by.unwrap_or_else(|| default_estimator(weights(events, event))));
        Self {
            by: by.collect(),
            reader: Reader::new(features),
            all: Vec::new(),
            more: Vec::new(),
            index: HashTable::new(),
            totals: vec![Total::default(); count],
            waiting: Vec::with_capacity(TOGETHER),
            numbers: Vec::with_capacity(TOGETHER * keys.len()),
            events: Arc::clone(events),
            keys,
        }
    }

    /// Adds a sample to its row.
    pub(crate) fn add(&mut self, sample: &LocalSample<'_>) {
        let event = sample.event_index;
        let (Some(by), Some(total)) = (self.by.get(event), self.totals.get_mut(event)) else {
            return;
        };
        let measures = Measures::of(sample);
        let value = measures.value(*by);
        total.measures.add(&measures);
        total.sums.add(value);
        let at = self.numbers.len();
        let mut hasher = FxHasher::default();
        event.hash(&mut hasher);
        for key in &self.keys {
            self.numbers.push(self.reader.read(*key, sample));
        }
        let numbers = self.numbers.get(at..).unwrap_or_default();
        numbers.hash(&mut hasher);
        self.waiting.push(Waiting {
            hash: hasher.finish(),
            event,
            first: data_src(sample),
            measures,
            value,
        });
        if self.waiting.len() >= TOGETHER {
            self.settle();
        }
    }

    /// Adds the samples that still wait; to be called after the last one.
    pub(crate) fn settle(&mut self) {
        let (waiting, numbers) = (
            std::mem::take(&mut self.waiting),
            std::mem::take(&mut self.numbers),
        );
        let width = self.keys.len();
        for (at, sample) in waiting.iter().enumerate() {
            let at = self.row(sample, numbers_at(&numbers, at, width));
            if let Some(row) = self.all.get_mut(at) {
                row.measures.add(&sample.measures);
                row.squares += sample.value * sample.value;
            }
        }
        (self.waiting, self.numbers) = (waiting, numbers);
        self.waiting.clear();
        self.numbers.clear();
    }

    /// The row of a sample with these numbers.
    fn row(&mut self, sample: &Waiting, numbers: &[u64]) -> usize {
        let (hash, event, first) = (sample.hash, sample.event, sample.first);
        let mut inline = [0; INLINE];
        let (few, many) = numbers.split_at(numbers.len().min(INLINE));
        for (place, number) in inline.iter_mut().zip(few) {
            *place = *number;
        }
        let (all, more) = (&self.all, &self.more);
        let is_same = |at: &u32| {
            let at = *at as usize;
            let same = |row: &Row| row.inline == inline && row.event == event;
            all.get(at).is_some_and(same) && numbers_at(more, at, many.len()) == many
        };
        if let Some(at) = self.index.find(hash, is_same) {
            return *at as usize;
        }
        let at = self.all.len();
        let Ok(place) = u32::try_from(at) else {
            return at; // no file has so many samples
        };
        self.all.push(Row {
            hash,
            event,
            inline,
            first,
            measures: Measures::default(),
            squares: 0.0,
        });
        self.more.extend_from_slice(many);
        let all = &self.all;
        let hash_of = |at: &u32| all.get(*at as usize).map_or(0, |row| row.hash);
        self.index.insert_unique(hash, place, hash_of);
        at
    }

    /// The keys.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Name of an event.
    pub(super) fn event_name(&self, event: usize) -> &str {
        self.events.get(event).map_or("", |event| &event.name)
    }

    /// What an event's weights are.
    pub(super) fn weights(&self, event: usize) -> Weights {
        weights(&self.events, event)
    }

    /// What `overhead` of an event rests on.
    pub(super) fn estimator(&self, event: usize) -> Estimator {
        self.by.get(event).copied().unwrap_or(Estimator::Samples)
    }

    /// Sums of each event that has samples.
    pub(super) fn totals(&self) -> impl Iterator<Item = (usize, &Measures)> {
        let totals = self.totals.iter().enumerate();
        totals
            .map(|(event, total)| (event, &total.measures))
            .filter(|(_, total)| total.samples > 0)
    }

    fn sums(&self, row: &Row) -> Sums {
        Sums {
            n: row.measures.samples,
            sum: row.measures.value(self.estimator(row.event)),
            squares: row.squares,
        }
    }

    /// All rows: by event, the largest share first, equal ones by their texts.
    pub(super) fn ready(&self) -> Vec<Ready> {
        let more = self.keys.len().saturating_sub(INLINE);
        let mut ready: Vec<Ready> = Vec::with_capacity(self.all.len());
        for (at, row) in self.all.iter().enumerate() {
            let inline = row.inline.iter().take(self.keys.len());
            let numbers = inline.chain(numbers_at(&self.more, at, more));
            let event = self.event_name(row.event);
            let keys = self.keys.iter().zip(numbers);
            let whole = self
                .totals
                .get(row.event)
                .map_or_else(Sums::default, |total| total.sums);
            ready.push(Ready {
                event: row.event,
                keys: keys
                    .map(|(key, number)| self.reader.show(*key, *number, row.first, event))
                    .collect(),
                measures: row.measures,
                share: share(self.sums(row), whole),
            });
        }
        let part = |row: &Ready| row.share.map_or(0.0, |(part, _)| part);
        ready.sort_by(|one, other| {
            let by_share = part(other).total_cmp(&part(one));
            let by_event = one.event.cmp(&other.event);
            by_event
                .then(by_share)
                .then_with(|| texts(one).cmp(texts(other)))
        });
        ready
    }
}

/// A row to be matched with those of another file.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// Name of the event.
    pub(crate) event: String,
    /// One text for each key.
    pub(crate) keys: Vec<String>,
    /// Sums of what `overhead` of the event rests on.
    pub(crate) sums: memwide_analysis::significance::Sums,
}

fn comparable(sums: Sums) -> memwide_analysis::significance::Sums {
    memwide_analysis::significance::Sums {
        n: sums.n,
        sum: sums.sum,
        squares: sums.squares,
    }
}

impl Rows {
    /// All rows, to be matched with those of another file.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let more = self.keys.len().saturating_sub(INLINE);
        let part = |(at, row): (usize, &Row)| {
            let event = self.event_name(row.event);
            let inline = row.inline.iter().take(self.keys.len());
            let numbers = inline.chain(numbers_at(&self.more, at, more));
            let keys = self.keys.iter().zip(numbers);
            let text = |(key, number): (&Key, &u64)| {
                let shown = self.reader.show(*key, *number, row.first, event);
                crate::output::plain(&shown.value)
            };
            Part {
                event: event.to_owned(),
                keys: keys.map(text).collect(),
                sums: comparable(self.sums(row)),
            }
        };
        self.all.iter().enumerate().map(part).collect()
    }

    /// Name, estimator and sums of each event that has samples.
    pub(crate) fn wholes(&self) -> Vec<(String, Estimator, memwide_analysis::significance::Sums)> {
        let totals = self.totals.iter().enumerate();
        totals
            .filter(|(_, total)| total.measures.samples > 0)
            .map(|(event, total)| {
                let name = self.event_name(event).to_owned();
                (name, self.estimator(event), comparable(total.sums))
            })
            .collect()
    }
}

/// The numbers of the row at `at`, of which each row has `width`.
fn numbers_at(more: &[u64], at: usize, width: usize) -> &[u64] {
    more.get(at * width..(at + 1) * width).unwrap_or_default()
}

fn texts(row: &Ready) -> impl Iterator<Item = (Option<u64>, &str)> {
    row.keys.iter().map(|shown| {
        (
            shown.value.as_u64(),
            shown.value.as_str().unwrap_or_default(),
        )
    })
}

fn weights(events: &EventTable, event: usize) -> Weights {
    let kind = events.get(event).map_or(0, |event| event.attr.sample_type);
    Weights {
        any: kind & (sample::WEIGHT | sample::WEIGHT_STRUCT) != 0,
        latencies: kind & sample::WEIGHT_STRUCT != 0,
    }
}

fn default_estimator(weights: Weights) -> Estimator {
    if weights.any {
        Estimator::PerfWeight
    } else {
        Estimator::Samples
    }
}
