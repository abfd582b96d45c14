//! A partition's sink.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream::kv;
use memwide_proto::{subject, v1};
use memwide_service::{CancellationToken, clock};
use memwide_store::rows::{Samples, TableRows};
use prost::Message as _;
use tokio::sync::Semaphore;

use super::block::{self, Insert, Poison};
use super::close;
use super::dead::{self, Letter};
use super::insert::{Ended, Target};
use super::plan::{self, Todo};
use super::reader::{Reader, Stored};
use super::record::{self, Kept};
use super::vocabulary::Vocabulary;
use super::{Stoppable, TOKENS_KEPT};
use crate::config::SinkConfig;
use crate::error::{SinkError, StreamError};
use crate::metrics;
use crate::stream::{Nats, patiently};

/// How long to wait for a hint before looking again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Rows wait so long for others of the same burst.
const QUIET: Duration = Duration::from_millis(150);

/// One partition's sink.
pub(super) struct Worker {
    partition: u16,
    nats: Nats,
    records: kv::Store,
    config: SinkConfig,
    target: Target,
    /// Nothing new is begun.
    stop: CancellationToken,
    /// What was begun is left, too.
    ending: CancellationToken,
    /// A block or a close is under way.
    busy: bool,
    reader: Reader,
    vocabulary: Arc<Vocabulary>,
    room: Arc<Semaphore>,
    /// Samples stored and not closed.
    waiting: u64,
    /// The hold that was seen last, and since when.
    held: Option<(u64, Instant)>,
}

/// What stopped a step.
enum Break {
    /// The process stops.
    Stopped,
    /// Another sink has changed the record: begin again from it.
    Overtaken,
    /// Rows of the store are being replaced: look again.
    Held,
}

/// Short for steps: go on, or a reason not to.
type Step<T> = Result<Result<T, Break>, SinkError>;

macro_rules! go {
    ($step:expr) => {
        match $step? {
            Ok(value) => value,
            Err(reason) => return Ok(Err(reason)),
        }
    };
}

impl Worker {
    pub(super) fn new(
        target: Target,
        nats: Nats,
        records: kv::Store,
        config: SinkConfig,
        room: Arc<Semaphore>,
    ) -> Self {
        let (partition, ending) = (target.partition, target.stop.clone());
        let reader = Reader::new(nats.clone(), partition, 1);
        Self {
            partition,
            nats,
            records,
            config,
            target,
            stop: CancellationToken::new(),
            ending,
            busy: false,
            reader,
            vocabulary: Arc::default(),
            room,
            waiting: 0,
            held: None,
        }
    }

