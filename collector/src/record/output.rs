//! The file: written beside its place, moved there when it is whole.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use memwide_perf_abi::file::{BuildIdEntry, EventSpec, Features, SampleTime};
use memwide_perf_abi::{
    BuildId, FileError, FileId, FileWriter, RawRecord, Record, Records, kind, misc,
};

use super::{RecordError, RecordNote};

/// Word of a sample that holds its time: `IDENTIFIER`, `IP`, `TID` stand before it, see the attrs' common fields.
const TIME_WORD: usize = 3;
/// Executable, in a mapping's `prot`.
const PROT_EXEC: u32 = 4;
/// What the kernel's mapping is called in records, and what its object is called in lists of build ids.
const KERNEL_MAP: &[u8] = b"[kernel.kallsyms]_text";
const KERNEL: &[u8] = b"[kernel.kallsyms]";
/// Build ids kept, at most; what is beyond is in the records alone.
const BUILD_IDS_MAX: usize = 1 << 16;

/// A file that takes the place it is for only when it is whole, and leaves nothing behind otherwise.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    part: PathBuf,
    moved: bool,
}

impl Place {
    /// Makes the file beside `path`. What a killed recording left there is moved aside and told.
    pub(super) fn take(
        path: &Path,
        notes: &mut Vec<RecordNote>,
    ) -> Result<(Self, File), RecordError> {
        let failed = |source| RecordError::Output {
            path: path.to_owned(),
            source,
        };
        match std::fs::metadata(path) {
            Ok(meta) if !meta.is_file() => {
                let path = path.to_owned();
                return Err(RecordError::NotAFile { path });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let mut file = own(&part, path)?;
        if file.metadata().map_err(failed)?.len() > 0 {
            let mut old = part.as_os_str().to_owned();
            old.push(".old");
            let old = PathBuf::from(old);
            std::fs::rename(&part, &old).map_err(failed)?;
            notes.push(RecordNote::Other(format!(
                "an earlier recording to {} did not end; what it wrote is kept in {}",
                path.display(),
                old.display()
            )));
            file = own(&part, path)?;
        }
        let place = Self {
            path: path.to_owned(),
            part,
            moved: false,
        };
        Ok((place, file))
    }
}

/// Opens the file `part` of a recording to `path` and holds it as long as it is open.
fn own(part: &Path, path: &Path) -> Result<File, RecordError> {
    let failed = |source| RecordError::Output {
        path: path.to_owned(),
        source,
    };
    // Addresses of other processes are nobody else's business.
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(part);
    let file = opened.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let path = path.to_owned();
            Err(RecordError::Busy { path })
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.moved {
            // Nothing can be done about a file that stays; the error that brought us here is told.
            drop(std::fs::remove_file(&self.part));
        }
    }
}

/// What one event gave.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) samples: u64,
}

/// The file being written.
#[derive(Debug)]
pub(super) struct Output {
    place: Place,
    /// Not buffered: what a killed recorder wrote is in the file, and rings are written as a whole anyway.
    writer: FileWriter<File>,
    /// From id to event.
    by_id: HashMap<u64, usize>,
    pub(super) tallies: Vec<Tally>,
    times: Option<SampleTime>,
    /// Sum of all LOST records.
    pub(super) lost_told: u64,
    build_ids: BTreeMap<Vec<u8>, (u16, BuildId)>,
}

impl Output {
    /// Writes the events.
    pub(super) fn new(place: Place, file: File, events: &[EventSpec]) -> Result<Self, RecordError> {
        let numbered = events.iter().enumerate();
        let by_id = numbered.flat_map(|(at, event)| event.ids.iter().map(move |id| (*id, at)));
        let by_id = by_id.collect();
        let writer = FileWriter::new(file, events);
        let writer = writer.map_err(|source| RecordError::Write {
            path: place.path.clone(),
            source,
        })?;
        Ok(Self {
            place,
            writer,
            by_id,
            tallies: events.iter().map(|_| Tally::default()).collect(),
            times: None,
            lost_told: 0,
            build_ids: BTreeMap::new(),
        })
    }

    /// Appends whole records.
    pub(super) fn write(&mut self, records: &[u8]) -> Result<(), RecordError> {
        // What does not parse is refused by the writer, below.
        for record in Records::new(records).flatten() {
            self.note(record);
        }
        let written = self.writer.write_records(records);
        written.map_err(|source| self.failed(source))
    }

