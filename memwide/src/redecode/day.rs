//! One day: decoded beside the stored one, held against it, put in its place.

use super::At;
use crate::output::say;
use anyhow::Context as _;
use memwide_aggregator::{Cause, Lease, Rows};
use memwide_decoder::archive::{self, Day, Held};
use memwide_decoder::{RedecodeError, Redecoder};
use memwide_service::clock;
use memwide_service::telemetry::Chain;
use memwide_store::rows::NativeBlock;
use memwide_store::schema::{Difference, RemadeDay, Totals};
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Rows that are built before they go to the store, bytes before compression.
const BUILT_BYTES: u64 = 32 << 20;

/// Blocks that may wait for the store; each is a part of `BUILT_BYTES`.
const BLOCKS_WAITING: usize = 4;

/// Samples that are closed by one statement: bounds the store's memory, as `close_rows` of a sink does.
const CLOSE_ROWS: u64 = 1_000_000;

/// Seconds of ingest time that a partition's pieces are spread over.
const SPREAD_S: u32 = 3_600;

/// How often somebody at a terminal is told how far it is, and how often whatever keeps what is said.
const TOLD_EVERY: Duration = Duration::from_secs(2);
const LOGGED_EVERY: Duration = Duration::from_secs(30);

/// How a day ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is as decoded now.
    Replaced,
    /// It would be replaced.
    WouldReplace,
    /// It stays as it is, and why.
    Refused(anyhow::Error),
}

/// What became of a day.
#[derive(Debug)]
pub(crate) struct Remade {
    pub(crate) day: Day,
    pub(crate) sources: u64,
    pub(crate) batches: u64,
    pub(crate) totals: Totals,
    pub(crate) outcome: Outcome,
}

/// Why a day stays as it is.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the archive has nothing of the day; look with `memwide archive ls`")]
    Nothing,
    #[error(
        "{0} samples of the day are not closed into tables of hours yet; run the sinks and try again after the next close, at \
         most `close_every_s` from now; of a data folder: let `memwide up` run on it past the next full hour, stop it, and try again"
    )]
    NotClosed(u64),
    #[error("{}", differences(.0, *.1))]
    Differs(Vec<Difference>, u64),
    #[error(
        "{made} samples would have no name, {stored} have none now: their symbols are not where decoders keep them any more; \
         bring them (`memwide symbols add FILE`), or accept it with --lose-names"
    )]
    Names { stored: u64, made: u64 },
    #[error(
        "the sinks could not be held long enough; the day is partly replaced, totals are right: run it again"
    )]
    TooSlow,
}

fn differences(first: &[Difference], all: u64) -> String {
    let mut text = format!(
        "{all} totals would not be what is stored; a day that is not wholly archived, or of which rows are still on their way, \
         stays as it is:"
    );
    for one in first {
        let Difference {
            what,
            host,
            time,
            stored,
            made,
        } = one;
        text += &format!(" {what} {host} {time}: {stored} stored, {made} in the archive;");
    }
    text
}

/// Does a day; what goes wrong is in the outcome.
pub(crate) async fn redo(
    at: &At,
    lease: &Lease,
    redecoder: &Arc<Redecoder>,
    day: Day,
    dry_run: bool,
    lose_names: bool,
) -> Remade {
    let mut remade = Remade {
        day,
        sources: 0,
        batches: 0,
        totals: Totals::default(),
        outcome: Outcome::WouldReplace,
    };
    if let Err(why) = attempt(at, lease, redecoder, &mut remade, dry_run, lose_names).await {
        remade.outcome = Outcome::Refused(why);
    }
    remade
}

async fn attempt(
    at: &At,
    lease: &Lease,
    redecoder: &Arc<Redecoder>,
    remade: &mut Remade,
    dry_run: bool,
    lose_names: bool,
) -> anyhow::Result<()> {
    let (place, day) = (Arc::clone(&at.archive), remade.day);
    let held = tokio::task::spawn_blocking(move || archive::held(&place, day)).await??;
    if held.is_empty() {
        return Err(Refusal::Nothing.into());
    }
    let now_s = clock::unix_ns() / 1_000_000_000;
    lease.sure().await?;
    let beside = RemadeDay::begin(&at.store, &day.to_string(), now_s).await?;
    let done = fill(at, lease, redecoder, remade, held, &beside).await;
    let done = match done {
        Ok(()) => judge(at, lease, remade, &beside, dry_run, lose_names).await,
        Err(why) => Err(why),
    };
    // Whoever has the lease now is perhaps filling it.
    lease.sure().await?;
    let removed = beside.remove().await;
    done?;
    Ok(removed?)
}