    /// Works until the process stops.
    pub(super) async fn run(mut self, stop: CancellationToken) -> Result<(), SinkError> {
        self.stop = stop;
        loop {
            match self.work_on_record().await? {
                Err(Break::Stopped) => {
                    if self.busy {
                        tracing::warn!(
                            partition = self.partition,
                            "stopped within a block; it is repeated at the next start, and a backup taken now holds a part of it"
                        );
                    }
                    return Ok(());
                }
                Err(Break::Held) => {
                    if self.wait_while_held().await? {
                        return Ok(());
                    }
                }
                Ok(()) | Err(Break::Overtaken) => {
                    tracing::warn!(
                        partition = self.partition,
                        "another sink, or a `memwide redecode` that has ended, changed the block record of this partition; beginning again from it"
                    );
                    if self.sleep(LOOK_AGAIN).await {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn is_held(&mut self, record: &v1::BlockRecord) -> bool {
        let (now_s, until_s) = (clock::unix_ns() / 1_000_000_000, record.held_until_s);
        let known = self.held.filter(|(known, _)| *known == until_s);
        let (_, since) = *self
            .held
            .insert(known.unwrap_or((until_s, clock::instant())));
        let is_held = plan::is_held(record, now_s, since.elapsed());
        if is_held && known.is_none() {
            tracing::info!(
                partition = self.partition,
                at_most_s = plan::HELD_AT_MOST.as_secs(),
                "held: `memwide redecode` replaces rows; what comes waits in the stream"
            );
        }
        is_held
    }

    /// Until the hold is over; true when the process stops.
    async fn wait_while_held(&mut self) -> Result<bool, SinkError> {
        loop {
            if self.sleep(LOOK_AGAIN).await {
                return Ok(true);
            }
            match self.read_record().await? {
                Ok(kept) if self.is_held(&kept.record) => {}
                Ok(_) => break,
                Err(_) => return Ok(true),
            }
        }
        tracing::info!(partition = self.partition, "not held any more");
        Ok(false)
    }

    /// Takes up what the record says and goes on from there.
    async fn work_on_record(&mut self) -> Step<()> {
        go!(self.learn().await);
        let mut kept = go!(self.read_record().await);
        loop {
            match plan::todo(&kept.record) {
                Todo::Close { .. } => kept = go!(self.close(kept).await),
                Todo::Repeat { first, last } => kept = go!(self.repeat(kept, first, last).await),
                Todo::Gather { from } => {
                    // Whoever wrote that the block is done may have died before it purged.
                    if kept.revision > 0 {
                        self.purge(from - 1).await;
                    }
                    self.reader.seek(from);
                    break;
                }
            }
        }
        let waiting = close::rows_waiting(&self.target, &kept.record).await;
        let Some(waiting) = waiting else {
            return Ok(Err(Break::Stopped));
        };
        self.waiting = waiting;
        loop {
            if self.stop.is_cancelled() {
                return Ok(Err(Break::Stopped));
            }
            if self.is_held(&kept.record) {
                return Ok(Err(Break::Held));
            }
            let now_s = clock::unix_ns() / 1_000_000_000;
            let (every_s, large) = (
                self.config.close_every_s,
                self.waiting >= self.config.close_rows,
            );
            if let Some(closing) = plan::close_due(&kept.record, every_s, now_s, large) {
                kept.record = closing;
                kept = go!(self.write(kept).await);
                kept = go!(self.close(kept).await);
            }
            let messages = go!(self.gather().await);
            let (Some(first), Some(last)) = (messages.first(), messages.last()) else {
                continue;
            };
            let now_s = clock::unix_ns() / 1_000_000_000;
            kept.record = plan::open(kept.record, first.sequence, last.sequence, now_s);
            kept = go!(self.write(kept).await);
            kept = go!(self.store(kept, &messages, Vec::new()).await);
            self.waiting += messages.iter().map(block::samples_in).sum::<u64>();
        }
    }

    /// Inserts an open block again: the same messages under the same tokens.
    async fn repeat(&mut self, kept: Kept, first: u64, last: u64) -> Step<Kept> {
        let age_s = (clock::unix_ns() / 1_000_000_000).saturating_sub(kept.record.created_wall_s);
        let partition = self.partition;
        if age_s > TOKENS_KEPT.as_secs() {
            return Err(SinkError::TooOld {
                partition,
                first,
                last,
                age_days: age_s / 86_400,
                key: subject::block_key(partition),
                bucket: subject::BLOCK_BUCKET,
            });
        }
        let letters = go!(self
            .ask("dead letters", || dead::of_block(
                &self.nats, partition, first, last
            ))
            .await);
        self.reader.seek(first);
        let mut messages = Vec::new();
        while messages
            .last()
            .is_none_or(|message: &Stored| message.sequence < last)
        {
            let Some(message) = go!(self.next().await) else {
                break;
            };
            if message.sequence <= last {
                messages.push(message);
            }
        }
        let ends = (
            messages.first().map(|m| m.sequence),
            messages.last().map(|m| m.sequence),
        );
        if ends != (Some(first), Some(last)) {
            // A twin may have finished the block and purged it meanwhile.
            let now = go!(self.read_record().await);
            if now != kept {
                return Ok(Err(Break::Overtaken));
            }
            return Err(SinkError::Gone {
                partition,
                first,
                last,
                found: messages.len() as u64,
            });
        }
        tracing::info!(partition, first, last, "repeating the open block");
        self.store(kept, &messages, letters).await
    }

    /// Reads a block: until it is full, old, or nothing more comes.
    async fn gather(&mut self) -> Step<Vec<Stored>> {
        let mut messages: Vec<Stored> = Vec::new();
        let (mut rows, mut bytes) = (0_u64, 0_u64);
        let mut begin = None;
        loop {
            let head = go!(self.peek().await);
            if let Some((samples, size)) = head {
                let full = rows + samples > self.config.block_rows
                    || bytes + size > self.config.block_bytes;
                if full && !messages.is_empty() {
                    return Ok(Ok(messages));
                }
                rows += samples;
                bytes += size;
                messages.extend(self.reader.take());
                begin.get_or_insert_with(clock::instant);
                continue;
            }
            let Some(begin) = begin else {
                // Nothing waits. Come back now and then: a close may be due.
                if self.wait(LOOK_AGAIN).await {
                    return Ok(Err(Break::Stopped));
                }
                if self.reader_has_news().await {
                    continue;
                }
                return Ok(Ok(messages));
            };
            let left = self.config.block_wait().saturating_sub(begin.elapsed());
            if left.is_zero() || self.wait(left.min(QUIET)).await || !self.reader_has_news().await {
                return Ok(Ok(messages));
            }
        }
    }

    async fn reader_has_news(&mut self) -> bool {
        matches!(self.reader.peek().await, Ok(Some(_)))
    }

    /// The next message: its samples and its bytes unpacked.
    async fn peek(&mut self) -> Step<Option<(u64, u64)>> {
        loop {
            match self.reader.peek().await {
                Ok(None) => return Ok(Ok(None)),
                Ok(Some(message)) => {
                    let block = v1::RowBlock::decode(message.payload.clone()).unwrap_or_default();
                    let samples = if block.table == Samples::TABLE {
                        block.rows
                    } else {
                        0
                    };
                    return Ok(Ok(Some((samples.into(), block.native_bytes))));
                }
                Err(failure) if failure.is_retryable() => {
                    tracing::debug!(error = %memwide_service::telemetry::Chain(&failure), "NATS gives no rows");
                    if self.sleep(LOOK_AGAIN / 4).await {
                        return Ok(Err(Break::Stopped));
                    }
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    async fn next(&mut self) -> Step<Option<Stored>> {
        go!(self.peek().await);
        Ok(Ok(self.reader.take()))
    }

    /// Inserts a block's rows, marks the record as done, purges.
    async fn store(
        &mut self,
        mut kept: Kept,
        messages: &[Stored],
        mut letters: Vec<Letter>,
    ) -> Step<Kept> {
        let room = Arc::clone(&self.room);
        let _room = tokio::select! {
            () = self.ending.cancelled() => return Ok(Err(Break::Stopped)),
            room = room.acquire() => room,
        };
        let mut refused: Vec<u64> = letters.iter().map(|letter| letter.sequence).collect();
        let (mut inserts, mut poison) = self.unpack(&kept.record, messages, &refused).await;
        if !poison.is_empty() {
            // Unless the tables are newer than what is known of them.
            go!(self.learn().await);
            (inserts, poison) = self.unpack(&kept.record, messages, &refused).await;
        }
        go!(self.bury(messages, &mut letters, poison).await);
        let mut facts = inserts;
        let mut at = 0;
        let mut entered = false;
        loop {
            if at == facts.len() && !entered {
                entered = true;
                block::enter_refused(&kept.record, messages, &letters, &mut facts);
            }
            let Some(insert) = facts.get_mut(at) else {
                break;
            };
            match self.target.insert(insert).await {
                Ended::Stored => at += 1,
                Ended::Stopped => return Ok(Err(Break::Stopped)),
                Ended::Poisoned { sequences, why } => {
                    refused.extend(&sequences);
                    insert
                        .parts
                        .retain(|part| !sequences.contains(&part.sequence));
                    let empty = insert.parts.is_empty();
                    let found = messages
                        .iter()
                        .filter(|message| sequences.contains(&message.sequence));
                    let poison = found
                        .map(|message| {
                            let samples = block::samples_in(message);
                            Poison {
                                sequence: message.sequence,
                                why: why.clone(),
                                samples,
                            }
                        })
                        .collect();
                    go!(self.bury(messages, &mut letters, poison).await);
                    if empty {
                        facts.remove(at);
                    }
                }
            }
        }
        kept.record = plan::done(kept.record);
        kept = go!(self.write(kept).await);
        metrics::BLOCKS.add(1);
        self.purge(kept.record.last).await;
        Ok(Ok(kept))
    }

    /// Asks the store for its codes.
    async fn learn(&mut self) -> Step<()> {
        let known = Mutex::new(Vocabulary::default());
        let asked = self.target.until_done("codes", |store| {
            let known = &known;
            async move {
                let loaded = Vocabulary::load(&store).await?;
                *known.lock().unwrap_or_else(PoisonError::into_inner) = loaded;
                Ok(())
            }
        });
        if !asked.await {
            return Ok(Err(Break::Stopped));
        }
        self.vocabulary = Arc::new(known.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(Ok(()))
    }

    async fn unpack(
        &self,
        record: &v1::BlockRecord,
        messages: &[Stored],
        refused: &[u64],
    ) -> (Vec<Insert>, Vec<Poison>) {
        let (record, messages, refused) = (*record, messages.to_vec(), refused.to_vec());
        let vocabulary = Arc::clone(&self.vocabulary);
        let unpacking = move || block::inserts(&record, &messages, &refused, &vocabulary);
        let unpacked = tokio::task::spawn_blocking(unpacking).await;
        match unpacked {
            Ok(unpacked) => unpacked,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => std::future::pending().await, // the runtime is going away, and this with it
            },
        }
    }

    /// Keeps refused messages in the dead-letter stream before anything else of their insert goes in.
    async fn bury(
        &self,
        messages: &[Stored],
        letters: &mut Vec<Letter>,
        poison: Vec<Poison>,
    ) -> Step<()> {
        for Poison {
            sequence,
            why,
            samples,
        } in poison
        {
            if letters.iter().any(|letter| letter.sequence == sequence) {
                continue;
            }
            let Some(message) = messages.iter().find(|message| message.sequence == sequence) else {
                continue;
            };
            let partition = self.partition;
            tracing::error!(
                partition,
                sequence,
                samples,
                why,
                "rows refused for good; kept as a dead letter"
            );
            go!(self
                .ask("dead letter", || dead::send(
                    &self.nats, partition, message, samples, &why
                ))
                .await);
            metrics::DEAD.add(1);
            letters.push(Letter { sequence, samples });
        }
        Ok(Ok(()))
    }

    /// Removes what is stored; cursors stay, the last one of the partition. A failure only costs room.
    async fn purge(&self, through: u64) {
        let Ok(stream) = self.nats.context.get_stream_no_info(subject::STREAM).await else {
            return;
        };
        let data = stream
            .purge()
            .filter(subject::data(self.partition))
            .sequence(through + 1);
        let cursors = stream
            .purge()
            .filter(subject::cursor(self.partition))
            .keep(1);
        for failure in [data.await.err(), cursors.await.err()]
            .into_iter()
            .flatten()
        {
            tracing::debug!(partition = self.partition, error = %failure, "stored rows not purged yet");
        }
    }

    async fn close(&mut self, mut kept: Kept) -> Step<Kept> {
        if !close::run(&self.target, &kept.record, self.config.close_every_s).await {
            return Ok(Err(Break::Stopped));
        }
        self.waiting = 0;
        kept.record = plan::closed(kept.record);
        kept = go!(self.write(kept).await);
        metrics::CLOSES.add(1);
        Ok(Ok(kept))
    }

    async fn read_record(&mut self) -> Step<Kept> {
        let kept: Kept = go!(self
            .ask("block record", || {
                record::read(&self.records, self.partition)
            })
            .await);
        self.busy = plan::is_busy(&kept.record);
        Ok(Ok(kept))
    }

    /// Writes the record; overtaken, or held, if it is not the one known.
    async fn write(&mut self, kept: Kept) -> Step<Kept> {
        let written = go!(self
            .ask("block record", || record::write(&self.records, &kept))
            .await);
        self.busy = plan::is_busy(&kept.record);
        let Some(written) = written else {
            let found = go!(self.read_record().await);
            let is_held = self.is_held(&found.record);
            return Ok(Err(if is_held {
                Break::Held
            } else {
                Break::Overtaken
            }));
        };
        Ok(Ok(written))
    }

    async fn ask<T, F>(&self, what: &'static str, request: impl FnMut() -> F) -> Step<T>
    where
        F: Future<Output = Result<T, StreamError>>,
    {
        let answered: Stoppable<T> = patiently(what, &self.ending, request)
            .await
            .map_err(SinkError::from);
        Ok(answered?.ok_or(Break::Stopped))
    }

    /// Waits for a hint; true when the process stops.
    async fn wait(&mut self, longest: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => true,
            () = self.reader.wait(longest) => false,
        }
    }

    /// True when the process stops.
    async fn sleep(&self, pause: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => true,
            () = tokio::time::sleep(pause) => false,
        }
    }
}
