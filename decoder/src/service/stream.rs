//! One collector's stream, from `hello` to its end.

mod symbols;

use super::boosts::Told;
use super::collectors::Listener;
use super::job::{self, Outcome, Work};
use super::order::{Order, Place, Tell};
use super::parcels::Parcels;
use super::registry::Seat;
use super::upstream::{OpenError, Upstream};
use super::wanted::Wanted;
use super::{Answer, Shared};
use crate::archive::Writer;
use crate::metrics;
use crate::session::{Sent, Session};
use memwide_model::{MappingId, Source};
use memwide_proto::v1::aggregator_to_decoder::Message as FromAggregator;
use memwide_proto::v1::collector_message::Message as FromCollector;
use memwide_proto::v1::decoder_message::Message as ToCollector;
use memwide_proto::{SCHEMA_VERSION, v1};
use memwide_service::CancellationToken;
use memwide_service::retry::Backoff;
use memwide_service::telemetry::Chain;
use prost::Message as _;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tonic::Streaming;

/// How long a connection may take to say who it is.
const HELLO: Duration = Duration::from_secs(10);

/// Pause between two looks for tables that others ship, and for better ones.
const LOOK: Duration = Duration::from_millis(250);

/// Pauses between attempts to reach an aggregator.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Streams open now.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// Counts a stream while it lives.
struct Counted;

impl Counted {
    fn new() -> Self {
        // ATOMICS: a number to show.
        metrics::STREAMS.set(OPEN.fetch_add(1, Ordering::Relaxed) + 1);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // ATOMICS: a number to show.
        metrics::STREAMS.set(OPEN.fetch_sub(1, Ordering::Relaxed).saturating_sub(1));
    }
}

/// A connection of a collector.
pub(super) struct Stream {
    shared: Arc<Shared>,
    inbound: Streaming<v1::CollectorMessage>,
    out: mpsc::Sender<Answer>,
}

/// Why a stream ends.
enum End {
    /// The other side, or the process, is going away.
    Quiet,
    /// The collector is told why.
    Refuse(v1::Refuse),
}

fn refuse(reason: &str, message: impl Into<String>, retry: bool) -> End {
    End::Refuse(v1::Refuse {
        reason: reason.to_owned(),
        message: message.into(),
        retry,
    })
}

impl Stream {
    pub(super) fn new(
        shared: Arc<Shared>,
        inbound: Streaming<v1::CollectorMessage>,
        out: mpsc::Sender<Answer>,
    ) -> Self {
        Self {
            shared,
            inbound,
            out,
        }
    }

    /// Serves the stream to its end.
    pub(super) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let _counted = Counted::new();
        let (hello, source) = match self.hello().await {
            Ok(hello) => hello,
            Err(end) => {
                finish(&self.out, end).await;
                return Ok(());
            }
        };
        let out = self.out.clone();
        let seat = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = out.closed() => return Ok(()),
            seat = self.shared.registry.sit(source) => seat,
        };
        let replaced = seat.replaced.clone();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let archive = self.shared.archive.clone();
        let mut served = Served {
            archive: archive.map(|archive| Writer::new(archive, source, &hello.hostname)),
            wanted: Wanted::new(Arc::clone(&self.shared.tables)),
            changes: self.shared.tables.changes(),
            look,
            outdated: true,
            settings: self.shared.collectors.listen(&hello),
            told: self.shared.hosts.enter(&hello.hostname, &hello.kind),
            shared: self.shared,
            inbound: self.inbound,
            out: self.out,
            seat,
            source,
            host: hello.hostname,
            sent: Sent::default(),
            parcels: Parcels::default(),
            order: Order::default(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            waiting: None,
        };
        let end = tokio::select! {
            () = stop.cancelled() => End::Quiet,
            () = out.closed() => End::Quiet,
            () = replaced.cancelled() => refuse("busy", "a newer stream of this source has come", true),
            end = served.serve() => end,
        };
        finish(&out, end).await;
        Ok(())
    }

    async fn hello(&mut self) -> Result<(v1::Hello, Source), End> {
        let first = tokio::time::timeout(HELLO, self.inbound.message()).await;
        let Ok(Ok(Some(first))) = first else {
            return Err(End::Quiet);
        };
        let Some(FromCollector::Hello(hello)) = first.message else {
            return Err(refuse("source", "the first message must be `hello`", false));
        };
        if hello.schema_version != SCHEMA_VERSION {
            let text = format!(
                "messages of version {}, this decoder knows {SCHEMA_VERSION}; upgrade the decoder first",
                hello.schema_version
            );
            return Err(refuse("schema", text, true));
        }
        let wire = hello.source.as_ref();
        let wire = wire.ok_or_else(|| refuse("source", "the message names no source", false))?;
        match Source::try_from(wire) {
            Ok(source) => Ok((hello, source)),
            Err(error) => Err(refuse("source", error.to_string(), false)),
        }
    }
}

