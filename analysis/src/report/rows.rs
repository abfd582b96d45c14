//! Rows: sums of the samples with equal keys, apart for each event. Nothing is allocated for a sample whose row exists.

use super::Estimator;
use super::calls::Children;
use super::index::Index;
use super::keys::Key;
use super::measures::{Measures, Weights};
use super::order::{Order, Ranks, in_order};
use super::paths::{NO_PATH, Paths};
use super::reader::{First, Reader, Shown, data_src};
use crate::interval::share;
use crate::significance::Sums;
use memwide_decoder::local::LocalSample;
use memwide_perf_abi::file::{EventTable, Features};
use rustc_hash::FxHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    measures: Measures,
    sums: Sums,
}

/// Numbers of keys that stand in the row itself, so that comparing them with a sample's is one look into memory.
const INLINE: usize = 2;

/// What every sample of a row changes, and what tells rows apart: one line of the cache.
#[derive(Debug)]
#[repr(align(64))]
struct Row {
    /// Numbers of the first keys.
    inline: [u64; INLINE],
    event: u32,
    samples: u64,
    weight: u64,
    /// Samples of weight 0, which perf counts as 1.
    weightless: u64,
    period: u64,
    /// Σ value² of the estimator that `overhead` rests on.
    squares: f64,
}

/// What of a row is looked at in the end.
#[derive(Debug)]
struct Rest {
    /// Of the first sample.
    first: First,
    /// Tells which row is met earlier in the file: the chunk of its first sample, the number in it.
    met: (u64, u32),
    ins_lat: u64,
    retire_lat: u64,
}

/// One row, ready to be shown.
#[derive(Debug)]
pub struct Ready<'a> {
    /// Number of the row.
    pub(super) number: usize,
    /// Index of the event.
    pub event: usize,
    /// One for each key.
    pub keys: Vec<Shown<'a>>,
    /// What is summed.
    pub measures: Measures,
    /// Share within the event and its interval; `None` if the event has nothing to share.
    pub share: Option<(f64, Option<[f64; 2]>)>,
    /// The same of the function and all it called, if that was counted.
    pub children: Option<Children>,
}

/// The sums of a file.
#[derive(Debug)]
pub struct Rows {
    keys: Vec<Key>,
    events: Arc<EventTable>,
    /// What `overhead` rests on, for each event.
    by: Vec<Estimator>,
    reader: Reader,
    all: Vec<Row>,
    rest: Vec<Rest>,
    /// Numbers of the keys behind the first, row after row.
    more: Vec<u64>,
    index: Index,
    totals: Vec<Total>,
    /// Samples that wait for their rows; their further numbers one after the other.
    waiting: Vec<Waiting>,
    numbers: Vec<u64>,
    /// Callchains, if they are asked for.
    paths: Option<Paths>,
    /// By row, once counted.
    children: Vec<Children>,
    /// The chunk of the file that samples are of.
    chunk: u64,
    /// Rows show data symbols.
    shows_data: bool,
}

/// Samples whose rows are looked up together: the memory they lie in then comes in one wait, not one after the other.
const TOGETHER: usize = 64;

/// What of a sample goes into its row.
#[derive(Debug)]
struct Waiting {
    hash: u64,
    inline: [u64; INLINE],
    event: u32,
    path: u32,
    first: First,
    adds: Adds,
}

/// What a sample adds to the sums of its row.
#[derive(Debug, Clone, Copy, Default)]
struct Adds {
    weight: u64,
    period: u64,
    ins_lat: u64,
    retire_lat: u64,
    /// Of the estimator that `overhead` rests on.
    value: f64,
}

impl Rows {
    /// For a file with these events and features. Without an estimator each event gets perf's: weight where there is one,
    /// else the number of samples.
    pub fn new(
        keys: Vec<Key>,
        by: Option<Estimator>,
        events: &Arc<EventTable>,
        features: &Features,
    ) -> Self {
        let count = events.events().len();
        let shows_data = keys.contains(&Key::SymbolDaddr);
        let by = (0..count)
            .map(|event| by.unwrap_or_else(|| Weights::of(events, event).default_estimator()));
        Self {
            by: by.collect(),
            reader: Reader::new(features),
            all: Vec::new(),
            rest: Vec::new(),
            more: Vec::new(),
            index: Index::default(),
            totals: vec![Total::default(); count],
            waiting: Vec::with_capacity(TOGETHER),
            numbers: Vec::with_capacity(TOGETHER * keys.len().saturating_sub(INLINE)),
            events: Arc::clone(events),
            keys,
            paths: None,
            children: Vec::new(),
            chunk: 0,
            shows_data,
        }
    }

