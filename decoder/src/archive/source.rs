//! What a source's files hold of a day: which batches, from which snapshot on, and what is missing.

use super::frame::Kind;
use super::key::{FileKey, Key};
use super::read::{FileReader, Located, days, files_in, folders_of};
use super::{ArchiveError, Day};
use memwide_model::Source;
use memwide_proto::v1;
use std::collections::BTreeMap;
use std::path::Path;

/// How long before and after a day batches that hold samples of it may have been closed: a round of the rings, records that
/// come late, clocks that are read one after the other. What is further off is found by the totals.
const AROUND_NS: u64 = 600_000_000_000;

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
pub fn held(root: &Path, day: Day) -> Result<Vec<Held>, ArchiveError> {
    let mut all: BTreeMap<String, Held> = BTreeMap::new();
    for near in [day, Day(day.0 + 1)] {
        for folder in folders_of(root, near)? {
            if let Some(file) = files_in(root, near, &folder)?.first()
                && !all.contains_key(&folder)
            {
                let reader = FileReader::open(file)?;
                let (source, host) = (reader.head.source, reader.head.host);
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
struct At {
    file: usize,
    entry: Located,
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
pub(crate) struct Plan {
    files: Vec<(FileReader, Option<FileKey>)>,
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

    /// First and last batch that may hold samples of the day; `None`: there is none.
    fn range(&self, day: Day) -> Option<(u64, u64)> {
        let (from, to) = (
            day.begin_ns().saturating_sub(AROUND_NS),
            day.end_ns().saturating_add(AROUND_NS),
        );
        let within = |at: &At| {
            let head = &at.entry.head;
            head.kind == Kind::Batch && (from..to).contains(&head.closed_wall_ns)
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

impl Plan {
    /// Reads the heads of a source's files, from the day behind `day` back to where its history begins, and further for tables.
    pub(crate) fn make(
        root: &Path,
        day: Day,
        held: &Held,
        key: Option<&Key>,
    ) -> Result<Option<Self>, ArchiveError> {
        let mut all = days(root)?;
        all.retain(|one| *one <= Day(day.0 + 1));
        let (mut files, mut found) = (Vec::new(), Found::default());
        for near in all.into_iter().rev() {
            // What the day needs must be whole; tables of earlier days are a help where they are.
            let needed = near.0 + 1 >= day.0
                || found
                    .range(day)
                    .is_some_and(|(first, _)| found.begin(first).is_none());
            for path in files_in(root, near, &held.folder)? {
                match scan(&path, key, files.len(), &mut found) {
                    Ok(file) => files.push(file),
                    Err(error) if needed => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "symbols of earlier days are not read");
                    }
                }
            }
        }
        let Some((first, last)) = found.range(day) else {
            return Ok(None);
        };
        let begin = found.begin(first);
        let from = begin.unwrap_or(first);
        let mut missing = Vec::new();
        let mut due = from;
        let is_whole = |number: u64, at: &At| number < first || at.entry.head.kind == Kind::Batch;
        for (number, at) in found.batches.range(from..=last) {
            if *number > due {
                missing.push((due, number - 1));
            }
            if !is_whole(*number, at) {
                missing.push((*number, *number));
            }
            due = number + 1;
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
    pub(crate) fn read(&self, step: usize) -> Result<Option<Entry>, ArchiveError> {
        let Some(At { file, entry }) = self.steps.get(step).copied() else {
            return Ok(None);
        };
        let Some((reader, key)) = self.files.get(file) else {
            return Ok(None);
        };
        if entry.head.kind == Kind::Symbols {
            let chunk = reader.message(&entry, key.as_ref())?;
            return Ok(Some(Entry::Symbols(Box::new(chunk))));
        }
        let batch = Box::new(reader.message(&entry, key.as_ref())?);
        let is_of_day = entry.head.kind == Kind::Batch && entry.head.number >= self.first;
        Ok(Some(if is_of_day {
            Entry::Batch(batch)
        } else {
            Entry::History(batch)
        }))
    }
}

fn scan(
    path: &Path,
    key: Option<&Key>,
    file: usize,
    found: &mut Found,
) -> Result<(FileReader, Option<FileKey>), ArchiveError> {
    let mut reader = FileReader::open(path)?;
    let key = reader.key(key)?;
    let mut own = Vec::new();
    while let Some(entry) = reader.next()? {
        own.push(At { file, entry });
    }
    for at in own {
        found.take(at);
    }
    Ok((reader, key))
}