async fn finish(out: &mpsc::Sender<Answer>, end: End) {
    if let End::Refuse(refuse) = end {
        tracing::info!(
            reason = refuse.reason,
            message = refuse.message,
            "refused a collector's stream"
        );
        let answer = v1::DecoderMessage {
            message: Some(ToCollector::Refuse(refuse)),
        };
        if out.send(Ok(answer)).await.is_err() {
            tracing::debug!("a refused stream did not wait for the reason");
        }
    }
}

/// Tables the first batch of the queue waits for.
struct Waiting {
    tables: Vec<MappingId>,
    until: Instant,
}

/// A stream that has its source.
struct Served {
    shared: Arc<Shared>,
    inbound: Streaming<v1::CollectorMessage>,
    out: mpsc::Sender<Answer>,
    seat: Seat,
    source: Source,
    host: String,
    /// What the collector is told of its settings.
    settings: Listener,
    told: Told,
    sent: Sent,
    parcels: Parcels,
    /// Where its raw batches are kept, if they are.
    archive: Option<Writer>,
    /// Tables that samples of this source want.
    wanted: Wanted,
    changes: watch::Receiver<u64>,
    look: Interval,
    /// There may be better tables than those in use.
    outdated: bool,
    order: Order,
    queue: VecDeque<Arc<v1::Batch>>,
    queued_bytes: u64,
    waiting: Option<Waiting>,
}

/// Why one connection to an aggregator is over.
enum Turn {
    /// Connect again.
    Again,
    /// The stream is over.
    End(End),
}

impl Served {
    async fn serve(&mut self) -> End {
        self.session().forget_requests();
        loop {
            let mut upstream = match self.connect().await {
                Ok(upstream) => upstream,
                Err(end) => return end,
            };
            if let Err(end) = self.start_from(upstream.next).await {
                return end;
            }
            if let Turn::End(end) = self.turn(&mut upstream).await {
                return end;
            }
            tracing::warn!(source = %self.source, "lost the aggregator; connecting again");
        }
    }