/// Makes the day's rows.
async fn fill(
    at: &At,
    lease: &Lease,
    redecoder: &Arc<Redecoder>,
    remade: &mut Remade,
    held: Vec<Held>,
    beside: &RemadeDay,
) -> anyhow::Result<()> {
    let dated = beside.dated().await?;
    let dated: BTreeMap<u16, u32> = dated.iter().map(|one| (one.part, one.until)).collect();
    let (blocks, mut ready) = mpsc::channel(BLOCKS_WAITING);
    let work = Work {
        redecoder: Arc::clone(redecoder),
        place: Arc::clone(&at.archive),
        day: remade.day,
        partitions: at.sinks.partitions(),
        dated,
        blocks,
        parts: BTreeMap::new(),
        now_s: u32::try_from(clock::unix_ns() / 1_000_000_000).unwrap_or(u32::MAX),
    };
    let working = tokio::task::spawn_blocking(move || work.run(&held));
    let mut number = 0_u64;
    let mut failed = None;
    while let Some(block) = ready.recv().await {
        number += 1;
        let token = format!("redecode/{number}");
        let inserted = async {
            lease.sure().await?;
            anyhow::Ok(beside.insert(block, &token).await?)
        };
        if let Err(error) = inserted.await {
            failed = Some(error);
            break; // the channel closes, and the work ends
        }
    }
    drop(ready);
    let worked = working.await.context("decoding broke")?;
    if let Some(error) = failed {
        return Err(error);
    }
    let made = worked?;
    (remade.sources, remade.batches) = (made.sources, made.batches);
    for (part, pieces) in made.pieces {
        for (after, through) in ranges(&pieces) {
            lease.sure().await?;
            beside.close(part, after, through).await?;
        }
    }
    Ok(())
}

/// Samples by ingest time as ranges that are closed together.
fn ranges(pieces: &[(u32, u64)]) -> Vec<(u32, u32)> {
    let mut ranges = Vec::new();
    let mut begin = None;
    let mut samples = 0;
    for (at, (ingested, rows)) in pieces.iter().enumerate() {
        let after = *begin.get_or_insert(ingested.saturating_sub(1));
        samples += rows;
        if samples >= CLOSE_ROWS || at + 1 == pieces.len() {
            ranges.push((after, *ingested));
            (begin, samples) = (None, 0);
        }
    }
    ranges
}

/// Holds the day against what is stored; if it is to be, puts it there.
async fn judge(
    at: &At,
    lease: &Lease,
    remade: &mut Remade,
    beside: &RemadeDay,
    dry_run: bool,
    lose_names: bool,
) -> anyhow::Result<()> {
    compare(beside).await?;
    remade.totals = beside.totals().await?;
    let (stored, made) = (remade.totals.nameless, remade.totals.nameless_made);
    if made > stored && !lose_names {
        return Err(Refusal::Names { stored, made }.into());
    }
    if dry_run {
        return Ok(());
    }
    lease.sure().await?;
    let hold = at.sinks.hold().await?;
    let replaced = async {
        // Nothing comes any more: what is equal now stays equal.
        compare(beside).await?;
        anyhow::Ok(beside.replace(|| hold.lasts() && lease.is_sure()).await?)
    }
    .await;
    let released = hold.release().await;
    let replaced = replaced?;
    if let Err(error) = released {
        say(&format!(
            "sinks are still held ({}); they go on by themselves within 5 minutes",
            Chain(&error)
        ));
    }
    if !replaced {
        return Err(Refusal::TooSlow.into());
    }
    remade.outcome = Outcome::Replaced;
    Ok(())
}

async fn compare(beside: &RemadeDay) -> anyhow::Result<()> {
    let open = beside.not_closed().await?;
    if open > 0 {
        return Err(Refusal::NotClosed(open).into());
    }
    let (first, all) = beside.differences().await?;
    if all > 0 {
        return Err(Refusal::Differs(first, all).into());
    }
    Ok(())
}

/// Rows of a partition.
#[derive(Debug, Default)]
struct Part {
    rows: Rows,
    /// Samples since the last piece.
    samples: u64,
    /// Ingest time of each piece, and its samples.
    pieces: Vec<(u32, u64)>,
}

/// What a person who waits is told now and then.
#[derive(Debug)]
struct Progress {
    day: Day,
    sources: usize,
    sources_done: usize,
    batches: u64,
    every: Duration,
    told: Instant,
}