    /// Keeps callchains; samples must come with the callers of those met for the first time, and each through [`Rows::meet`].
    #[must_use]
    pub fn with_paths(mut self) -> Self {
        self.paths = Some(Paths::default());
        self
    }

    /// Takes note of a callchain. To be called for every sample, also those that do not count.
    #[inline]
    pub fn meet(&mut self, sample: &LocalSample<'_>) {
        if let Some(paths) = &mut self.paths {
            paths.meet(sample, &mut self.reader);
        }
    }

    /// Adds a sample to its row.
    pub fn add(&mut self, sample: &LocalSample<'_>) {
        let event = sample.event_index;
        let Some(by) = self.by.get(event) else {
            return;
        };
        let measures = Measures::of(sample);
        let adds = Adds {
            weight: measures.weight,
            period: measures.period,
            ins_lat: measures.ins_lat,
            retire_lat: measures.retire_lat,
            value: measures.value(*by),
        };
        let word = data_src(sample);
        let event = u32::try_from(event).unwrap_or(u32::MAX);
        let mut hasher = FxHasher::default();
        event.hash(&mut hasher);
        let mut inline = [0; INLINE];
        let (few, many) = self.keys.split_at(self.keys.len().min(INLINE));
        for (place, key) in inline.iter_mut().zip(few) {
            *place = self.reader.read(*key, sample, word);
            place.hash(&mut hasher);
        }
        for key in many {
            let number = self.reader.read(*key, sample, word);
            number.hash(&mut hasher);
            self.numbers.push(number);
        }
        let path = match &mut self.paths {
            Some(paths) => paths.of(sample, &mut self.reader),
            None => NO_PATH,
        };
        self.waiting.push(Waiting {
            hash: hasher.finish(),
            inline,
            event,
            path,
            first: self.reader.first(sample, word, self.shows_data),
            adds,
        });
        if self.waiting.len() >= TOGETHER {
            self.settle_waiting();
        }
    }

    /// Adds the samples that still wait; to be called after the last one.
    pub fn settle(&mut self) {
        self.settle_waiting();
        self.totals.fill(Total::default());
        for at in 0..self.all.len() {
            let event = self.all.get(at).map_or(0, |row| row.event as usize);
            let (measures, sums) = (self.measures(at), self.sums(at));
            if let (Some(total), Some(measures), Some(sums)) =
                (self.totals.get_mut(event), measures, sums)
            {
                total.measures.add(&measures);
                total.sums += sums;
            }
        }
    }

    /// In three passes, each of which looks at memory that nothing before it in the pass decides on: places in the index, then
    /// the rows found there, then the sums. So the processor waits for many of them at once.
    pub(super) fn settle_waiting(&mut self) {
        let (waiting, numbers) = (
            std::mem::take(&mut self.waiting),
            std::mem::take(&mut self.numbers),
        );
        let many = self.keys.len().saturating_sub(INLINE);
        let mut found = [None; TOGETHER];
        for (found, sample) in found.iter_mut().zip(&waiting) {
            *found = self.index.likely(sample.hash);
        }
        for (at, (found, sample)) in found.iter_mut().zip(&waiting).enumerate() {
            let numbers = numbers_at(&numbers, at, many);
            let is = found.is_some_and(|row| self.is_row(row, sample, numbers));
            *found = found.filter(|_| is);
        }
        for (at, (found, sample)) in found.iter().zip(&waiting).enumerate() {
            let row = match found {
                Some(row) => *row,
                None => self.row(sample, numbers_at(&numbers, at, many)),
            };
            self.add_to(row, &sample.adds);
            if let Some(paths) = &mut self.paths {
                paths.add(row, sample.path, 1, sample.adds.value);
            }
        }
        (self.waiting, self.numbers) = (waiting, numbers);
        self.waiting.clear();
        self.numbers.clear();
    }

    #[inline]
    fn add_to(&mut self, at: u32, adds: &Adds) {
        let at = at as usize;
        let Some(row) = self.all.get_mut(at) else {
            return;
        };
        row.samples += 1;
        row.weight = row.weight.saturating_add(adds.weight);
        row.weightless += u64::from(adds.weight == 0);
        row.period = row.period.saturating_add(adds.period);
        row.squares += adds.value * adds.value;
        if adds.ins_lat | adds.retire_lat != 0
            && let Some(rest) = self.rest.get_mut(at)
        {
            rest.ins_lat += adds.ins_lat;
            rest.retire_lat += adds.retire_lat;
        }
    }

    fn is_row(&self, at: u32, sample: &Waiting, numbers: &[u64]) -> bool {
        let at = at as usize;
        let same = |row: &Row| row.inline == sample.inline && row.event == sample.event;
        // Nothing is not compared: for no bytes the C library's `memcmp` still loads, masked, where an empty slice points, which
        // is nowhere; processors take hundreds of cycles for that.
        self.all.get(at).is_some_and(same)
            && (numbers.is_empty() || numbers_at(&self.more, at, numbers.len()) == numbers)
    }