    fn note(&mut self, record: RawRecord<'_>) {
        match record.kind {
            kind::SAMPLE => {
                let words = record.body().as_chunks::<8>().0;
                let word = |at: usize| words.get(at).copied().map(u64::from_le_bytes);
                let event = word(0).and_then(|id| self.by_id.get(&id));
                if let Some(tally) = event.and_then(|at| self.tallies.get_mut(*at)) {
                    tally.samples += 1;
                }
                if let Some(time) = word(TIME_WORD) {
                    let so_far = self.times.unwrap_or(SampleTime {
                        first: time,
                        last: time,
                    });
                    self.times = Some(SampleTime {
                        first: so_far.first.min(time),
                        last: so_far.last.max(time),
                    });
                }
            }
            kind::LOST => {
                if let Ok(Record::Lost(lost)) = Record::parse(record) {
                    self.lost_told += lost.lost;
                }
            }
            kind::MMAP2 => {
                if let Ok(Record::Mmap2(map)) = Record::parse(record)
                    && let FileId::BuildId(id) = map.file
                    && map.prot & PROT_EXEC != 0
                    && !self.build_ids.contains_key(map.filename)
                    && self.build_ids.len() < BUILD_IDS_MAX
                {
                    let mode = record.misc & misc::CPUMODE_MASK;
                    self.build_ids.insert(map.filename.to_vec(), (mode, id));
                }
            }
            _ => {}
        }
    }

    /// Ends a round.
    pub(super) fn finish_round(&mut self) -> Result<(), RecordError> {
        let written = self.writer.finish_round();
        written.map_err(|source| self.failed(source))
    }

    /// Time of the last sample, in nanoseconds of perf's clock.
    pub(super) fn last_time(&self) -> u64 {
        self.times.map_or(0, |times| times.last)
    }

    /// Completes the file and moves it to its place; the result is its size in bytes.
    pub(super) fn finish(self, mut features: Features) -> Result<u64, RecordError> {
        let Self {
            mut place, writer, ..
        } = self;
        if let Some(times) = self.times {
            features.set_sample_time(times);
        }
        let entries: Vec<BuildIdEntry> = self.build_ids.into_iter().map(entry).collect();
        if !entries.is_empty() {
            features.set_build_ids(&entries);
        }
        let file = writer
            .finish(&features)
            .map_err(|source| RecordError::Write {
                path: place.path.clone(),
                source,
            })?;
        let moved = file
            .metadata()
            .and_then(|meta| std::fs::rename(&place.part, &place.path).map(|()| meta.len()));
        let bytes = moved.map_err(|source| RecordError::Output {
            path: place.path.clone(),
            source,
        })?;
        place.moved = true;
        Ok(bytes)
    }

    fn failed(&self, source: FileError) -> RecordError {
        RecordError::Write {
            path: self.place.path.clone(),
            source,
        }
    }
}

fn entry((filename, (mode, build_id)): (Vec<u8>, (u16, BuildId))) -> BuildIdEntry {
    let filename = if filename == KERNEL_MAP {
        KERNEL.to_vec()
    } else {
        filename
    };
    BuildIdEntry {
        pid: -1,
        misc: mode,
        build_id,
        filename,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_perf_abi::{Attr, encode, sample};
    use std::collections::HashSet;

    fn sample(id: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let words = [id, 1, 2, 1_000 + id];
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        encode::raw(&mut out, kind::SAMPLE, 0, &body).unwrap();
        out
    }

    fn output(folder: &Path) -> Output {
        let (place, file) = Place::take(&folder.join("out"), &mut Vec::new()).unwrap();
        let attr = Attr {
            sample_type: sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME,
            ..Attr::default()
        };
        let event = |name: &str, ids: &[u64]| EventSpec {
            attr: attr.clone(),
            name: name.to_owned(),
            ids: ids.to_vec(),
        };
        Output::new(place, file, &[event("a", &[1, 2]), event("b", &[3])]).unwrap()
    }

    #[test]
    fn samples_with_foreign_ids_are_given_to_the_event_of_their_ring() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = output(folder.path());
        let mut records = [sample(1), sample(77), sample(3)].concat();
        let others = HashSet::from([1, 2]);
        let claim = crate::claim::Claim {
            own: 3,
            others: &others,
        };
        claim.all(&mut records);
        output.write(&records).unwrap();
        let samples: Vec<u64> = output.tallies.iter().map(|tally| tally.samples).collect();
        assert_eq!(samples, [1, 2]);
        assert_eq!(output.last_time(), 1_077);
    }

    #[test]
    fn one_file_is_written_by_one_recording_and_appears_when_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let first = output(folder.path());
        let second = Place::take(&path, &mut Vec::new());
        assert!(matches!(second, Err(RecordError::Busy { .. })));
        assert!(!path.exists());
        let bytes = first.finish(Features::default()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
        drop(output(folder.path()));
        let left: Vec<_> = folder.path().read_dir().unwrap().flatten().collect();
        assert_eq!(
            left.len(),
            1,
            "a recording that is given up leaves the earlier file alone"
        );
    }

    #[test]
    fn what_a_killed_recording_left_is_kept_and_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("out.part"), "torn").unwrap();
        let mut notes = Vec::new();
        let (place, file) = Place::take(&folder.path().join("out"), &mut notes).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        let kept = std::fs::read_to_string(folder.path().join("out.part.old")).unwrap();
        assert_eq!(kept, "torn");
        assert!(
            notes[0].to_string().contains("out.part.old"),
            "{}",
            notes[0]
        );
        drop(place);
        let again = Place::take(&folder.path().join("out"), &mut Vec::new());
        assert!(again.is_ok());
    }
}
