//! What of an epoch is committed, given up, still needed: a few numbers in two slots, so that one is always whole.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

const SLOT: usize = 40;

/// The numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Numbers {
    /// Batches up to here are committed.
    pub acked: u64,
    /// Samples up to here were given up, where they were not committed before.
    pub gapped: u64,
    /// The newest committed snapshot; 0: none.
    pub snapshot: u64,
}

/// What is sent of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content {
    /// It was committed: side-band without counts. Only a pipeline that lost what it had asks for it.
    Freed,
    /// Everything there is of it.
    Whole,
    /// Its samples, without the side-band that is unreadable.
    SamplesOnly,
    /// Side-band and counts; its samples were given up for want of room.
    GivenUp,
    /// Side-band and counts; its samples are unreadable.
    Damaged,
    /// Nothing of it is readable, the counts neither.
    Nothing,
}

impl Numbers {
    /// Batches up to `through` are committed, of which `snapshots` are some. False: that was known.
    pub fn ack(&mut self, through: u64, snapshots: &BTreeSet<u64>) -> bool {
        if through <= self.acked {
            return false;
        }
        self.acked = through;
        if let Some(&snapshot) = snapshots.range(..=through).next_back() {
            self.snapshot = snapshot;
        }
        true
    }

    /// Samples up to `last` are to be given up. True: this must be written down before they go.
    pub fn give_up(&mut self, last: u64) -> bool {
        let promises = last > self.acked;
        if promises {
            self.gapped = self.gapped.max(last);
        }
        promises
    }

    /// What is sent of batch `number`, of which the part without samples is readable or not (`Some`: whether it says that
    /// there are samples), and the samples are or not.
    pub fn content(&self, number: u64, side: Option<bool>, samples: bool) -> Content {
        if number <= self.acked {
            return Content::Freed;
        }
        match (side, samples) {
            (Some(false), _) | (Some(true), true) => Content::Whole,
            (Some(true), false) if number <= self.gapped => Content::GivenUp,
            (Some(true), false) => Content::Damaged,
            (None, true) => Content::SamplesOnly,
            (None, false) => Content::Nothing,
        }
    }
}

/// The file. Losing it costs only repetition: the pipeline tells what it has.
#[derive(Debug)]
pub(super) struct StateFile {
    file: File,
    generation: u64,
}

impl StateFile {
    pub(super) fn open(path: &Path) -> io::Result<(Self, Numbers)> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        if file.metadata()?.len() < 2 * SLOT as u64 {
            // Has its place on the disk from now on. Without room there may be some later.
            let _ = file.write_all_at(&[0; SLOT], SLOT as u64);
        }
        let newest = [0, SLOT as u64]
            .into_iter()
            .filter_map(|at| {
                let mut slot = [0; SLOT];
                file.read_exact_at(&mut slot, at).ok()?;
                decode(&slot)
            })
            .max_by_key(|(generation, _)| *generation);
        let (generation, numbers) = newest.unwrap_or_default();
        Ok((Self { file, generation }, numbers))
    }

    pub(super) fn write(&mut self, numbers: &Numbers) -> io::Result<()> {
        self.generation += 1;
        let mut slot = Vec::with_capacity(SLOT);
        for word in [
            self.generation,
            numbers.acked,
            numbers.gapped,
            numbers.snapshot,
        ] {
            slot.extend_from_slice(&word.to_le_bytes());
        }
        slot.extend_from_slice(&xxh3_64(&slot).to_le_bytes());
        self.file
            .write_all_at(&slot, (self.generation % 2) * SLOT as u64)
    }
}

fn decode(slot: &[u8; SLOT]) -> Option<(u64, Numbers)> {
    let (chunks, _) = slot.as_chunks::<8>();
    let [generation, acked, gapped, snapshot, check] = <[u64; 5]>::try_from(
        chunks
            .iter()
            .map(|c| u64::from_le_bytes(*c))
            .collect::<Vec<_>>(),
    )
    .ok()?;
    let whole = xxh3_64(slot.get(..SLOT - 8)?) == check;
    (whole && generation > 0).then_some((
        generation,
        Numbers {
            acked,
            gapped,
            snapshot,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_slot_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let numbers = |acked| Numbers {
            acked,
            gapped: 1,
            snapshot: 2,
        };
        let (mut state, before) = StateFile::open(&path).unwrap();
        assert_eq!(before, Numbers::default());
        for acked in 1..=5 {
            state.write(&numbers(acked)).unwrap();
            assert_eq!(StateFile::open(&path).unwrap().1, numbers(acked));
        }
        // A torn write of the newest slot leaves the one before.
        state
            .file
            .write_all_at(&[0xff; 8], (state.generation % 2) * SLOT as u64)
            .unwrap();
        assert_eq!(StateFile::open(&path).unwrap().1, numbers(4));
    }
}
