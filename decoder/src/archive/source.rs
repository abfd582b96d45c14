//! What a source's files hold of a day: which batches, from which snapshot on, and what is missing.

use super::files::Files;
use super::frame::{FileHead, Kind};
use super::key::Key;
use super::place::Place;
use super::read::{FileReader, Located};
use super::{ArchiveError, Day};
use memwide_model::Source;
use memwide_proto::v1;
use std::collections::BTreeMap;
use std::ops::Range;

/// How long before and after a day batches that hold samples of it may have been closed: a round of the rings, records that
/// come late, clocks that are read one after the other. What is further off is found by the totals.
const AROUND_NS: u64 = 600_000_000_000;

/// Entries of one source that are known at once: bounds the memory of a day, at about 100 bytes each.
const ENTRIES_MAX: usize = 4_000_000;

/// A source in a day's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The source.
    pub source: Source,
    /// Name of its host.
    pub host: String,
    folder: String,
}

/// Sources that may have samples of a day.
pub fn held(place: &Place, day: Day) -> Result<Vec<Held>, ArchiveError> {
    let mut all: BTreeMap<String, Held> = BTreeMap::new();
    for near in [day, Day(day.0.saturating_add(1))] {
        for folder in place.sources(near)? {
            if !all.contains_key(&folder)
                && let Some(file) = place.files_in(near, &folder)?.first()
            {
                let FileHead { source, host, .. } = FileReader::head(place, file)?;
                let one = Held {
                    source,
                    host,
                    folder: folder.clone(),
                };
                all.insert(folder, one);
            }
        }
    }
    Ok(all.into_values().collect())
}

/// An entry and the file it lies in.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) file: usize,
    pub(super) entry: Located,
}

/// One step of decoding a source again.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A table; the id of the mapping it was asked for.
    Symbols(Box<v1::SymbolChunk>),
    /// Of the history: what its samples say is stored under another day, or is not there.
    History(Box<v1::Batch>),
    /// Its samples may be of the day.
    Batch(Box<v1::Batch>),
}

/// All that is to be read of a source, in order.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    files: Files<'a>,
    steps: Vec<At>,
    /// First batch that may hold samples of the day.
    first: u64,
    /// Batches that should be there and are not, as ranges.
    pub(crate) missing: Vec<(u64, u64)>,
    /// Nothing says what ran before the first batch.
    pub(crate) no_history: bool,
}

/// Everything found so far.
#[derive(Debug, Default)]
struct Found {
    batches: BTreeMap<u64, At>,
    symbols: Vec<At>,
}

/// Which of two entries of one number says what was stored. Samples that were given up had not been stored before.
fn worth(one: &At) -> (Kind, bool) {
    (one.entry.head.kind, one.entry.head.is_gap)
}

impl Found {
    fn take(&mut self, at: At) {
        let head = at.entry.head;
        if head.kind == Kind::Symbols {
            self.symbols.push(at);
            return;
        }
        let known = self.batches.entry(head.number).or_insert(at);
        if worth(&at) > worth(known) {
            *known = at;
        }
    }

    fn take_all(&mut self, entries: Vec<At>, day: Day, held: &Held) -> Result<(), ArchiveError> {
        for at in entries {
            self.take(at);
        }
        if self.batches.len() + self.symbols.len() > ENTRIES_MAX {
            return Err(ArchiveError::TooMany {
                source_folder: held.folder.clone(),
                day: day.to_string(),
                most: ENTRIES_MAX,
            });
        }
        Ok(())
    }

    /// Forgets what lies before where the day's history begins.
    fn forget_before(&mut self, day: Day) {
        let begin = self.range(day).and_then(|(first, _)| self.begin(first));
        if let Some(begin) = begin {
            self.batches = self.batches.split_off(&begin);
        }
    }

    /// Batches from `from` to `last` that are not there, whole from `first` on.
    fn missing(&self, from: u64, first: u64, last: u64) -> Vec<(u64, u64)> {
        let mut missing = Vec::new();
        let mut due = from;
        for (number, at) in self.batches.range(from..=last) {
            if *number > due {
                missing.push((due, number - 1));
            }
            if *number >= first && at.entry.head.kind != Kind::Batch {
                missing.push((*number, *number));
            }
            due = number + 1;
        }
        missing
    }

    /// First and last batch that may hold samples of the day; `None`: there is none.
    fn range(&self, day: Day) -> Option<(u64, u64)> {
        let within = |at: &At| {
            let head = &at.entry.head;
            head.kind == Kind::Batch && around(day).contains(&head.closed_wall_ns)
        };
        let numbers = self.batches.iter().filter(|(_, at)| within(at));
        let numbers: Vec<u64> = numbers.map(|(number, _)| *number).collect();
        Some((*numbers.first()?, *numbers.last()?))
    }

