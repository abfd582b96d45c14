//! The thin edge: a gRPC stream that feeds [`Uplink`] and does what it says.

use std::sync::Arc;
use std::time::Duration;

use memwide_proto::limits;
use memwide_proto::v1::collector_message::Message;
use memwide_proto::v1::ingest_client::IngestClient;
use memwide_proto::v1::{
    CollectorMessage, DecoderMessage, SideBandBatch, SymbolChunk, SymbolRequest,
};
use memwide_service::CancellationToken;
use memwide_service::retry::Backoff;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

use super::machine::{Effect, ProtocolError, Step, Uplink};
use super::settings::Settings;
use super::store::{BatchStore, StoreError};
use super::symbols::{SymbolAnswer, SymbolProvider};
use crate::metrics;

/// First and longest pause between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// How long a connection may take, and how long a decoder may think about a hello (it asks its aggregator).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const WELCOME_TIMEOUT: Duration = Duration::from_secs(30);
/// A silent connection is probed this often, so that a vanished decoder is noticed within twice this.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Longer than an aggregator ever keeps what it applied before it commits (5 s): after this much silence a file that was
/// imported before counts as committed.
const SETTLE_AFTER: Duration = Duration::from_secs(8);
/// Messages between us and gRPC. Each may be a batch, so few; what is under way is bounded in bytes by the credit.
const OUT_MESSAGES: usize = 2;
/// Requests for symbols waiting. Above it the answer is "busy"; the decoder asks again when it needs them again.
const SYMBOL_REQUESTS: usize = 256;
/// Files whose symbols are extracted at the same time.
const SYMBOLS_AT_ONCE: usize = 2;

/// Why a source could not be sent to the end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UplinkError {
    /// The endpoint is no address.
    #[error("`{endpoint}` is no address of a decoder; write it as http://HOST:PORT")]
    Endpoint {
        /// As configured.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        source: tonic::transport::Error,
    },
    /// Nobody answers.
    #[error("no decoder answers at {endpoint}")]
    Connect {
        /// As configured.
        endpoint: String,
        /// What the system said.
        #[source]
        source: tonic::transport::Error,
    },
    /// The stream broke.
    #[error("the stream to the decoder broke: {}", .0.message())]
    Stream(#[source] Box<tonic::Status>),
    /// The decoder ended the stream.
    #[error("the decoder closed the stream")]
    Closed,
    /// The decoder did not answer the hello.
    #[error("the decoder did not answer within {} s", .0.as_secs())]
    NoWelcome(Duration),
    /// The decoder broke the protocol.
    #[error("the decoder does not keep to the protocol")]
    Protocol(#[from] ProtocolError),
    /// The decoder does not take this source.
    #[error("the decoder refuses this source ({reason}): {message}")]
    Refused {
        /// `schema`, `source`, `expired`, `busy`.
        reason: String,
        /// For a person.
        message: String,
        /// It may work later.
        retry: bool,
    },
    /// The batches cannot be read.
    #[error("the source's batches cannot be read")]
    Store(#[from] StoreError),
}

impl UplinkError {
    /// Whether another attempt may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Stream(_) | Self::Closed | Self::NoWelcome(_) => true,
            Self::Refused { retry, .. } => *retry,
            // A decoder that forgot what we sent greets us anew and resumes from its cursor.
            Self::Protocol(error) => !matches!(error, ProtocolError::Ahead { .. }),
            Self::Endpoint { .. } | Self::Store(_) => false,
        }
    }
}

/// What happened on an uplink.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UplinkEvent {
    /// The decoder has welcomed us.
    Connected,
    /// The stream is gone (or never came up), and why; it is tried again.
    Disconnected(String),
    /// Batches up to here are committed.
    Acked(u64),
}

/// Told what happens on an uplink; must not block.
pub type Observer = Arc<dyn Fn(UplinkEvent) + Send + Sync>;