impl Progress {
    fn new(day: Day, sources: usize) -> Self {
        Self {
            day,
            sources,
            sources_done: 0,
            batches: 0,
            every: if std::io::stderr().is_terminal() {
                TOLD_EVERY
            } else {
                LOGGED_EVERY
            },
            told: clock::instant(),
        }
    }

    fn batch(&mut self) {
        self.batches += 1;
        if self.told.elapsed() >= self.every {
            let Self {
                day,
                sources,
                sources_done,
                batches,
                ..
            } = self;
            say(&format!(
                "{day}: {sources_done} of {sources} sources decoded, {batches} batches"
            ));
            self.told = clock::instant();
        }
    }
}

/// What was made.
#[derive(Debug, Default)]
struct Made {
    sources: u64,
    batches: u64,
    pieces: BTreeMap<u16, Vec<(u32, u64)>>,
}

/// The decoding, off the async threads.
#[derive(Debug)]
struct Work {
    redecoder: Arc<Redecoder>,
    place: Arc<archive::Place>,
    day: Day,
    partitions: u16,
    /// Latest ingest time of each partition that is closed.
    dated: BTreeMap<u16, u32>,
    blocks: mpsc::Sender<NativeBlock>,
    parts: BTreeMap<u16, Part>,
    now_s: u32,
}

impl Work {
    fn run(mut self, held: &[Held]) -> anyhow::Result<Made> {
        let mut made = Made::default();
        let mut held: Vec<_> = held
            .iter()
            .map(|one| (one.source.partition(self.partitions).0, one))
            .collect();
        // Rows of one partition are built at a time, however many there are.
        held.sort_by_key(|(part, _)| *part);
        let mut before = None;
        let mut progress = Progress::new(self.day, held.len());
        for (part, one) in held {
            if let Some(before) = before.replace(part).filter(|before| *before != part) {
                self.send(before)?;
            }
            let mut failed = None;
            let (redecoder, place, day) = (
                Arc::clone(&self.redecoder),
                Arc::clone(&self.place),
                self.day,
            );
            let done = redecoder.source(&place, day, one, |batch| {
                progress.batch();
                let of = self.parts.entry(part).or_default();
                of.samples += of.rows.add(&one.source, &batch, self.now_s);
                if of.rows.bytes() < BUILT_BYTES {
                    return true;
                }
                failed = self.send(part).err();
                failed.is_none()
            });
            if let Some(why) = failed {
                return Err(why);
            }
            let done = done?;
            progress.sources_done += 1;
            made.sources += u64::from(done.batches > 0);
            made.batches += done.batches;
        }
        if let Some(last) = before {
            self.send(last)?;
        }
        let parts = std::mem::take(&mut self.parts).into_iter();
        made.pieces = parts.map(|(part, of)| (part, of.pieces)).collect();
        Ok(made)
    }

    /// Hands a partition's rows over, as a piece of their own.
    fn send(&mut self, part: u16) -> anyhow::Result<()> {
        let Some(of) = self.parts.get_mut(&part) else {
            return Ok(());
        };
        let last = self.dated.get(&part).copied();
        let last = last.ok_or(Refusal::NotClosed(of.samples))?;
        let piece = u32::try_from(of.pieces.len()).unwrap_or(u32::MAX);
        let ingested = last.saturating_sub(SPREAD_S) + piece.min(SPREAD_S);
        let samples = std::mem::take(&mut of.samples);
        of.pieces.push((ingested, samples));
        let taken = of.rows.take(part, ingested);
        let taken = taken.map_err(|cause: Cause| anyhow::anyhow!(cause))?;
        for block in taken {
            if !RemadeDay::takes(&block, self.day.0) {
                continue;
            }
            let sent = self.blocks.blocking_send(block);
            sent.map_err(|_| RedecodeError::Stopped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_closed_together_up_to_a_bound_and_none_is_left_out() {
        let rows = [
            (vec![], vec![]),
            (vec![(100, 5)], vec![(99, 100)]),
            (
                vec![(100, 400_000), (101, 500_000), (102, 0)],
                vec![(99, 102)],
            ),
            (
                vec![(100, 900_000), (101, 100_000), (102, 7)],
                vec![(99, 101), (101, 102)],
            ),
        ];
        for (pieces, expected) in rows {
            assert_eq!(ranges(&pieces), expected, "{pieces:?}");
        }
    }
}
