//! The batches of one run of a collector, on disk.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memwide_proto::v1::{Batch, Gap};
use prost::Message as _;
use tokio::sync::watch;

use super::frame::kind;
use super::log::{Found, Log};
use super::newest::Newest;
use super::origin;
use super::state::{Content, Numbers, StateFile};
use super::{GAP_CORRUPT, GAP_FREED, GAP_FULL, SpoolError, is_full};
use crate::metrics;
use crate::uplink::{BatchStore, Origin, Progress, StoreError};

/// Bytes from which on a new segment is started: the grain in which samples are freed or given up.
const ROLL_BYTES: u64 = 8 << 20;
/// A fully acked segment of fewer bytes stays open: one file a second would be made else.
const KEEP_BYTES: u64 = 1 << 20;

/// One epoch's folder.
#[derive(Debug)]
pub struct Epoch {
    origin: Origin,
    folder: PathBuf,
    inner: Mutex<Inner>,
    newest: Mutex<Newest>,
    progress: watch::Sender<Progress>,
}

#[derive(Debug)]
struct Inner {
    side: Log,
    samples: Log,
    state: StateFile,
    numbers: Numbers,
    next: u64,
    snapshots: BTreeSet<u64>,
    /// Segments of side-band before this number hold counts only.
    stripped: u64,
    /// Bytes of side-band since the newest snapshot.
    side_since_snapshot: u64,
}

impl Epoch {
    /// Starts a new one.
    pub(crate) fn create(
        folder: &Path,
        origin: Origin,
        roll: Option<u64>,
    ) -> Result<Self, SpoolError> {
        fs::create_dir_all(folder).map_err(SpoolError::io("create", folder))?;
        origin::write(folder, &origin)?;
        Self::at(folder, origin, false, roll)
    }

    /// Opens one of an earlier run: nothing is added to it any more.
    pub(crate) fn open(folder: &Path, roll: Option<u64>) -> Result<Self, SpoolError> {
        let origin = origin::read(folder)?;
        Self::at(folder, origin, true, roll)
    }