/// Sends all batches of `store` to the decoder at `endpoint`, again and again until each is acked.
///
/// Ends when the store is finished and everything is acked, when `stop` is cancelled (which is no error: the rest is still
/// in the store), or when another attempt cannot help.
pub async fn run(
    endpoint: &str,
    store: Arc<dyn BatchStore>,
    symbols: Arc<dyn SymbolProvider>,
    settings: Arc<dyn Settings>,
    observer: Observer,
    stop: CancellationToken,
) -> Result<(), UplinkError> {
    let address = parse(endpoint)?;
    let mut backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
    loop {
        let attempt = attempt(
            endpoint,
            &address,
            &store,
            &symbols,
            &settings,
            &observer,
            &mut backoff,
        );
        let failure = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            outcome = attempt => match outcome {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            },
        };
        if !failure.is_transient() {
            return Err(failure);
        }
        metrics::RECONNECTS.add(1);
        tracing::debug!(error = %chain(&failure), "uplink broke, trying again");
        observer(UplinkEvent::Disconnected(chain(&failure)));
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(backoff.next_pause()) => {}
        }
    }
}

pub(crate) fn parse(endpoint: &str) -> Result<Endpoint, UplinkError> {
    let address =
        Endpoint::from_shared(endpoint.to_owned()).map_err(|source| UplinkError::Endpoint {
            endpoint: endpoint.to_owned(),
            source,
        })?;
    Ok(address
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true))
}

/// The error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// One stream, from connecting to its end.
async fn attempt(
    endpoint: &str,
    address: &Endpoint,
    store: &Arc<dyn BatchStore>,
    symbols: &Arc<dyn SymbolProvider>,
    settings: &Arc<dyn Settings>,
    observer: &Observer,
    backoff: &mut Backoff,
) -> Result<(), UplinkError> {
    let channel = address
        .connect()
        .await
        .map_err(|source| UplinkError::Connect {
            endpoint: endpoint.to_owned(),
            source,
        })?;
    let mut client = IngestClient::new(channel)
        .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits::MESSAGE_BYTES_MAX);

    let (out, outgoing) = mpsc::channel(OUT_MESSAGES);
    let origin = store.origin();
    let progress = *store.progress().borrow();
    let (uplink, mut hello) =
        Uplink::start(&origin, progress, store.first_unacked(), store.snapshot());
    if let Some(Message::Hello(hello)) = &mut hello.message {
        hello.labels = settings.labels();
    }
    if out.send(hello).await.is_err() {
        return Err(UplinkError::Closed);
    }
    let call = client.collect(ReceiverStream::new(outgoing));
    let answers = tokio::time::timeout(WELCOME_TIMEOUT, call)
        .await
        .map_err(|_| UplinkError::NoWelcome(WELCOME_TIMEOUT))?
        .map_err(|status| UplinkError::Stream(Box::new(status)))?
        .into_inner();

    let (ask, asked) = mpsc::channel(SYMBOL_REQUESTS);
    let answer = answer_symbols(asked, symbols.clone(), out.clone());
    let exchange = Exchange {
        uplink,
        store: store.clone(),
        settings: settings.clone(),
        observer,
        out,
        ask,
    };
    tokio::select! {
        outcome = exchange.run(answers, backoff) => outcome,
        () = answer => Err(UplinkError::Closed),
    }
}

struct Exchange<'a> {
    uplink: Uplink,
    store: Arc<dyn BatchStore>,
    settings: Arc<dyn Settings>,
    observer: &'a Observer,
    out: mpsc::Sender<CollectorMessage>,
    ask: mpsc::Sender<SymbolRequest>,
}