    /// The row of a sample with these further numbers.
    fn row(&mut self, sample: &Waiting, numbers: &[u64]) -> u32 {
        let found = self
            .index
            .find(sample.hash, |at| self.is_row(at, sample, numbers));
        if let Some(at) = found {
            return at;
        }
        let Ok(at) = u32::try_from(self.all.len()) else {
            return u32::MAX; // no file has so many samples
        };
        self.all.push(Row {
            inline: sample.inline,
            event: sample.event,
            samples: 0,
            weight: 0,
            weightless: 0,
            period: 0,
            squares: 0.0,
        });
        self.rest.push(Rest {
            first: sample.first,
            met: (self.chunk, at),
            ins_lat: 0,
            retire_lat: 0,
        });
        self.more.extend_from_slice(numbers);
        self.index.insert(sample.hash, at);
        at
    }

    pub(super) fn set_chunk(&mut self, chunk: u64) {
        self.chunk = chunk;
        self.reader.set_chunk(chunk);
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(super) fn reader_mut(&mut self) -> &mut Reader {
        &mut self.reader
    }

    /// What is shown of a row's first sample.
    pub(super) fn first(&self, at: usize) -> First {
        self.rest
            .get(at)
            .map_or_else(First::default, |rest| rest.first)
    }

    /// Adds the sums of a row of others to one here; the first sample, of which `first` is shown, is the one of the earlier
    /// chunk.
    pub(super) fn add_row(&mut self, at: usize, other: &Self, from: usize, first: First) {
        let more = other.all.get(from).zip(other.rest.get(from));
        let here = self.all.get_mut(at).zip(self.rest.get_mut(at));
        let (Some((row, rest)), Some((more, more_rest))) = (here, more) else {
            return;
        };
        if row.samples == 0 || more_rest.met < rest.met {
            (rest.first, rest.met) = (first, more_rest.met);
        }
        rest.ins_lat += more_rest.ins_lat;
        rest.retire_lat += more_rest.retire_lat;
        row.samples += more.samples;
        row.weight = row.weight.saturating_add(more.weight);
        row.weightless += more.weightless;
        row.period = row.period.saturating_add(more.period);
        row.squares += more.squares;
    }

    /// The keys.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Name of an event.
    pub fn event_name(&self, event: usize) -> &str {
        self.events.get(event).map_or("", |event| &event.name)
    }

    /// What an event's weights are.
    pub fn weights(&self, event: usize) -> Weights {
        Weights::of(&self.events, event)
    }

    /// What `overhead` of an event rests on.
    pub fn estimator(&self, event: usize) -> Estimator {
        self.by.get(event).copied().unwrap_or(Estimator::Samples)
    }

    /// Sum of what `overhead` of an event rests on.
    pub fn sum(&self, event: usize) -> f64 {
        self.whole(event).map_or(0.0, |whole| whole.sum)
    }

    /// Sums of each event that has samples.
    pub fn totals(&self) -> impl Iterator<Item = (usize, &Measures)> {
        let totals = self.totals.iter().enumerate();
        totals
            .map(|(event, total)| (event, &total.measures))
            .filter(|(_, total)| total.samples > 0)
    }

    /// At most so many rows: by event, the largest share first, equal ones by their texts, then as they come in the file.
    pub fn ready(&self, limit: usize) -> Vec<Ready<'_>> {
        let mut ranks = Vec::with_capacity(self.keys.len());
        for (place, key) in self.keys.iter().enumerate() {
            let shown = (0..self.all.len()).map(|at| self.shown_at(at, place, *key));
            ranks.push(Ranks::of(shown));
        }
        let places = (0..self.all.len()).map(|at| Order {
            event: self.all.get(at).map_or(0, |row| row.event),
            share: self.share_to_order_by(at).unwrap_or(0.0),
            met: self.rest.get(at).map_or((0, 0), |rest| rest.met),
            row: at,
        });
        let rows = in_order(places.collect(), &ranks).into_iter().take(limit);
        rows.filter_map(|row| self.ready_row(row)).collect()
    }

