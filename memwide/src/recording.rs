//! A perf.data file opened for a command that needs no services. Every error names the file, the place and the remedy; all
//! that was not shown is counted.

use crate::cli::SymbolArgs;
use crate::failure::Failure;
use memwide_decoder::Mode;
use memwide_decoder::edge::{FileSource, Places};
use memwide_decoder::local::{LocalSample, LocalSession, Skipped};
use memwide_perf_abi::file::{Cut, EventTable, Features, TracingData};
use memwide_perf_abi::{FileError, PerfFile, Record, kind};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// A directory, device or pipe.
    #[error("{} is a {what}, not a perf.data file; name a file with -i", path.display())]
    NotAFile { path: PathBuf, what: &'static str },
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
    #[error(
        "{} is cut at byte {at}, before the first record{}; copy or record it again",
        path.display(),
        promised_text(*promised)
    )]
    NothingWhole {
        path: PathBuf,
        at: u64,
        promised: Option<u64>,
    },
}

fn promised_text(promised: Option<u64>) -> String {
    promised.map_or_else(String::new, |end| {
        format!(", though its header promises data up to byte {end}")
    })
}

/// A file whose header is read.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    file: PerfFile<File>,
    places: Places,
    names_data: bool,
}

impl Recording {
    /// Opens a file; symbols are looked for where the arguments say.
    pub(crate) fn open(path: &Path, symbols: &SymbolArgs) -> Result<Self, Failure> {
        open(path)
            .map(|file| Self {
                path: path.to_owned(),
                file,
                places: Places {
                    symfs: symbols.symfs.clone(),
                    kallsyms: symbols.kallsyms.clone(),
                    build_id_dir: None,
                },
                names_data: true,
            })
            .map_err(Failure::bad_input)
    }

    /// Leaves data addresses without names and regions, where nobody asks for them.
    pub(crate) fn without_data(mut self) -> Self {
        self.names_data = false;
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

    /// Gives every sample that perf shows, in perf's order, until `each` says stop.
    pub(crate) fn each(
        mut self,
        mut each: impl FnMut(&LocalSample<'_>) -> ControlFlow<()>,
    ) -> Result<Leftovers, Failure> {
        let unfinished = self.file.unfinished();
        let source = FileSource::new(self.places);
        let events = Arc::clone(self.file.events());
        let mut session = LocalSession::new(events, self.file.features(), source);
        if !self.names_data {
            session = session.without_data();
        }
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
        let mut count = 0;
        loop {
            let item = match records.next() {
                Ok(Some(item)) => item,
                Ok(None) => break,
                Err(source) => {
                    left.damage = Some(InputError::Damaged {
                        path: path.clone(),
                        records: count,
                        source,
                    });
                    break;
                }
            };
            count += 1;
            left.note(&item.record);
            let mut flow = ControlFlow::Continue(());
            session.push(&item.record, item.event, |sample| {
                if flow.is_break() {
                } else if sample.mode == Mode::Guest {
                    left.guests += 1;
                } else {
                    left.samples += 1;
                    flow = each(sample);
                }
            });
            if flow.is_break() {
                left.stopped = true;
                break;
            }
        }
        left.cut = records.cut();
        left.early_flushes = records.early_flushes();
        left.unfinished = unfinished;
        left.skipped = session.skipped();
        left.path = path;
        match (left.cut, count) {
            (Some(Cut { at, promised, .. }), 0) => {
                Err(Failure::bad_input(InputError::NothingWhole {
                    path: left.path,
                    at,
                    promised,
                }))
            }
            _ => Ok(left),
        }
    }
}

fn open(path: &Path) -> Result<PerfFile<File>, InputError> {
    let cannot_open = |source| InputError::Open {
        path: path.to_owned(),
        source,
    };
    // Asked before opening: opening a pipe waits for a writer.
    let meta = std::fs::metadata(path).map_err(cannot_open)?;
    if let Some(what) = other_than_file(meta.file_type()) {
        return Err(InputError::NotAFile {
            path: path.to_owned(),
            what,
        });
    }
    let file = File::open(path).map_err(cannot_open)?;
    PerfFile::open(file).map_err(|source| InputError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn other_than_file(kind: std::fs::FileType) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    if kind.is_dir() {
        Some("directory")
    } else if kind.is_fifo() {
        Some("pipe")
    } else if kind.is_socket() {
        Some("socket")
    } else if kind.is_char_device() || kind.is_block_device() {
        Some("device")
    } else {
        None
    }
}

/// What of a file was not shown, and why.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    path: PathBuf,
    /// Samples given.
    pub(crate) samples: u64,
    /// Samples of guests: perf shows none.
    pub(crate) guests: u64,
    /// Passed over by the decoder.
    pub(crate) skipped: Skipped,
    /// Records the recorder lost.
    pub(crate) lost: u64,
    /// Samples the hardware or the kernel dropped.
    pub(crate) lost_samples: u64,
    /// Pieces of hardware trace, which is not decoded.
    pub(crate) aux: u64,
    /// Where the file ends too early.
    pub(crate) cut: Option<Cut>,
    /// The recorder was killed.
    pub(crate) unfinished: bool,
    /// How often records had to be handed on before they were known to be in order.
    pub(crate) early_flushes: u64,
    /// The reader wanted no more.
    pub(crate) stopped: bool,
    damage: Option<InputError>,
}

impl Leftovers {
    fn note(&mut self, record: &memwide_perf_abi::RawRecord<'_>) {
        match record.kind {
            kind::LOST | kind::LOST_SAMPLES => match Record::parse(*record) {
                Ok(Record::Lost(lost)) => self.lost = self.lost.saturating_add(lost.lost),
                Ok(Record::LostSamples(lost)) => {
                    self.lost_samples = self.lost_samples.saturating_add(lost.lost);
                }
                _ => {}
            },
            kind::AUXTRACE => self.aux += 1,
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
        let counted = [
            (
                unknown_event,
                "samples of events the file does not declare: not shown",
            ),
            (
                unknown_layout,
                "samples with fields this version cannot place: not shown",
            ),
            (malformed, "records shorter than their fields: not shown"),
            (
                self.guests,
                "samples of guests: not shown, as perf shows none",
            ),
            (
                self.lost,
                "records lost while recording: a larger ring (perf record -m) loses fewer",
            ),
            (
                self.lost_samples,
                "samples dropped by the hardware or the kernel while recording",
            ),
            (self.aux, "pieces of hardware trace: not decoded"),
            (
                self.early_flushes,
                "times the order of samples is uncertain: the file marks no rounds",
            ),
        ];
        let mut lines: Vec<String> = counted
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if self.unfinished {
            lines.push("the recorder was killed: the file has no header features".to_owned());
        }
        if let Some(Cut { at, have, promised }) = self.cut {
            let promised = promised_text(promised);
            lines.push(format!(
                "the file is cut: of the record at byte {at} only {have} bytes are there{promised}; \
                 what came before is shown"
            ));
        }
        lines
    }

    /// Prints the lines to standard error.
    #[expect(clippy::print_stderr, reason = "said beside the answer, not in it")]
    pub(crate) fn say(&self) {
        for line in self.lines() {
            eprintln!("memwide: {}: {line}", self.path.display());
        }
    }

    /// Bad input if the records broke off.
    pub(crate) fn into_result(self) -> Result<(), Failure> {
        self.damage
            .map_or(Ok(()), |damage| Err(Failure::bad_input(damage)))
    }
}