impl Exchange<'_> {
    async fn run(
        mut self,
        mut answers: Streaming<DecoderMessage>,
        backoff: &mut Backoff,
    ) -> Result<(), UplinkError> {
        let mut progress = self.store.progress();
        let welcome_by = tokio::time::Instant::now() + WELCOME_TIMEOUT;
        let out = self.out.clone();
        let again = self.store.origin().kind == "import";
        let settle_at = tokio::time::Instant::now() + SETTLE_AFTER;
        loop {
            let now = *progress.borrow_and_update();
            if self.uplink.is_done(now) {
                return Ok(());
            }
            let step = self.uplink.step(now);
            let welcomed = self.uplink.welcomed();
            tokio::select! {
                biased;
                answer = answers.message() => {
                    let answer = answer
                        .map_err(|status| UplinkError::Stream(Box::new(status)))?
                        .ok_or(UplinkError::Closed)?;
                    self.take(answer).await?;
                    if !welcomed && self.uplink.welcomed() {
                        backoff.reset();
                        (self.observer)(UplinkEvent::Connected);
                    }
                }
                permit = out.reserve(), if step.is_some() => {
                    let permit = permit.map_err(|_| UplinkError::Closed)?;
                    if let Some(step) = step {
                        let (message, bytes) = self.load(step).await?;
                        permit.send(message);
                        self.uplink.sent(step, bytes);
                    }
                }
                Ok(()) = progress.changed(), if step.is_none() => {}
                () = tokio::time::sleep_until(settle_at),
                    if again && self.uplink.waits_for_nothing_but_acks(now) =>
                {
                    if let Effect::Ack(through) = self.uplink.settle(now) {
                        self.free(through).await?;
                    }
                }
                () = tokio::time::sleep_until(welcome_by), if !welcomed => {
                    return Err(UplinkError::NoWelcome(WELCOME_TIMEOUT));
                }
            }
        }
    }

    async fn take(&mut self, answer: DecoderMessage) -> Result<(), UplinkError> {
        let progress = *self.store.progress().borrow();
        let acked_before = self.uplink.acked();
        match self.uplink.receive(answer, progress)? {
            Effect::None => {}
            Effect::Ack(through) => {
                metrics::ACKED.add(through.saturating_sub(acked_before));
                self.free(through).await?;
            }
            Effect::Symbols(request) => {
                metrics::SYMBOL_REQUESTS.add(1);
                if let Err(full) = self.ask.try_send(request) {
                    let request = full.into_inner().request;
                    let busy = unavailable(request, "too many requests are waiting".to_owned());
                    self.send(Message::Symbols(busy)).await?;
                }
            }
            Effect::Configure(configure) => {
                let settings = self.settings.clone();
                let report = blocking(move || Ok(settings.configure(&configure))).await?;
                self.send(Message::Config(report)).await?;
            }
            Effect::Refused(refuse) => {
                return Err(UplinkError::Refused {
                    reason: refuse.reason,
                    message: refuse.message,
                    retry: refuse.retry,
                });
            }
        }
        Ok(())
    }

    async fn free(&self, through: u64) -> Result<(), UplinkError> {
        let store = self.store.clone();
        blocking(move || store.ack(through)).await?;
        (self.observer)(UplinkEvent::Acked(through));
        Ok(())
    }

    async fn send(&self, message: Message) -> Result<(), UplinkError> {
        let message = CollectorMessage {
            message: Some(message),
        };
        let sent = self.out.send(message).await;
        sent.map_err(|_| UplinkError::Closed)
    }

    /// Reads a batch and wraps it.
    async fn load(&self, step: Step) -> Result<(CollectorMessage, u64), UplinkError> {
        let at_hand = match step {
            Step::SideBand(_) => None,
            Step::Batch(number) => self.store.at_hand(number),
        };
        let batch = if let Some(batch) = at_hand {
            batch
        } else {
            let store = self.store.clone();
            blocking(move || match step {
                Step::SideBand(number) => store.side_band(number),
                Step::Batch(number) => store.read(number),
            })
            .await?
        };
        let message = match step {
            Step::SideBand(_) => Message::SideBand(SideBandBatch { batch: Some(batch) }),
            Step::Batch(_) => {
                metrics::SENT.add(1);
                Message::Batch(batch)
            }
        };
        let message = CollectorMessage {
            message: Some(message),
        };
        let bytes = message.encoded_len() as u64;
        metrics::SENT_BYTES.add(bytes);
        Ok((message, bytes))
    }
}

/// Runs a store's method where it may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, UplinkError> {
    let done = tokio::task::spawn_blocking(work).await;
    let outcome = done.unwrap_or_else(|panic| {
        Err(StoreError::Broken {
            what: "the store's task ended early".to_owned(),
            source: Box::new(panic),
        })
    });
    Ok(outcome?)
}

