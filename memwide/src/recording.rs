//! A perf.data file opened for a command that needs no services. Every error names the file, the place and the remedy; all
//! that was not shown is counted.

mod refused;
mod shards;

pub(crate) use shards::Shard;

use crate::cli::SymbolArgs;
use crate::failure::Failure;
use crate::output::grouped;
use memwide_decoder::Mode;
use memwide_decoder::edge::{FileSource, Places};
use memwide_decoder::local::{LocalSample, LocalSession, Skipped, Wanted};
use memwide_perf_abi::file::{
    Cut, CutPart, DeferredCounts, EventTable, Features, FileRecord, SpeCounts, TracingData,
    UserRecord,
};
use memwide_perf_abi::{FileError, PerfFile, RawRecord, Record, kind};
use refused::Refused;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::{AddAssign, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod open;

use open::{open, own_kallsyms, own_kcore};

/// Why a file gave nothing, or not all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum InputError {
    /// It is not there, or not for us.
    #[error(
        "cannot open {}; name a perf.data file with -i, or record one with `memwide record`",
        path.display()
    )]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file or folder with symbols that an option names is not there, or not for us.
    #[error("cannot open {}, which {option} names", path.display())]
    Named {
        path: PathBuf,
        option: &'static str,
        #[source]
        source: io::Error,
    },
    /// A directory without a recording, a device or a pipe.
    #[error("{} is a {what}, not a perf.data file; name a file with -i{}", path.display(), if *what == "pipe" { ", or read it from standard input: -i - < PIPE" } else { "" })]
    NotAFile { path: PathBuf, what: &'static str },
    /// What comes on standard input cannot be read or kept.
    #[error(
        "cannot keep what comes on standard input in a temporary file; free some room or set TMPDIR to another folder"
    )]
    Stdin {
        #[source]
        source: io::Error,
    },
    /// Its header cannot be read.
    #[error("cannot read {} as perf.data; record it again or name another file with -i", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: FileError,
    },
    /// Its records break off in the middle: what came before was read.
    #[error(
        "{} is damaged after {records} records, the rest cannot be read; record it again",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        records: u64,
        #[source]
        source: FileError,
    },
    /// It is cut before its first record.
    #[error("{}: {cut}, before the first record; copy or record it again", path.display())]
    NothingWhole { path: PathBuf, cut: Cut },
    /// It is cut: what came before was read.
    #[error(
        "{}: {cut}; the {records} records before that are read: copy or record it again for the rest",
        path.display()
    )]
    Cut {
        path: PathBuf,
        cut: Cut,
        records: u64,
    },
    /// The recorder was killed: all that is there was read.
    #[error(
        "{} was never finished, its recorder was killed: it has no header features; its {records} records are read",
        path.display()
    )]
    Unfinished { path: PathBuf, records: u64 },
    /// Records end before their fields do.
    #[error(
        "{} is damaged: {count} records are shorter than their fields and not shown; record it again",
        path.display()
    )]
    Short { path: PathBuf, count: u64 },
    /// Header and events, and nothing else.
    #[error(
        "{} has no records, only a header and its events: the recorder ended before it wrote any; record it again",
        path.display()
    )]
    NoRecords { path: PathBuf },
    /// A pipe's header and nothing else.
    #[error(
        "{} holds the header of a pipe and nothing behind it: the recorder was stopped before it wrote any record; record it again",
        path.display()
    )]
    BarePipe { path: PathBuf },
}

/// A file whose header is read.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    file: PerfFile<File>,
    places: Places,
    wanted: Wanted,
}

impl Recording {
    /// Opens a file; symbols are looked for where the arguments say.
    pub(crate) fn open(path: &Path, symbols: &SymbolArgs) -> Result<Self, Failure> {
        is_there(symbols.symfs.as_deref(), "--symfs")?;
        is_there(symbols.kallsyms.as_deref(), "--kallsyms")?;
        is_there(symbols.vmlinux.as_deref(), "--vmlinux")?;
        open(path)
            .map(|file| Self {
                path: path.to_owned(),
                places: Places {
                    release: file.features().os_release(),
                    kallsyms: symbols.kallsyms.clone().or_else(|| own_kallsyms(path)),
                    kcore: own_kcore(path),
                    written: std::fs::metadata(path)
                        .and_then(|meta| meta.modified())
                        .ok(),
                    ..symbols.places()
                },
                file,
                wanted: Wanted::ALL,
            })
            .map_err(Failure::bad_input)
    }

    /// Finds out of samples what is wanted only; the rest reads as unknown.
    pub(crate) fn wanting(mut self, wanted: Wanted) -> Self {
        self.wanted = wanted;
        self
    }