    /// Tries until it works or the aggregator says no.
    async fn connect(&mut self) -> Result<Upstream, End> {
        let partition = self.source.partition(self.shared.config.partitions).0;
        let url = self
            .shared
            .config
            .owner(partition)
            .unwrap_or_default()
            .to_owned();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            match Upstream::open(&url, &self.source, &self.host).await {
                Ok(upstream) => return Ok(upstream),
                Err(OpenError::Refused(refuse)) => return Err(End::Refuse(refuse)),
                Err(error) => {
                    if backoff.attempts() == 5 {
                        tracing::warn!(aggregator = url, error = %Chain(&error), "the aggregator does not answer; trying on");
                    }
                }
            }
            // What the centre says, above all a stop, does not wait for an aggregator.
            if backoff.attempts() == 0 {
                self.configure().await?;
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next_pause()) => {}
                () = self.settings.changed() => self.configure().await?,
            }
        }
    }

    /// The aggregator wants this batch next: the collector hears it.
    async fn start_from(&mut self, next: u64) -> Result<(), End> {
        self.sent.clear();
        self.queue.clear();
        self.queued_bytes = 0;
        self.waiting = None;
        let message = match self.order.start_from(next) {
            Tell::Welcome => ToCollector::Welcome(v1::Welcome {
                next,
                side_band_through: self.session().side_band_through(),
                credit: Some(v1::Credit {
                    unacked_bytes_max: self.shared.config.credit_bytes,
                }),
                configure: self.settings.now(),
            }),
            Tell::Resume => ToCollector::Resume(v1::Resume { from: next }),
        };
        self.answer(message).await
    }

    /// Other settings hold.
    async fn configure(&mut self) -> Result<(), End> {
        match self.settings.now() {
            Some(settings) => self.answer(ToCollector::Configure(settings)).await,
            None => Ok(()),
        }
    }

    async fn answer(&self, message: ToCollector) -> Result<(), End> {
        let message = v1::DecoderMessage {
            message: Some(message),
        };
        self.out.send(Ok(message)).await.map_err(|_| End::Quiet)
    }

    /// The state of the source, made where there is none.
    fn session(&mut self) -> &mut Session {
        let host = self.host.clone();
        let source = self.source;
        self.seat
            .get_or_insert_with(|| Box::new(Session::new(&source, &host)))
    }

    /// Passes messages both ways until one side is gone.
    async fn turn(&mut self, upstream: &mut Upstream) -> Turn {
        loop {
            match self.work(upstream).await {
                Ok(true) => {}
                Ok(false) => return Turn::Again,
                Err(end) => return Turn::End(end),
            }
            let until = self.waiting.as_ref().map(|waiting| waiting.until);
            let waited = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let done = tokio::select! {
                answer = upstream.answer() => match answer {
                    Some(answer) => self.answered(answer).await,
                    None => return Turn::Again,
                },
                message = self.inbound.message() => match message {
                    Ok(Some(message)) => self.collected(message).await,
                    Ok(None) | Err(_) => Err(End::Quiet),
                },
                Ok(()) = self.changes.changed() => {
                    self.outdated = true;
                    self.decide().await.map(|()| true)
                }
                _ = self.look.tick(), if self.outdated || self.wanted.waits_for_others() => {
                    self.look().await.map(|()| true)
                }
                () = self.settings.changed() => self.configure().await.map(|()| true),
                boost = self.told.next() => {
                    self.answer(ToCollector::Configure(boost)).await.map(|()| true)
                }
                () = waited => {
                    self.waiting = None;
                    self.decode_first(upstream, false).await
                }
            };
            match done {
                Ok(true) => {}
                Ok(false) => return Turn::Again,
                Err(end) => return Turn::End(end),
            }
        }
    }

    async fn answered(&mut self, answer: FromAggregator) -> Result<bool, End> {
        match answer {
            FromAggregator::Committed(committed) => {
                self.session().acknowledged(committed.through);
                let through = committed.through;
                self.answer(ToCollector::Ack(v1::Ack { through })).await?;
            }
            FromAggregator::Resume(resume) => self.start_from(resume.from.max(1)).await?,
            FromAggregator::Refuse(refuse) => return Err(End::Refuse(refuse)),
            FromAggregator::Opened(_) => {}
        }
        Ok(true)
    }

    async fn collected(&mut self, message: v1::CollectorMessage) -> Result<bool, End> {
        match message.message {
            Some(FromCollector::SideBand(side_band)) => {
                if let Some(batch) = side_band.batch {
                    self.apply_side_band(batch).await?;
                }
            }
            Some(FromCollector::Batch(batch)) => self.take_batch(batch).await?,
            Some(FromCollector::Symbols(chunk)) => self.take_symbols(chunk).await?,
            Some(FromCollector::Config(report)) => {
                if !self.told.answered(&report) {
                    self.shared.collectors.answered(&self.host, &report);
                }
            }
            Some(FromCollector::Hello(_)) => {
                return Err(refuse("source", "`hello` came twice", true));
            }
            None => {
                return Err(refuse(
                    "schema",
                    "a message this decoder does not know",
                    true,
                ));
            }
        }
        Ok(true)
    }

    async fn take_batch(&mut self, batch: v1::Batch) -> Result<(), End> {
        match self.order.arrived(batch.number, self.queue.len() as u64) {
            Place::Due => {}
            Place::PassOver => return Ok(()),
            Place::Resume(from) => return self.start_from(from).await,
        }
        self.queued_bytes += batch.encoded_len() as u64;
        self.queue.push_back(Arc::new(batch));
        Ok(())
    }

    async fn apply_side_band(&mut self, batch: v1::Batch) -> Result<(), End> {
        let mut archive = self.archive.take();
        self.archive = self
            .on_worker(move |work| {
                if let Some(archive) = &mut archive {
                    archive.side_band(&batch);
                }
                work.session.apply_side_band(&batch);
                archive
            })
            .await?;
        Ok(())
    }

    /// Decodes what is due and does not wait. `false`: the aggregator is gone.
    async fn work(&mut self, upstream: &Upstream) -> Result<bool, End> {
        loop {
            let bound = self.shared.config.symbol_wait_bytes;
            if let Some(waiting) = &self.waiting {
                let mut tables = waiting.tables.iter();
                let open = tables.any(|mapping| self.wanted.has(*mapping));
                if open && self.queued_bytes <= bound {
                    return Ok(true);
                }
                self.waiting = None;
                if !self.decode_first(upstream, false).await? {
                    return Ok(false);
                }
                continue;
            }
            if self.queue.is_empty() {
                return Ok(true);
            }
            if !self.decode_first(upstream, true).await? {
                return Ok(false);
            }
        }
    }

    /// Decodes the first batch of the queue and hands it on, or asks for the tables it needs.
    async fn decode_first(&mut self, upstream: &Upstream, patient: bool) -> Result<bool, End> {
        let Some(batch) = self.queue.front().cloned() else {
            return Ok(true);
        };
        let tables = Arc::clone(&self.shared.tables);
        let patient = patient && self.shared.config.symbol_wait_ms > 0;
        let job_batch = Arc::clone(&batch);
        let mut archive = self.archive.take();
        let decoded = self
            .on_worker(move |work| {
                let outcome = job::decode(work, &job_batch, &tables, patient);
                // Before it goes on: what is committed is in the archive.
                let kept = match (&outcome, &mut archive) {
                    (Outcome::Decoded(_), Some(archive)) => archive.batch(&job_batch),
                    _ => true,
                };
                (outcome, archive, kept)
            })
            .await;
        let block = match decoded {
            Ok((outcome, archive, kept)) => {
                self.archive = archive;
                if !kept && self.shared.config.archive_required {
                    return Err(refuse(
                        "archive",
                        "the batch cannot be archived, and `archive_required` is set",
                        true,
                    ));
                }
                match outcome {
                    Outcome::Decoded(block) => block,
                    Outcome::Waits(wants) => {
                        self.wait_for(wants).await?;
                        return Ok(true);
                    }
                }
            }
            Err(end) => {
                // Decoding broke and the state is gone. The batch goes on without its samples, so that it cannot break the
                // next stream too, which starts from the collector's history.
                let archived = self.archive_broken(&batch).await;
                if self.shared.config.archive_required && !archived {
                    return Err(end); // it stays in its collector's spool
                }
                upstream.send(job::poisoned(&batch, &self.host)).await;
                return Err(end);
            }
        };
        self.queue.pop_front();
        self.queued_bytes = self.queued_bytes.saturating_sub(batch.encoded_len() as u64);
        self.order.decoded(batch.number);
        Ok(upstream.send(*block).await)
    }

    /// Archives a batch that broke decoding: a later decoder may be able to. False: it is not in the archive.
    async fn archive_broken(&self, batch: &Arc<v1::Batch>) -> bool {
        let Some(archive) = self.shared.archive.clone() else {
            return false;
        };
        let (mut archive, batch) = (
            Writer::new(archive, self.source, &self.host),
            Arc::clone(batch),
        );
        let written = tokio::task::spawn_blocking(move || archive.batch(&batch)).await;
        let is_written = written.unwrap_or(false);
        if !is_written {
            tracing::debug!(source = %self.source, "a batch that broke decoding is not archived");
        }
        is_written
    }

    /// Runs a job on the state of the source. It cannot be undone half-way: if it breaks, the state is gone.
    async fn on_worker<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut Work) -> T + Send + 'static,
    ) -> Result<T, End> {
        self.session();
        let Some(session) = self.seat.take() else {
            return Err(End::Quiet);
        };
        let sent = std::mem::take(&mut self.sent);
        match job::run(Work { session, sent }, &self.shared.workers, job).await {
            Ok((work, answer)) => {
                self.sent = work.sent;
                self.seat.put(work.session);
                Ok(answer)
            }
            Err(job::Broken) => Err(End::Quiet),
        }
    }
}