    fn at(
        folder: &Path,
        origin: Origin,
        finished: bool,
        roll: Option<u64>,
    ) -> Result<Self, SpoolError> {
        let failed = SpoolError::io("open", folder);
        let roll = roll.unwrap_or(ROLL_BYTES);
        let inner = || -> io::Result<Inner> {
            let side = Log::open(folder, "side", roll)?;
            let samples = Log::open(folder, "samples", roll)?;
            let (state, numbers) = StateFile::open(&folder.join("state"))?;
            let broken = side.broken + samples.broken;
            if broken > 0 {
                metrics::CORRUPT.add(broken);
                tracing::warn!(folder = %folder.display(), broken, "spool has damaged or torn pieces");
            }
            let last = side
                .last()
                .max(samples.last())
                .unwrap_or(0)
                .max(numbers.acked);
            let snapshots = side
                .kinds()
                .filter_map(|(number, kind)| (kind & kind::SNAPSHOT != 0).then_some(number))
                .collect();
            Ok(Inner {
                side,
                samples,
                state,
                numbers,
                next: last + 1,
                snapshots,
                stripped: 0,
                side_since_snapshot: 0,
            })
        };
        let inner = inner().map_err(failed)?;
        let progress = Progress {
            next: inner.next,
            finished,
        };
        Ok(Self {
            origin,
            folder: folder.to_owned(),
            inner: Mutex::new(inner),
            newest: Mutex::default(),
            progress: watch::Sender::new(progress),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic cannot leave it half changed: files come first, numbers after.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next batch.
    pub fn next(&self) -> u64 {
        self.lock().next
    }

    /// Writes a batch, which must have the next number. When it returns, the death of this process loses nothing of it:
    /// the kernel has the bytes. (Only the death of the machine can: nothing is forced to the disk.)
    pub fn append(&self, batch: &Batch) -> Result<(), SpoolError> {
        let mut inner = self.lock();
        let number = batch.number;
        let failed = SpoolError::io("write to", &self.folder);
        let section = batch
            .samples
            .clone()
            .filter(|section| !section.data.is_empty());
        let side = Batch {
            samples: None,
            ..batch.clone()
        };
        let mut kinds = kind::SIDE_BAND;
        if batch.snapshot {
            kinds |= kind::SNAPSHOT;
        }
        if section.is_some() {
            kinds |= kind::HAS_SAMPLES;
        }
        let samples = section.map(|samples| Batch {
            number,
            closed_wall_ns: batch.closed_wall_ns,
            anchors: batch.anchors.clone(),
            counts: batch.counts.clone(),
            samples: Some(samples),
            ..Batch::default()
        });
        let write = |inner: &mut Inner| -> io::Result<u64> {
            fn put(batch: &Batch) -> impl FnOnce(&mut Vec<u8>) -> io::Result<()> {
                move |out: &mut Vec<u8>| batch.encode(out).map_err(io::Error::other)
            }
            let roll = batch.snapshot; // history is dropped in whole segments, up to a snapshot
            let bytes = inner.side.append(kinds, number, put(&side), roll)?;
            if let Some(samples) = &samples {
                let put = inner
                    .samples
                    .append(kind::SAMPLES, number, put(samples), false);
                if let Err(error) = put {
                    // Half a batch would be read as a damaged one, and each try would leave another half.
                    inner.side.take_back(number)?;
                    return Err(error);
                }
            }
            Ok(bytes)
        };
        let written = write(&mut inner).or_else(|error| {
            if !is_full(&error) {
                return Err(error);
            }
            // What is acked and was left for the sake of few files makes room.
            inner.free_samples(0)?;
            write(&mut inner)
        });
        let side_bytes = written.map_err(failed)?;
        if batch.snapshot {
            inner.snapshots.insert(number);
            inner.side_since_snapshot = 0;
        } else {
            inner.side_since_snapshot += side_bytes;
        }
        inner.next = number + 1;
        let next = inner.next;
        drop(inner);
        self.newest().add(batch);
        self.progress.send_modify(|progress| progress.next = next);
        Ok(())
    }

    /// No batch will follow.
    pub fn finish(&self) {
        self.progress
            .send_modify(|progress| progress.finished = true);
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        let inner = self.lock();
        inner.side.bytes() + inner.samples.bytes()
    }

    /// Bytes of side-band written since the newest snapshot.
    pub(crate) fn side_since_snapshot(&self) -> u64 {
        self.lock().side_since_snapshot
    }

    /// Batches not committed yet.
    pub fn unacked(&self) -> u64 {
        let inner = self.lock();
        (inner.next - 1).saturating_sub(inner.numbers.acked)
    }

    /// Gives up the oldest samples there are. `false`: there are none left.
    pub(crate) fn give_up_oldest(&self) -> Result<bool, SpoolError> {
        let mut inner = self.lock();
        let failed = SpoolError::io("remove samples in", &self.folder);
        let Some(first) = inner.samples.segments().front() else {
            return Ok(false);
        };
        let (first, last) = (first.first, first.last);
        // The promise before the deed: a crash in between leaves samples that are still read.
        if inner.numbers.give_up(last) {
            let numbers = inner.numbers;
            inner
                .state
                .write(&numbers)
                .map_err(SpoolError::io("write to", &self.folder))?;
            self.newest().drop_through(last);
            metrics::GAPPED.add((last + 1).saturating_sub(first.max(numbers.acked + 1)));
        }
        inner.samples.drop_oldest().map_err(failed)?;
        Ok(true)
    }

    /// Drops side-band that no sample needs any more: before the newest snapshot, once all samples before it are gone.
    /// Counts stay.
    pub(crate) fn strip_side_band(&self) -> Result<(), SpoolError> {
        let mut inner = self.lock();
        let Some(&snapshot) = inner.snapshots.last() else {
            return Ok(());
        };
        let samples_from = inner
            .samples
            .segments()
            .front()
            .map_or(u64::MAX, |one| one.first);
        if samples_from < snapshot || inner.stripped >= snapshot {
            return Ok(());
        }
        let old: Vec<u64> = inner
            .side
            .segments()
            .iter()
            .filter(|segment| segment.last < snapshot && segment.first >= inner.stripped)
            .map(|segment| segment.first)
            .collect();
        for first in old {
            let strip = |payload: &[u8]| {
                let mut batch = Batch::decode(payload).ok()?;
                batch.side_band = None;
                batch.side_band_partial = true;
                Some(batch.encode_to_vec())
            };
            inner
                .side
                .rewrite(first, strip)
                .map_err(SpoolError::io("rewrite side-band in", &self.folder))?;
        }
        inner.stripped = snapshot;
        Ok(())
    }

    /// Removes the folder.
    pub(crate) fn remove(&self) -> Result<(), SpoolError> {
        fs::remove_dir_all(&self.folder).map_err(SpoolError::io("remove", &self.folder))
    }
}

impl Inner {
    /// Removes segments of acked samples; the last one only if it has more than `keep` bytes.
    fn free_samples(&mut self, keep: u64) -> io::Result<()> {
        while let Some(oldest) = self.samples.segments().front()
            && oldest.last <= self.numbers.acked
            && (self.samples.segments().len() > 1 || oldest.bytes > keep)
        {
            self.samples.drop_oldest()?;
        }
        Ok(())
    }

    fn batch(&self, number: u64) -> io::Result<Batch> {
        let decode = |found| match found {
            Found::Whole(kind, payload) => Batch::decode(payload.as_slice())
                .ok()
                .map(|batch| (kind, batch)),
            Found::Corrupt | Found::Missing => None,
        };
        let side = decode(self.side.read(number)?);
        let samples = if number <= self.numbers.acked {
            None
        } else {
            decode(self.samples.read(number)?).map(|(_, batch)| batch)
        };
        let says_samples = side.as_ref().map(|(kind, _)| kind & kind::HAS_SAMPLES != 0);
        let content = self
            .numbers
            .content(number, says_samples, samples.is_some());
        let mut batch = side.map_or_else(Batch::default, |(_, batch)| batch);
        batch.number = number;
        match content {
            Content::Freed => {
                batch.counts.clear(); // they were counted with the samples
                batch.gap = Some(gap(GAP_FREED));
            }
            Content::Whole => batch.samples = samples.and_then(|batch| batch.samples),
            Content::GivenUp => batch.gap = Some(gap(GAP_FULL)),
            Content::Damaged => batch.gap = Some(gap(corrupt(number))),
            Content::SamplesOnly => {
                corrupt(number);
                batch = samples.unwrap_or_default();
                batch.side_band_partial = true;
            }
            Content::Nothing => {
                batch.gap = Some(gap(corrupt(number)));
                batch.side_band_partial = true;
            }
        }
        if batch.closed_wall_ns == 0 {
            batch.closed_wall_ns = self.closed_near(number);
        }
        Ok(batch)
    }

    /// When the nearest readable batch was closed, an earlier one first.
    fn closed_near(&self, number: u64) -> u64 {
        let closed = |other: u64| match self.side.read(other).ok()? {
            Found::Whole(_, payload) => {
                Some(Batch::decode(payload.as_slice()).ok()?.closed_wall_ns)
            }
            Found::Corrupt | Found::Missing => None,
        };
        let numbers = || self.side.kinds().map(|(other, _)| other);
        let earlier = numbers().rev().filter(|other| *other < number);
        let later = numbers().filter(|other| *other > number);
        earlier.chain(later).find_map(closed).unwrap_or(0)
    }
}

fn gap(reason: &str) -> Gap {
    Gap {
        reason: reason.to_owned(),
    }
}

fn corrupt(number: u64) -> &'static str {
    metrics::CORRUPT.add(1);
    tracing::error!(number, "a batch in the spool is unreadable");
    GAP_CORRUPT
}

impl BatchStore for Epoch {
    fn origin(&self) -> Origin {
        self.origin.clone()
    }

    fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn first_unacked(&self) -> u64 {
        self.lock().numbers.acked + 1
    }

    fn snapshot(&self) -> u64 {
        self.lock().numbers.snapshot
    }

    fn read(&self, number: u64) -> Result<Batch, StoreError> {
        let inner = self.lock();
        if number == 0 || number >= inner.next {
            let next = inner.next;
            return Err(StoreError::Missing { number, next });
        }
        inner.batch(number).map_err(|source| StoreError::Broken {
            what: format!("cannot read batch {number} in {}", self.folder.display()),
            source: Box::new(source),
        })
    }

    fn at_hand(&self, number: u64) -> Option<Batch> {
        self.newest().get(number)
    }

    fn ack(&self, through: u64) -> Result<(), StoreError> {
        self.newest().drop_through(through);
        let mut inner = self.lock();
        let through = through.min(inner.next - 1);
        let inner = &mut *inner;
        if !inner.numbers.ack(through, &inner.snapshots) {
            return Ok(());
        }
        let numbers = inner.numbers;
        let mut free = || -> io::Result<()> {
            let noted = inner.state.write(&numbers);
            inner.free_samples(KEEP_BYTES)?;
            while let Some(second) = inner.side.segments().get(1)
                && second.first <= numbers.snapshot
            {
                inner.side.drop_oldest()?;
            }
            inner.snapshots = inner.snapshots.split_off(&numbers.snapshot);
            // On a full disk there may be room for it only now. Without it the next run asks what is committed.
            if let Err(error) = noted.or_else(|_| inner.state.write(&numbers)) {
                tracing::warn!(%error, acked = numbers.acked, "what is acked is not written down");
            }
            Ok(())
        };
        free().map_err(|source| StoreError::Broken {
            what: format!("cannot free batches in {}", self.folder.display()),
            source: Box::new(source),
        })
    }
}

/// Samples that stand in the counts of a batch.
#[cfg(test)]
pub(super) fn counted(batch: &Batch) -> u64 {
    batch.counts.iter().map(|count| count.produced).sum()
}
