//! From the records of a file to numbered batches, the same ones every time.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::UNIX_EPOCH;

use memwide_perf_abi::file::{Cut, CutPart, FileRecord};
use memwide_perf_abi::{Record, kind};
use memwide_proto::limits;
use memwide_proto::v1::{Batch, ClockAnchor, EventCount, EventDesc, HostFacts};

use super::options::{ImportOptions, ImportedEvent};
use super::records::Changes;
use super::{ImportError, events, facts, open};
use crate::batch::{Collected, is_sample_like};
use crate::section::SectionPacker;

/// How far a time may be off that is only known from the file's modification time.
const SHIFTED_UNCERTAINTY_NS: u64 = 1_000_000_000;
/// The clock data in a header: two clocks read one after the other.
const CLOCK_DATA_UNCERTAINTY_NS: u64 = 1_000;

/// What one reading of the file says.
#[derive(Debug, Clone)]
pub(super) struct Outline {
    pub(super) events: Vec<ImportedEvent>,
    pub(super) batches: u64,
    pub(super) skipped_samples: u64,
    pub(super) broken: u64,
    pub(super) lost: u64,
    pub(super) wall_ns: (u64, u64),
    pub(super) cut: Option<Cut>,
    pub(super) unfinished: bool,
    pub(super) records: u64,
    anchor: ClockAnchor,
}

/// Records between two cuts.
#[derive(Debug)]
struct Piece {
    number: u64,
    collected: Collected,
    lost: Vec<u64>,
    /// Samples that cannot be read, by event; the last place is for those of no event.
    unreadable: Vec<u64>,
    /// Newest time up to its end.
    newest: u64,
}

/// Reads the file once, without making batches.
pub(super) fn outline(path: &Path, options: &ImportOptions) -> Result<Outline, ImportError> {
    let file = open(path)?;
    if file.events().events().is_empty() {
        return Err(ImportError::NoEvents {
            path: path.to_owned(),
        });
    }
    let mut imported: Vec<ImportedEvent> = file
        .events()
        .events()
        .iter()
        .map(|event| ImportedEvent {
            name: event.name.clone(),
            samples: 0,
        })
        .collect();
    let (mut batches, mut lost) = (0, 0);
    let walked = walk(path, options, |piece| {
        batches = piece.number;
        lost += piece.lost.iter().sum::<u64>();
        for (event, tally) in imported.iter_mut().zip(&piece.collected.tallies) {
            event.samples += tally.produced;
        }
        ControlFlow::Continue(())
    })?;
    let (first, last) = walked.samples.or(walked.times).unwrap_or((0, 0));
    let anchor = if let Some(at) = options.at_wall_ns {
        ClockAnchor {
            perf_ns: first,
            wall_ns: at,
            uncertainty_ns: 0,
        }
    } else if let Some(clock) = file.features().clock_data().filter(|_| !walked.made_up) {
        ClockAnchor {
            perf_ns: clock.clockid_time_ns,
            wall_ns: clock.wall_clock_ns,
            uncertainty_ns: CLOCK_DATA_UNCERTAINTY_NS,
        }
    } else {
        ClockAnchor {
            perf_ns: walked.times.map_or(last, |(_, last)| last),
            wall_ns: modified(path)?,
            uncertainty_ns: SHIFTED_UNCERTAINTY_NS,
        }
    };
    Ok(Outline {
        events: imported,
        batches,
        skipped_samples: walked.skipped_samples,
        broken: walked.broken,
        lost,
        wall_ns: (wall(&anchor, first), wall(&anchor, last)),
        cut: walked.cut.or(file.feature_cut()),
        unfinished: file.unfinished(),
        records: walked.records,
        anchor,
    })
}

fn wall(anchor: &ClockAnchor, perf_ns: u64) -> u64 {
    anchor
        .wall_ns
        .wrapping_add(perf_ns.wrapping_sub(anchor.perf_ns))
}