    /// What a row shows of a key: a number that stands for it, and the text. Rows with equal numbers show the same.
    fn shown_at<'a>(
        &'a self,
        at: usize,
        place: usize,
        key: Key,
    ) -> (u64, impl FnOnce() -> Shown<'a>) {
        let event = self.all.get(at).map_or(0, |row| row.event);
        let first = self.first(at);
        let number = match place.checked_sub(INLINE) {
            None => self.all.get(at).and_then(|row| row.inline.get(place)),
            Some(behind) => {
                let width = self.keys.len() - INLINE;
                numbers_at(&self.more, at, width).get(behind)
            }
        };
        let number = number.copied().unwrap_or_default();
        let name = self.event_name(event as usize);
        let shown = move || self.reader.show(key, number, first, name);
        (Reader::stands_for(key, number, first, event), shown)
    }

    fn share_to_order_by(&self, at: usize) -> Option<f64> {
        if let Some(children) = self.children_of(at) {
            return children.share;
        }
        let event = self.all.get(at)?.event as usize;
        self.sums(at)?.share(&self.whole(event)?)
    }

    fn measures(&self, at: usize) -> Option<Measures> {
        let (row, rest) = (self.all.get(at)?, self.rest.get(at)?);
        Some(Measures {
            samples: row.samples,
            weight: row.weight,
            perf_weight: row.weight.saturating_add(row.weightless),
            period: row.period,
            ins_lat: rest.ins_lat,
            retire_lat: rest.retire_lat,
        })
    }

    /// Number of rows.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Sums of a row, of what `overhead` rests on.
    pub(super) fn sums(&self, at: usize) -> Option<Sums> {
        let row = self.all.get(at)?;
        Some(Sums {
            n: row.samples,
            sum: self.measures(at)?.value(self.estimator(row.event as usize)),
            squares: row.squares,
        })
    }

    /// The same of all rows of an event.
    pub(super) fn whole(&self, event: usize) -> Option<Sums> {
        self.totals.get(event).map(|total| total.sums)
    }

    fn share(&self, at: usize) -> Option<(f64, Option<[f64; 2]>)> {
        let event = self.all.get(at)?.event as usize;
        share(self.sums(at)?, self.whole(event)?)
    }

    pub(super) fn ready_row(&self, at: usize) -> Option<Ready<'_>> {
        let (row, rest) = (self.all.get(at)?, self.rest.get(at)?);
        let event = row.event as usize;
        let more = self.keys.len().saturating_sub(INLINE);
        let inline = row.inline.iter().take(self.keys.len());
        let numbers = inline.chain(numbers_at(&self.more, at, more));
        let name = self.event_name(event);
        let keys = self.keys.iter().zip(numbers);
        Some(Ready {
            number: at,
            event,
            keys: keys
                .map(|(key, number)| self.reader.show(*key, *number, rest.first, name))
                .collect(),
            measures: self.measures(at)?,
            share: self.share(at),
            children: self.children_of(at),
        })
    }

    fn children_of(&self, at: usize) -> Option<Children> {
        let children = *self.children.get(at)?;
        let whole = self.whole(self.all.get(at)?.event as usize)?;
        let share = (whole.sum > 0.0).then(|| children.value / whole.sum);
        Some(Children { share, ..children })
    }

    pub(super) fn paths(&self) -> Option<&Paths> {
        self.paths.as_ref()
    }

    pub(super) fn take_paths(&mut self) -> Option<Paths> {
        self.paths.take()
    }

    pub(super) fn put_paths(&mut self, paths: Paths, children: Vec<Children>) {
        (self.paths, self.children) = (Some(paths), children);
    }

    /// Event and numbers of a row.
    pub(super) fn numbers_of(&self, row: u32) -> (u32, Vec<u64>) {
        let (at, more) = (row as usize, self.keys.len().saturating_sub(INLINE));
        let Some(row) = self.all.get(at) else {
            return (0, Vec::new());
        };
        let inline = row.inline.iter().take(self.keys.len());
        let numbers = inline.chain(numbers_at(&self.more, at, more));
        (row.event, numbers.copied().collect())
    }

    /// The row with these numbers, without a sample if it is new.
    pub(super) fn row_with(&mut self, event: u32, numbers: &[u64], first: First) -> u32 {
        let (few, many) = numbers.split_at(numbers.len().min(INLINE));
        let mut inline = [0; INLINE];
        for (place, number) in inline.iter_mut().zip(few) {
            *place = *number;
        }
        let mut hasher = FxHasher::default();
        event.hash(&mut hasher);
        for number in numbers {
            number.hash(&mut hasher);
        }
        let sample = Waiting {
            hash: hasher.finish(),
            inline,
            event,
            path: NO_PATH,
            first,
            adds: Adds::default(),
        };
        self.row(&sample, many)
    }

    /// What a number means that is not of a row.
    pub(super) fn shown(&self, key: Key, number: u64) -> Shown<'_> {
        self.reader.show(key, number, First::default(), "")
    }
}

/// The numbers of the row at `at`, of which each row has `width`.
fn numbers_at(more: &[u64], at: usize, width: usize) -> &[u64] {
    more.get(at * width..(at + 1) * width).unwrap_or_default()
}