    /// Its events.
    pub(crate) fn events(&self) -> &Arc<EventTable> {
        self.file.events()
    }

    /// Formats of its tracepoints.
    pub(crate) fn tracing_data(&self) -> Option<&Arc<TracingData>> {
        self.file.tracing_data()
    }

    /// What its header says of the host.
    pub(crate) fn features(&self) -> &Features {
        self.file.features()
    }

    /// Gives every record in perf's order, undecoded, until `each` says stop.
    pub(crate) fn each_record(
        self,
        mut each: impl FnMut(&RawRecord<'_>) -> ControlFlow<()>,
    ) -> Result<Leftovers, Failure> {
        self.read(|_, item| each(&item.record))
    }

    /// Gives every sample that perf shows, in perf's order, until `each` says stop.
    pub(crate) fn each(
        self,
        each: impl FnMut(&LocalSample<'_>) -> ControlFlow<()>,
    ) -> Result<Leftovers, Failure> {
        self.each_then(each, |_| {})
    }

    /// The same; `then` gets what is known after the last one.
    pub(crate) fn each_then(
        self,
        each: impl FnMut(&LocalSample<'_>) -> ControlFlow<()>,
        then: impl FnOnce(&mut LocalSession<FileSource>),
    ) -> Result<Leftovers, Failure> {
        self.each_with(|_, _| {}, each, then)
    }

    /// The same; `other` gets each record with the index of its event first, whatever it is.
    pub(crate) fn each_with(
        self,
        mut other: impl FnMut(&RawRecord<'_>, Option<usize>),
        mut each: impl FnMut(&LocalSample<'_>) -> ControlFlow<()>,
        then: impl FnOnce(&mut LocalSession<FileSource>),
    ) -> Result<Leftovers, Failure> {
        let mut session = self.session();
        let mut left = self.read(|left, item| {
            other(&item.record, item.event);
            let mut flow = ControlFlow::Continue(());
            session.push(&item.record, item.event, |sample| {
                if flow.is_continue() && left.shown.takes(sample) {
                    flow = each(sample);
                }
            });
            flow
        })?;
        left.skipped = session.skipped();
        then(&mut session);
        left.refused.take(session.refusals());
        Ok(left)
    }

    /// What decodes its samples.
    fn session(&self) -> LocalSession<FileSource> {
        let source = FileSource::new(self.places.clone());
        let events = Arc::clone(self.file.events());
        LocalSession::new(events, self.file.features(), source).wanting(self.wanted)
    }

    /// Gives every record in perf's order, until `each` says stop.
    fn read(
        mut self,
        mut each: impl FnMut(&mut Leftovers, &FileRecord<'_>) -> ControlFlow<()>,
    ) -> Result<Leftovers, Failure> {
        let unfinished = self.file.unfinished();
        let events = Arc::clone(self.file.events());
        let feature_cut = self.file.feature_cut();
        let mut left = Leftovers::default();
        let path = self.path;
        let unreadable = |source| InputError::Unreadable {
            path: path.clone(),
            source,
        };
        let mut records = self
            .file
            .sorted()
            .map_err(|wrong| Failure::bad_input(unreadable(wrong)))?;
        loop {
            let item = match records.next() {
                Ok(Some(item)) => item,
                Ok(None) => break,
                Err(source) => {
                    left.damage = Some(InputError::Damaged {
                        path: path.clone(),
                        records: left.records,
                        source,
                    });
                    break;
                }
            };
            left.records += 1;
            left.note(&item.record, || events.time_of(item.event, &item.record));
            if each(&mut left, &item).is_break() {
                left.stopped = true;
                break;
            }
        }
        left.lost = left.lost.max(left.lost_counted);
        left.cut = records.cut().or(feature_cut);
        left.early_flushes = records.early_flushes();
        left.foreign = records.skipped();
        left.spe = records.spe();
        left.deferred = records.deferred();
        left.unfinished = unfinished;
        left.path = path;
        match left.cut {
            Some(cut) if left.records == 0 && left.foreign == 0 && !cut.records_whole() => {
                let path = left.path;
                Err(Failure::bad_input(InputError::NothingWhole { path, cut }))
            }
            _ => Ok(left),
        }
    }
}

/// What an option names is there: what it was named for would be missing without a word.
fn is_there(path: Option<&Path>, option: &'static str) -> Result<(), Failure> {
    let Some(path) = path else {
        return Ok(());
    };
    let looked = if path.is_dir() {
        std::fs::read_dir(path).map(drop)
    } else {
        File::open(path).map(drop)
    };
    looked.map_err(|source| {
        Failure::bad_input(InputError::Named {
            path: path.to_owned(),
            option,
            source,
        })
    })
}

/// Counts of samples.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shown {
    /// Samples given.
    pub(crate) samples: u64,
    /// Samples of guests: perf shows none.
    pub(crate) guests: u64,
    /// Samples given whose `data_src` has bits without a name.
    unnamed: u64,
}

impl Shown {
    /// Counts a sample; whether it is to be given.
    #[inline]
    fn takes(&mut self, sample: &LocalSample<'_>) -> bool {
        if sample.mode == Mode::Guest {
            self.guests += 1;
            return false;
        }
        self.samples += 1;
        let unnamed = sample.data_src().is_some_and(|word| word.unnamed() != 0);
        self.unnamed += u64::from(unnamed);
        true
    }
}

impl AddAssign for Shown {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.guests += other.guests;
        self.unnamed += other.unnamed;
    }
}

/// What of a file was not shown, and why.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    path: PathBuf,
    /// Samples given, and those that are not.
    pub(crate) shown: Shown,
    /// Passed over by the decoder.
    pub(crate) skipped: Skipped,
    /// Records the recorder lost.
    pub(crate) lost: u64,
    /// Samples that found no room, as the kernel counted them for each event; in `lost` when all is read.
    lost_counted: u64,
    /// Samples the hardware or the kernel dropped.
    pub(crate) lost_samples: u64,
    /// Pieces of hardware trace, which is not decoded.
    pub(crate) aux: u64,
    /// Their bytes.
    pub(crate) aux_bytes: u64,
    /// What was made of them, if they are SPE's.
    spe: Option<SpeCounts>,
    /// What became of samples whose user frames came later.
    deferred: DeferredCounts,
    /// Records of types this version has no name for.
    unknown: BTreeMap<u32, u64>,
    /// Records of simpleperf's own.
    foreign: u64,
    /// Records read.
    records: u64,
    /// Where the file ends too early.
    pub(crate) cut: Option<Cut>,
    /// The recorder was killed.
    pub(crate) unfinished: bool,
    /// How often records had to be handed on before they were known to be in order.
    pub(crate) early_flushes: u64,
    /// The reader wanted no more.
    pub(crate) stopped: bool,
    /// There is a filter, and none of the samples fits it.
    pub(crate) unfit: bool,
    damage: Option<InputError>,
    /// Files with symbols that were refused.
    pub(crate) refused: Refused,
}

impl Leftovers {
    #[inline]
    fn note(&mut self, record: &RawRecord<'_>, time: impl FnOnce() -> Option<u64>) {
        match record.kind {
            kind::SAMPLE | kind::MMAP | kind::MMAP2 | kind::COMM | kind::FORK | kind::EXIT => {}
            _ => self.note_other(record, time),
        }
    }

    fn note_other(&mut self, record: &RawRecord<'_>, time: impl FnOnce() -> Option<u64>) {
        match record.kind {
            kind::LOST | kind::LOST_SAMPLES => match Record::parse(*record) {
                Ok(Record::Lost(lost)) => self.lost = self.lost.saturating_add(lost.lost),
                // Without a time it is perf's: what the events' counters of lost samples said in the end. That is once more what
                // the records of lost ones say, or more where those were lost too.
                Ok(Record::LostSamples(lost)) if time() == Some(0) => {
                    self.lost_counted = self.lost_counted.saturating_add(lost.lost);
                }
                Ok(Record::LostSamples(lost)) => {
                    self.lost_samples = self.lost_samples.saturating_add(lost.lost);
                }
                _ => {}
            },
            kind::AUXTRACE => {
                self.aux += 1;
                if let Some(UserRecord::Auxtrace(piece)) = UserRecord::parse(*record) {
                    self.aux_bytes = self.aux_bytes.saturating_add(piece.size);
                }
            }
            other if kind::name(other).is_none() => *self.unknown.entry(other).or_default() += 1,
            _ => {}
        }
    }

    /// One line for each thing a reader must know to judge what was shown.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Skipped {
            unknown_event,
            unknown_layout,
            malformed,
        } = self.skipped;
        let incomplete = self.incomplete();
        let is_short = matches!(incomplete, Some(InputError::Short { .. }));
        let counted = [
            (
                unknown_event,
                "samples of events the file does not declare: not shown",
            ),
            (
                unknown_layout,
                "samples with fields this version cannot place: not shown",
            ),
            (
                if is_short { 0 } else { malformed },
                "records shorter than their fields: not shown",
            ),
            (
                self.shown.guests,
                "samples of guests: not shown, as perf shows none",
            ),
            (
                self.shown.unnamed,
                "samples have bits in data_src that this version has no name for: shown as they are",
            ),
            (
                self.lost,
                "records lost while recording: a larger ring (perf record -m) loses fewer",
            ),
            (
                self.lost_samples,
                "samples dropped by the hardware or the kernel while recording",
            ),
            (
                self.foreign,
                "records of simpleperf's own: passed over, only simpleperf knows them",
            ),
            (
                self.deferred.alone,
                "samples lack their user frames, which were to come later and did not: shown without",
            ),
            (
                self.early_flushes,
                "times the order of samples is uncertain: the file marks no rounds",
            ),
        ];
        let unfit = self.unfit.then(|| self.nothing());
        let mut lines: Vec<String> = unfit.into_iter().collect();
        let counted = counted
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"));
        lines.extend(counted);
        if let Some(spe) = self.spe {
            lines.extend(spe_lines(spe));
        } else if self.aux > 0 {
            let (aux, bytes) = (self.aux, self.aux_bytes);
            lines.push(format!(
                "{aux} pieces of hardware trace, {bytes} bytes: not decoded"
            ));
        }
        for (kind, count) in &self.unknown {
            lines.push(format!(
                "{count} records of type {kind}: unknown to this version, passed over"
            ));
        }
        lines.extend(incomplete.map(|what| match what {
            // The file is named already, where the lines are.
            InputError::Cut { cut, records, .. } => {
                format!("{cut}; the {records} records before that are shown")
            }
            InputError::NoRecords { .. } => "the file has no records".to_owned(),
            InputError::Short { count, .. } => {
                format!("{count} records shorter than their fields: not shown")
            }
            _ => "the recorder was killed: the file has no header features".to_owned(),
        }));
        lines
    }

    /// Why there is nothing to show.
    pub(crate) fn nothing(&self) -> String {
        match self.shown.samples {
            0 => "the file has no samples".to_owned(),
            samples => format!(
                "none of the file's {} samples fits the filter",
                grouped(samples)
            ),
        }
    }

    /// Records of all kinds that the recorder had no room for.
    pub(crate) fn lost_records(&self) -> u64 {
        self.lost.saturating_add(self.lost_samples)
    }

    /// Why the file is not whole, if it is not.
    fn incomplete(&self) -> Option<InputError> {
        let (path, records) = (self.path.clone(), self.records);
        match self.cut {
            Some(cut) => Some(InputError::Cut { path, cut, records }),
            None if self.unfinished && records == 0 => Some(InputError::NoRecords { path }),
            None if self.unfinished => Some(InputError::Unfinished { path, records }),
            None if self.skipped.malformed > 0 => Some(InputError::Short {
                path,
                count: self.skipped.malformed,
            }),
            None => None,
        }
    }

    /// perf too fails on such a file or warns. It says nothing of a pipe that ends in a few bytes, fewer than a header.
    fn is_bad(&self) -> bool {
        match self.cut {
            Some(cut) => cut.what != CutPart::Header || cut.promised.is_some() || self.unfinished,
            None => self.unfinished || self.skipped.malformed > 0,
        }
    }

    /// Prints the lines to standard error; why the file is not whole is said by [`Leftovers::into_result`], if that ends badly.
    pub(crate) fn say(&self) {
        let lines = self.lines();
        let said_later = usize::from(self.incomplete().is_some() && self.is_bad());
        for line in &lines[..lines.len() - said_later] {
            crate::output::say(&format!("{}: {line}", self.path.display()));
        }
    }

    /// Bad input if the records broke off or the file is not whole. Says which symbol files were refused.
    pub(crate) fn into_result(self) -> Result<(), Failure> {
        self.refused.say();
        let incomplete = self.incomplete().filter(|_| self.is_bad() && !self.stopped);
        match self.damage.or(incomplete) {
            Some(damage) => Err(Failure::bad_input(damage)),
            None => Ok(()),
        }
    }
}

/// What of SPE's trace is missing. How many samples collided or found no room, nobody knows.
fn spe_lines(spe: SpeCounts) -> impl Iterator<Item = String> {
    let of = spe.handed;
    let counted = [
        (
            spe.collided,
            format!(
                "of {of} pieces of SPE trace lack samples that collided: a longer interval loses fewer"
            ),
        ),
        (
            spe.truncated,
            format!(
                "of {of} pieces of SPE trace are cut: a larger AUX area (perf record -m ,N) loses less"
            ),
        ),
        (
            spe.broken,
            "operations sampled by SPE are damaged in the file: not shown".to_owned(),
        ),
        (
            spe.bad_bytes,
            "bytes of SPE trace belong to no packet: passed over".to_owned(),
        ),
    ];
    let lines = counted.into_iter().filter(|(count, _)| *count > 0);
    lines.map(|(count, what)| format!("{count} {what}"))
}