fn unavailable(request: u64, why: String) -> SymbolChunk {
    SymbolChunk {
        request,
        unavailable: why,
        ..SymbolChunk::default()
    }
}

/// A table in pieces; what the decoder has of the same table is not sent again.
fn pieces(request: u64, answer: &SymbolAnswer, begun: (u64, u64)) -> Vec<SymbolChunk> {
    let checksum = xxhash_rust::xxh3::xxh3_64(&answer.table);
    let total_bytes = answer.table.len() as u64;
    let (offset, of) = begun;
    let from = usize::try_from(offset).ok();
    let from = from.filter(|from| of == checksum && *from < answer.table.len());
    let mut offset = from.unwrap_or(0);
    let rest = answer.table.get(offset..).unwrap_or_default();
    let pieces = rest.chunks(limits::SYMBOL_CHUNK_BYTES).map(|piece| {
        let chunk = SymbolChunk {
            request,
            total_bytes,
            offset: offset as u64,
            data: prost::bytes::Bytes::copy_from_slice(piece),
            unavailable: String::new(),
            checksum,
            identity: Some(answer.identity.clone()),
        };
        offset += piece.len();
        chunk
    });
    pieces.collect()
}

/// Answers requests until the stream ends, a few at once: a large file does not hold up a small one.
async fn answer_symbols(
    mut asked: mpsc::Receiver<SymbolRequest>,
    symbols: Arc<dyn SymbolProvider>,
    out: mpsc::Sender<CollectorMessage>,
) {
    let mut answering = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            request = asked.recv(), if answering.len() < SYMBOLS_AT_ONCE => {
                let Some(request) = request else { return };
                answering.spawn(answer_one(request, symbols.clone(), out.clone()));
            }
            Some(sent) = answering.join_next(), if !answering.is_empty() => {
                if !matches!(sent, Ok(true)) {
                    return;
                }
            }
        }
    }
}

/// False when the stream is gone.
async fn answer_one(
    request: SymbolRequest,
    symbols: Arc<dyn SymbolProvider>,
    out: mpsc::Sender<CollectorMessage>,
) -> bool {
    let (number, begun) = (request.request, (request.offset, request.checksum));
    let found = tokio::task::spawn_blocking(move || symbols.table(&request)).await;
    let found = found.unwrap_or_else(|_| Err("extracting the symbols failed".to_owned()));
    let chunks = match found {
        Ok(answer) if answer.table.len() as u64 > limits::SYMBOL_TABLE_BYTES_MAX => {
            vec![unavailable(
                number,
                "the symbol table is too large".to_owned(),
            )]
        }
        Ok(answer) => pieces(number, &answer, begun),
        Err(why) => vec![unavailable(number, why)],
    };
    for chunk in chunks {
        metrics::SENT_BYTES.add(chunk.encoded_len() as u64);
        let message = CollectorMessage {
            message: Some(Message::Symbols(chunk)),
        };
        if out.send(message).await.is_err() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_proto::v1::MappingIdentity;

    #[test]
    fn what_the_decoder_has_of_the_same_table_is_not_sent_again() {
        let table: Vec<u8> = (0..limits::SYMBOL_CHUNK_BYTES * 2 + 10)
            .map(|n| n.to_le_bytes()[0])
            .collect();
        let checksum = xxhash_rust::xxh3::xxh3_64(&table);
        let answer = SymbolAnswer {
            identity: MappingIdentity::default(),
            table,
        };
        let offsets = |begun| -> Vec<u64> {
            let sent = pieces(1, &answer, begun);
            sent.iter().map(|piece| piece.offset).collect()
        };
        let chunk = limits::SYMBOL_CHUNK_BYTES as u64;
        assert_eq!(offsets((0, 0)), [0, chunk, 2 * chunk]);
        assert_eq!(offsets((chunk, checksum)), [chunk, 2 * chunk]);
        assert_eq!(offsets((chunk, checksum ^ 1)), [0, chunk, 2 * chunk]);
        assert_eq!(offsets((u64::MAX, checksum)), [0, chunk, 2 * chunk]);
    }
}