fn modified(path: &Path) -> Result<u64, ImportError> {
    // Of a directory the time of its header's file counts: a directory changes when files come and go.
    let files = super::files_of(path).map_err(ImportError::unreadable(path))?;
    let path = files.first().map_or(path, std::path::PathBuf::as_path);
    let modified = std::fs::metadata(path)
        .and_then(|meta| meta.modified())
        .map_err(ImportError::unreadable(path))?;
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Makes the batches from number `from` on and hands them to `take`, until it breaks.
pub(super) fn make(
    path: &Path,
    options: &ImportOptions,
    outline: &Outline,
    hostname: &str,
    from: u64,
    mut take: impl FnMut(Batch) -> ControlFlow<()>,
) -> Result<(), ImportError> {
    let file = open(path)?;
    let changes = Changes::new(file.events().events(), file.features());
    let descs = events::describe(
        file.events().events(),
        changes.attrs(),
        file.features(),
        file.tracing_data().map(AsRef::as_ref),
    );
    let facts = facts::of_file(file.features(), hostname);
    let mut packer = SectionPacker::new().map_err(ImportError::unreadable(path))?;
    let mut failure = None;
    walk(path, options, |piece| {
        if piece.number < from {
            return ControlFlow::Continue(());
        }
        match batch(piece, outline, &descs, &facts, &mut packer) {
            Ok(batch) => take(batch),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failure.map_or(Ok(()), |error| Err(ImportError::unreadable(path)(error)))
}

fn batch(
    piece: &Piece,
    outline: &Outline,
    descs: &[EventDesc],
    facts: &HostFacts,
    packer: &mut SectionPacker,
) -> std::io::Result<Batch> {
    let collected = &piece.collected;
    let counted = collected.tallies.iter().zip(&piece.lost);
    let counted = counted.map(|(tally, lost)| (tally.produced, *lost));
    let ordinals = (0_u32..).take(collected.tallies.len()).chain([u32::MAX]);
    let counts = ordinals
        .zip(counted.chain([(0, 0)]).zip(&piece.unreadable))
        .map(|(event, ((produced, lost), unreadable))| EventCount {
            event,
            produced: produced + unreadable,
            lost,
            undecodable: *unreadable,
            ..EventCount::default()
        })
        .filter(|count| count.produced > 0 || count.lost > 0);
    let first = piece.number == 1;
    Ok(Batch {
        number: piece.number,
        closed_wall_ns: wall(&outline.anchor, piece.newest),
        anchors: vec![outline.anchor],
        events: if first { descs.to_vec() } else { Vec::new() },
        facts: first.then(|| facts.clone()),
        side_band: Some(packer.pack(&collected.side_band, collected.side_band_records)?),
        samples: Some(packer.pack(&collected.samples, collected.sample_records)?),
        counts: counts.collect(),
        ..Batch::default()
    })
}

#[derive(Debug, Default)]
struct Walked {
    /// First and last time of its samples, and of all its records: those of mappings may be of long before.
    samples: Option<(u64, u64)>,
    times: Option<(u64, u64)>,
    skipped_samples: u64,
    /// Operations in hardware trace that cannot be read.
    broken: u64,
    made_up: bool,
    cut: Option<Cut>,
    records: u64,
}

/// Goes through the file in perf's order and cuts it into pieces; at least one. Both readings cut alike: where, depends on
/// the records alone.
fn walk(
    path: &Path,
    options: &ImportOptions,
    mut each: impl FnMut(&Piece) -> ControlFlow<()>,
) -> Result<Walked, ImportError> {
    let malformed = ImportError::malformed(path);
    let mut file = open(path)?;
    let mut changes = Changes::new(file.events().events(), file.features());
    let events = file.events().clone();
    let count = events.events().len();
    let mut walked = Walked {
        made_up: changes.makes_times_up(),
        ..Walked::default()
    };
    let mut piece = Piece {
        number: 1,
        collected: Collected::new(count),
        lost: vec![0; count],
        unreadable: vec![0; count + 1],
        newest: 0,
    };
    let mut record_out = Vec::new();
    let mut records = file.sorted().map_err(&malformed)?;
    while let Some(FileRecord { record, event, .. }) = records.next().map_err(&malformed)? {
        walked.records += 1;
        if record.kind >= kind::USER_TYPE_START {
            continue;
        }
        if record.is_sample() {
            let tally = event.and_then(|event| piece.collected.tallies.get_mut(event));
            let Some(tally) = tally else {
                walked.skipped_samples += 1;
                if let Some(sum) = piece.unreadable.last_mut() {
                    *sum += 1;
                }
                continue;
            };
            tally.produced += 1;
        }
        let lost_of = match record.kind {
            kind::LOST | kind::LOST_SAMPLES => match Record::parse(record) {
                Ok(Record::Lost(lost)) => Some((events.index_of_id(lost.id), lost.lost)),
                Ok(Record::LostSamples(lost)) => Some((event, lost.lost)),
                _ => None,
            },
            _ => None,
        };
        if let Some((of, lost)) = lost_of
            && let Some(sum) = piece.lost.get_mut(of.or(event).unwrap_or(0))
        {
            *sum += lost;
        }
        record_out.clear();
        let time = changes.apply(record, event, &mut record_out);
        if let Some(time) = time.filter(|time| *time != 0 && *time != u64::MAX) {
            walked.times = Some(with(walked.times, time));
            if record.kind == kind::SAMPLE {
                walked.samples = Some(with(walked.samples, time));
            }
            piece.newest = piece.newest.max(time);
        }
        let collected = &mut piece.collected;
        if is_sample_like(record.kind) {
            collected.samples.extend_from_slice(&record_out);
            collected.sample_records += 1;
        } else {
            collected.side_band.extend_from_slice(&record_out);
            collected.side_band_records += 1;
        }
        if collected.len() >= limits::BATCH_RAW_BYTES {
            if each(&piece).is_break() {
                return Ok(walked);
            }
            piece.number += 1;
            piece.collected.clear();
            piece.lost.fill(0);
            piece.unreadable.fill(0);
        }
    }
    // What a file's hardware trace lacks is known at its end only. The event made of it is the last.
    if let Some(spe) = records.spe().filter(|_| count > 0) {
        walked.broken = spe.broken;
        if let Some(sum) = piece.unreadable.get_mut(count - 1) {
            *sum += spe.broken;
        }
    }
    walked.cut = records.cut();
    if let Some(cut) = walked.cut
        && breaks_off(&cut)
        && !options.allow_cut
    {
        return Err(ImportError::Cut {
            path: path.to_owned(),
            cut,
            records: walked.records,
        });
    }
    let unreadable = piece.unreadable.iter().any(|count| *count > 0);
    if piece.collected.len() > 0 || unreadable || piece.number == 1 {
        let _ = each(&piece);
    }
    Ok(walked)
}

/// A range of times with one more.
fn with(times: Option<(u64, u64)>, time: u64) -> (u64, u64) {
    let (first, last) = times.unwrap_or((time, time));
    (first.min(time), last.max(time))
}

/// Whether something of the recording is missing for certain. A pipe may end in a few bytes, fewer than a record's header: what
/// was printed behind it.
fn breaks_off(cut: &Cut) -> bool {
    cut.promised.is_some() || cut.what != CutPart::Header
}
