//! The task that owns a partition: takes batches in order, builds rows, flushes, answers the streams.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::Context as _;
use memwide_model::Source;
use memwide_proto::v1;
use memwide_service::queue::{Receiver, Weigh};
use memwide_service::{CancellationToken, clock};

use crate::answers::Teller;
use crate::encode;
use crate::error::StreamError;
use crate::metrics::{self, Offer};
use crate::order::{Answer, Order};
use crate::partition::{FlushHead, Offered, Partition};
use crate::publish::{Flush, Outcome, publish};
use crate::ready::{Cursors, Flushes};
use crate::rollup::{Memory, Rollup, Treatment};
use crate::stream::{CursorRead, Nats, patiently, read_cursor};

/// After the stop, a flush may take so long before it is given up; its batches come again.
const LAST_FLUSH: Duration = Duration::from_secs(5);

/// What a stream tells the owner of its partition.
#[derive(Debug)]
pub(crate) enum Command {
    /// The stream begins.
    Open {
        /// Its source.
        source: Source,
        /// Number of the stream, unique in this process.
        stream: u64,
        /// Where answers go.
        teller: Teller,
    },
    /// A batch arrived.
    Batch {
        /// Source of the stream.
        source: Source,
        /// Number of the stream.
        stream: u64,
        /// The batch.
        batch: Box<v1::DecodedBatch>,
        /// Its size on the wire, in bytes.
        bytes: usize,
    },
    /// The stream ended.
    Close {
        /// Source of the stream.
        source: Source,
        /// Number of the stream.
        stream: u64,
    },
}

/// What a command without a batch weighs in the queue, in bytes.
const SMALL: usize = 256;

impl Weigh for Command {
    fn weight_bytes(&self) -> usize {
        match self {
            Self::Batch { bytes, .. } => *bytes + SMALL,
            Self::Open { .. } | Self::Close { .. } => SMALL,
        }
    }
}

#[derive(Debug)]
struct Stream {
    id: u64,
    teller: Teller,
    order: Order,
}

/// What has to be done once the owner knows how a flush ended.
struct Landed {
    outcome: Outcome,
    cursor: v1::Cursor,
    bytes: u64,
    rows: u64,
    seconds: f64,
}

type InFlight = Pin<Box<dyn Future<Output = anyhow::Result<Landed>> + Send>>;

/// One partition's owner.
pub(crate) struct Owner {
    index: u16,
    nats: Nats,
    partition: Partition,
    memory: Memory,
    rollup: Rollup,
    streams: BTreeMap<Source, Stream>,
    in_flight: Option<InFlight>,
    in_flight_bytes: u64,
    shown_bytes: u64,
    cursors: Cursors,
    flushes: Flushes,
}

impl Owner {
    pub(crate) fn new(
        index: u16,
        nats: Nats,
        partition: Partition,
        cursors: Cursors,
        flushes: Flushes,
    ) -> Self {
        Self {
            index,
            nats,
            partition,
            memory: Memory::default(),
            rollup: Rollup::default(),
            streams: BTreeMap::new(),
            in_flight: None,
            in_flight_bytes: 0,
            shown_bytes: 0,
            cursors,
            flushes,
        }
    }

    /// Runs until `stop` is cancelled and what was applied is flushed.
    pub(crate) async fn run(
        mut self,
        mut queue: Receiver<Command>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let read = patiently("cursor", &stop, || read_cursor(&self.nats, self.index)).await;
        let Some(read) = read.context("cannot read the partition's cursor")? else {
            return Ok(());
        };
        self.partition.reload(read.cursor.as_ref(), read.sequence);
        self.cursors.one_read();
        let give_up = CancellationToken::new();
        let (mut stopping, mut drained) = (false, false);
        loop {
            self.begin_flush(drained, &give_up)?;
            let due_ns = self.partition.flush_due_ns();
            if drained && self.in_flight.is_none() && due_ns.is_none() {
                return Ok(());
            }
            let wait = due_ns.map_or(Duration::from_mins(1), |due| {
                Duration::from_nanos(due.saturating_sub(clock::monotonic_ns()))
            });
            tokio::select! {
                biased;
                landed = landing(&mut self.in_flight) => {
                    self.in_flight = None;
                    self.landed(landed?, &stop).await;
                }
                command = queue.recv(), if !drained && !self.partition.full() => match command {
                    Some(command) => self.take(command),
                    None => drained = true,
                },
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    queue.close(); // what waits there is still taken
                }
                () = tokio::time::sleep(LAST_FLUSH), if stopping && self.in_flight.is_some() => {
                    give_up.cancel();
                },
                () = tokio::time::sleep(wait), if due_ns.is_some() => {}
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Open {
                source,
                stream,
                teller,
            } => self.open(source, stream, teller),
            Command::Batch {
                source,
                stream,
                batch,
                ..
            } => self.batch(source, stream, &batch),
            Command::Close { source, stream } => {
                if self
                    .streams
                    .get(&source)
                    .is_some_and(|open| open.id == stream)
                {
                    self.streams.remove(&source);
                    self.partition.close(&source);
                    self.memory.forget_source(&source);
                }
            }
        }
    }