    /// Newest batch up to `first` from which on everything is known.
    fn begin(&self, first: u64) -> Option<u64> {
        let known = self.batches.range(..=first).rev();
        let mut begins = known.filter(|(number, at)| **number == 1 || at.entry.head.is_snapshot);
        begins.next().map(|(number, _)| *number)
    }
}

/// Moments that batches with samples of a day are closed in, nanoseconds since 1970 UTC.
fn around(day: Day) -> Range<u64> {
    day.begin_ns().saturating_sub(AROUND_NS)..day.end_ns().saturating_add(AROUND_NS)
}

impl<'a> Plan<'a> {
    /// Reads the heads of a source's files, from the day behind `day` back to where its history begins; of other days what is
    /// needed of them: tables, and batches whose collector's clock was wrong.
    pub(crate) fn make(
        place: &'a Place,
        day: Day,
        held: &Held,
        key: Option<&'a Key>,
    ) -> Result<Option<Self>, ArchiveError> {
        let mut all = place.days()?;
        let later = all.split_off(all.partition_point(|one| *one <= Day(day.0.saturating_add(1))));
        let (mut files, mut found) = (Files::new(place, key), Found::default());
        let mut looked_at = Vec::new();
        for near in all.into_iter().rev() {
            let is_near = near.0.saturating_add(1) >= day.0;
            if !is_near && found.range(day).is_none() {
                return Ok(None);
            }
            // What the day needs must be whole; tables of earlier days are a help where they are.
            let needed = is_near
                || found
                    .range(day)
                    .is_some_and(|(first, _)| found.begin(first).is_none());
            for kept in place.files_in(near, &held.folder)? {
                if !needed && !place.may_hold_tables(&kept) {
                    continue;
                }
                let wanted = |entry: &Located| {
                    let head = &entry.head;
                    head.kind == Kind::Symbols || (needed && head.closed_wall_ns < around(day).end)
                };
                match files.scan(kept, wanted) {
                    Ok(entries) => found.take_all(entries, day, held)?,
                    Err(error) if needed => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "symbols of earlier days are not read");
                    }
                }
            }
            if needed && near < day {
                found.forget_before(day);
            } else if !needed {
                looked_at.push(near);
            }
        }
        let Some((first, last)) = found.range(day) else {
            return Ok(None);
        };
        let begin = found.begin(first);
        let from = begin.unwrap_or(first);
        let mut missing = found.missing(from, first, last);
        // Closed by a clock that was wrong just then: they lie elsewhere.
        for other in looked_at
            .into_iter()
            .chain(later)
            .chain([Day(day.0.saturating_add(1))])
        {
            if missing.is_empty() {
                break;
            }
            for kept in place.files_in(other, &held.folder)? {
                let wanted = |entry: &Located| {
                    let number = entry.head.number;
                    let is_missing = |(from, to): &(u64, u64)| (*from..=*to).contains(&number);
                    entry.head.kind != Kind::Symbols && missing.iter().any(is_missing)
                };
                let entries = files.scan(kept, wanted)?;
                found.take_all(entries, day, held)?;
            }
            missing = found.missing(from, first, last);
        }
        let mut steps: Vec<At> = found
            .batches
            .range(from..=last)
            .map(|(_, at)| *at)
            .collect();
        steps.extend(
            found
                .symbols
                .iter()
                .filter(|at| at.entry.head.number <= last),
        );
        // A table behind the batch that says what it is of.
        let order = |at: &At| {
            let head = at.entry.head;
            (
                head.number.max(from),
                head.kind != Kind::Symbols,
                head.number,
            )
        };
        steps.sort_by_key(order);
        Ok(Some(Self {
            files,
            steps,
            first,
            missing,
            no_history: begin.is_none(),
        }))
    }

    /// First batch that may hold samples of the day.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// How many steps there are.
    pub(crate) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// The entry of a step.
    pub(crate) fn read(&mut self, step: usize) -> Result<Option<Entry>, ArchiveError> {
        let Some(At { file, entry }) = self.steps.get(step).copied() else {
            return Ok(None);
        };
        if entry.head.kind == Kind::Symbols {
            let chunk = self.files.message(file, &entry)?;
            return Ok(Some(Entry::Symbols(Box::new(chunk))));
        }
        let batch = Box::new(self.files.message(file, &entry)?);
        let is_of_day = entry.head.kind == Kind::Batch && entry.head.number >= self.first;
        Ok(Some(if is_of_day {
            Entry::Batch(batch)
        } else {
            Entry::History(batch)
        }))
    }
}