    fn open(&mut self, source: Source, id: u64, teller: Teller) {
        let Some(next) = self.partition.open(source) else {
            teller.refuse(
                "busy",
                format!("partition {} has no room for another source", self.index),
                true,
            );
            return;
        };
        teller.opened(next);
        // A source with nothing left to send would otherwise never hear of an acknowledgement that got lost.
        match self.partition.committed_of(&source) {
            0 => {}
            through => teller.committed(through),
        }
        let stream = Stream {
            id,
            teller,
            order: Order::default(),
        };
        if let Some(older) = self.streams.insert(source, stream) {
            older.teller.refuse(
                "source",
                "a newer stream of the same source is open".to_owned(),
                false,
            );
        }
    }

    fn batch(&mut self, source: Source, id: u64, batch: &v1::DecodedBatch) {
        let Some(stream) = self
            .streams
            .get_mut(&source)
            .filter(|stream| stream.id == id)
        else {
            return; // an older stream of a source that has a newer one
        };
        let wall_ns = clock::unix_ns();
        let offered = Offered {
            number: batch.number,
            closed_wall_ns: batch.closed_wall_ns,
            import: batch
                .facts
                .as_ref()
                .is_some_and(|facts| facts.kind == "import"),
            has_no_earlier: false,
        };
        let now_ns = clock::monotonic_ns();
        let (partition, order) = (&mut self.partition, &mut stream.order);
        let treatment = match order.offer(partition, &source, offered, wall_ns, now_ns) {
            Answer::Apply => Treatment::Store,
            Answer::Expire => Treatment::Expire,
            Answer::Duplicate { committed } => {
                metrics::BATCHES.add(Offer::Duplicate, 1);
                stream.teller.committed(committed);
                return;
            }
            Answer::PassedOver => {
                metrics::BATCHES.add(Offer::Ahead, 1);
                return;
            }
            Answer::Resume(next) => {
                metrics::BATCHES.add(Offer::Ahead, 1);
                stream.teller.resume(next);
                return;
            }
            Answer::Refuse(next) => {
                metrics::BATCHES.add(Offer::Ahead, 1);
                let message = format!(
                    "batch {next} is due and does not come, batch {} did",
                    batch.number
                );
                stream.teller.refuse("source", message, true);
                self.streams.remove(&source);
                return;
            }
        };
        let now_s = u32::try_from(wall_ns / 1_000_000_000).unwrap_or(u32::MAX);
        let added = self
            .rollup
            .add(&mut self.memory, &source, batch, treatment, now_s);
        let outcome = match (&added.malformed, treatment) {
            (Some(malformed), _) => {
                tracing::warn!(%source, batch = batch.number, error = %malformed, "batch counted as undecodable");
                Offer::Malformed
            }
            (None, Treatment::Expire) => Offer::Expired,
            (None, Treatment::Store) => Offer::Applied,
        };
        metrics::BATCHES.add(outcome, 1);
        metrics::SAMPLES.add(added.samples);
        self.partition
            .grew(self.rollup.bytes(), self.rollup.messages());
        self.show_pending();
    }

    /// Starts a flush if one is due, or if anything is left while stopping.
    fn begin_flush(&mut self, stopping: bool, give_up: &CancellationToken) -> anyhow::Result<()> {
        let Some(due_ns) = self.partition.flush_due_ns() else {
            return Ok(());
        };
        if due_ns > clock::monotonic_ns() && !stopping {
            return Ok(());
        }
        let Some(head) = self.partition.begin_flush(clock::unix_ns()) else {
            return Ok(());
        };
        anyhow::ensure!(
            self.in_flight.is_none(),
            "partition {} has two flushes",
            self.index
        );
        self.in_flight_bytes = self.rollup.bytes();
        let rollup = std::mem::take(&mut self.rollup);
        self.in_flight = Some(Box::pin(flush(
            self.nats.clone(),
            self.index,
            head,
            rollup,
            self.flushes.clone(),
            give_up.clone(),
        )));
        Ok(())
    }

    async fn landed(&mut self, landed: Landed, stop: &CancellationToken) {
        self.in_flight_bytes = 0;
        metrics::COMMIT.observe(landed.seconds);
        match landed.outcome {
            Outcome::Committed(sequence) => {
                metrics::FLUSHED.add(landed.bytes);
                metrics::FLUSHED_ROWS.add(landed.rows);
                for (source, through) in self.partition.committed(&landed.cursor, sequence) {
                    if let Some(stream) = self.streams.get(&source) {
                        stream.teller.committed(through);
                    }
                }
            }
            Outcome::Fenced(read) => self.fenced(&read, stop).await,
            Outcome::Stopped => {
                tracing::warn!(
                    partition = self.index,
                    "NATS did not take the last flush; its batches come again"
                );
                self.rollup = Rollup::default();
                self.partition.reload(None, 0);
            }
        }
        self.show_pending();
    }

    /// Brings the gauge of all partitions up to date.
    fn show_pending(&mut self) {
        let pending = self.rollup.bytes() + self.in_flight_bytes;
        metrics::PENDING.add(pending.saturating_sub(self.shown_bytes));
        metrics::PENDING.sub(self.shown_bytes.saturating_sub(pending));
        self.shown_bytes = pending;
    }

    /// Another aggregator committed for this partition: what was built here is dropped and asked for again.
    async fn fenced(&mut self, read: &CursorRead, stop: &CancellationToken) {
        tracing::warn!(
            partition = self.index,
            "another aggregator owns the partition; starting from its cursor"
        );
        self.rollup = Rollup::default();
        self.memory.forget_sent();
        self.partition.reload(read.cursor.as_ref(), read.sequence);
        for (source, stream) in &mut self.streams {
            if let Some(next) = self.partition.open(*source) {
                stream.order.asked();
                stream.teller.committed(next - 1);
                stream.teller.resume(next);
            }
        }
        // Two that fight for a partition should not do so at full speed.
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(crate::stream::FIRST_PAUSE * 4) => {}
        }
    }
}

async fn landing(in_flight: &mut Option<InFlight>) -> anyhow::Result<Landed> {
    match in_flight {
        Some(flush) => flush.await,
        None => std::future::pending().await,
    }
}

async fn flush(
    nats: Nats,
    partition: u16,
    head: FlushHead,
    rollup: Rollup,
    told: Flushes,
    give_up: CancellationToken,
) -> anyhow::Result<Landed> {
    let begin = clock::instant();
    let encoded = tokio::task::spawn_blocking(move || {
        let blocks = rollup.finish();
        let rows = blocks.iter().map(|block| u64::from(block.rows)).sum();
        let messages: std::io::Result<Vec<_>> = blocks.iter().map(encode::row_block).collect();
        messages.map(|messages| (messages, rows))
    });
    let (messages, rows) = encoded
        .await
        .context("packing rows failed")?
        .context("cannot pack rows")?;
    let bytes = messages.iter().map(|message| message.len() as u64).sum();
    let flush = Flush {
        partition,
        head,
        messages,
        rows,
    };
    let outcome =
        publish(&nats, &flush, &told, &give_up)
            .await
            .map_err(|failure: StreamError| {
                anyhow::Error::new(failure)
                    .context(format!("cannot commit a flush of partition {partition}"))
            })?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Landed {
        outcome,
        cursor: flush.head.cursor,
        bytes,
        rows: flush.rows,
        seconds,
    })
}
