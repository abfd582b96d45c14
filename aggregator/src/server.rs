//! The `Accumulate` service: each stream one source, led to the owner of its partition.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memwide_model::Source;
use memwide_proto::{SCHEMA_VERSION, limits, v1};
use memwide_service::admin::Readiness;
use memwide_service::queue::{Bounds, Sender, bounded};
use memwide_service::run::{Spawner, Tasks};
use memwide_service::{CancellationToken, clock, grpc};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::answers::{Listener, answers};
use crate::config::Config;
use crate::error::AggregatorError;
use crate::metrics;
use crate::owner::{Command, Owner};
use crate::partition::Partition;
use crate::ready::{Cursors, Flushes};
use crate::stream::{connect, ensure, patiently};

use v1::accumulate_server::{Accumulate, AccumulateServer};
use v1::decoder_to_aggregator::Message;

/// Bytes of batches that may wait for a partition's owner: a few usual ones; a larger one passes alone. Full: streams are
/// not read.
const QUEUE_BYTES: usize = 4 << 20;
/// Batches that may wait for a partition's owner.
const QUEUE_ITEMS: usize = 256;

/// Answers that may wait for a connection; more than one only while it is held back.
const ANSWERS: usize = 4;

/// Between the stop and the end: the last flush has 5 s of it.
const GRACE: Duration = Duration::from_secs(15);

/// HTTP/2 window of a stream, in bytes: about a batch, so that one slow partition holds back its own streams only.
const WINDOW_BYTES: u32 = 1 << 20;

/// Serves `Accumulate` on `listener` until `stop` is cancelled; then flushes what it has applied and returns.
///
/// NATS may come later than this: until it is there and the stream is verified, connections wait. A stream with
/// settings that would break the delivery promise is an error.
///
/// Conditions of `readiness`: `nats` (connected), `stream` (verified), `cursors` (those of all partitions are
/// read), `flushes` (the stream takes what partitions have).
pub async fn serve(
    config: Config,
    listener: TcpListener,
    readiness: Readiness,
    stop: CancellationToken,
) -> Result<(), AggregatorError> {
    config.check().map_err(AggregatorError::Config)?;
    let verified = readiness.expect("stream", "not verified yet: NATS has not answered");
    let cursors = Cursors::new(&readiness, config.partitions);
    let flushes = Flushes::new(&readiness);
    let nats = connect(&config.nats, "aggregator", &readiness).await?;
    let ensured = patiently("stream", &stop, || {
        ensure(&nats, &config.nats, config.partitions)
    })
    .await?;
    if ensured.is_none() {
        return Ok(());
    }
    verified.holds();
    let tasks = Tasks::new(stop.child_token());
    let publisher = publisher_id();
    let mut queues = Vec::new();
    for index in 0..config.partitions {
        let (sender, receiver) = bounded(Bounds {
            bytes: QUEUE_BYTES,
            items: QUEUE_ITEMS,
        });
        queues.push(sender);
        let owner = Owner::new(
            index,
            nats.clone(),
            Partition::new(config.limits(), publisher),
            cursors.clone(),
            flushes.clone(),
        );
        tasks.spawn(
            format!("partition {index}"),
            owner.run(receiver, tasks.stop().clone()),
        );
    }
    let service = Service {
        queues: queues.into(),
        spawner: tasks.spawner(),
        streams: Arc::default(),
    };
    let server = AccumulateServer::new(service)
        .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits::MESSAGE_BYTES_MAX);
    let until = tasks.stop().clone();
    tasks.spawn("gRPC", async move {
        grpc::serve(listener, Routes::new(server), WINDOW_BYTES, until)
            .await
            .map_err(|failure| AggregatorError::Serve(failure).into())
    });
    tasks
        .run(GRACE)
        .await
        .map_err(|failure| failure.into_cause().unwrap_or_else(Into::into))
}

/// New at each start: tells "mine" from "another's" in a cursor.
fn publisher_id() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // A fresh `RandomState` is keyed by the system's randomness.
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u64(clock::unix_ns());
    hasher.write_u32(std::process::id());
    hasher.finish()
}

struct Service {
    queues: Arc<[Sender<Command>]>,
    spawner: Spawner,
    streams: Arc<AtomicU64>,
}

type Answer = Result<v1::AggregatorToDecoder, Status>;

#[tonic::async_trait]
impl Accumulate for Service {
    type ApplyStream = Pin<Box<dyn tokio_stream::Stream<Item = Answer> + Send>>;

    async fn apply(
        &self,
        request: Request<Streaming<v1::DecoderToAggregator>>,
    ) -> Result<Response<Self::ApplyStream>, Status> {
        let (out, answers_out) = mpsc::channel(ANSWERS);
        let stream = Stream {
            inbound: request.into_inner(),
            out,
            queues: Arc::clone(&self.queues),
            spawner: self.spawner.clone(),
            // ATOMICS: only uniqueness counts.
            id: self.streams.fetch_add(1, Ordering::Relaxed),
        };
        self.spawner.spawn_visitor("stream", stream.run());
        Ok(Response::new(Box::pin(ReceiverStream::new(answers_out))))
    }
}

/// Counts open streams.
struct Open;

/// Streams open now.
static OPEN: AtomicU64 = AtomicU64::new(0);

impl Open {
    fn new() -> Self {
        // ATOMICS: a number to show.
        metrics::STREAMS.set(OPEN.fetch_add(1, Ordering::Relaxed) + 1);
        Self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // ATOMICS: a number to show.
        metrics::STREAMS.set(OPEN.fetch_sub(1, Ordering::Relaxed).saturating_sub(1));
    }
}

struct Stream {
    inbound: Streaming<v1::DecoderToAggregator>,
    out: mpsc::Sender<Answer>,
    queues: Arc<[Sender<Command>]>,
    spawner: Spawner,
    id: u64,
}

impl Stream {
    async fn run(mut self) -> anyhow::Result<()> {
        let _open = Open::new();
        let source = match self.opening().await {
            Ok(Some(source)) => source,
            Ok(None) => return Ok(()),
            Err(refuse) => {
                let message = v1::aggregator_to_decoder::Message::Refuse(refuse);
                let answer = Ok(v1::AggregatorToDecoder {
                    message: Some(message),
                });
                if self.out.send(answer).await.is_err() {
                    tracing::debug!("a refused stream did not wait for the reason");
                }
                return Ok(());
            }
        };
        let count = u16::try_from(self.queues.len()).unwrap_or(u16::MAX);
        let queue = self.queues[usize::from(source.partition(count).0)].clone();
        let (teller, listener) = answers();
        let ended = CancellationToken::new();
        let (out, done) = (self.out.clone(), ended.clone());
        self.spawner.spawn_visitor("answers", async move {
            forward(listener, out).await;
            done.cancel();
            Ok(())
        });
        if queue
            .send(Command::Open {
                source,
                stream: self.id,
                teller,
            })
            .await
            .is_err()
        {
            return Ok(());
        }
        let stop = self.spawner.stop().clone();
        loop {
            let message = tokio::select! {
                () = ended.cancelled() => break,
                () = stop.cancelled() => break,
                message = self.inbound.message() => message,
            };
            let batch = match message {
                Ok(Some(v1::DecoderToAggregator {
                    message: Some(Message::Batch(batch)),
                })) => batch,
                Ok(Some(_)) => continue, // a newer decoder's message
                Ok(None) => break,
                Err(status) => {
                    tracing::debug!(%source, %status, "stream broke");
                    break;
                }
            };
            let bytes = batch.encoded_len();
            let command = Command::Batch {
                source,
                stream: self.id,
                batch: Box::new(batch),
                bytes,
            };
            if queue.send(command).await.is_err() {
                return Ok(());
            }
        }
        if queue
            .send(Command::Close {
                source,
                stream: self.id,
            })
            .await
            .is_err()
        {
            tracing::debug!(%source, "stream ended after its partition");
        }
        Ok(())
    }

    /// The stream's first message.
    async fn opening(&mut self) -> Result<Option<Source>, v1::Refuse> {
        let refuse = |reason: &str, message: String| v1::Refuse {
            reason: reason.to_owned(),
            message,
            retry: false,
        };
        let stop = self.spawner.stop().clone();
        let first = tokio::select! {
            () = stop.cancelled() => return Ok(None),
            first = self.inbound.message() => first,
        };
        let Ok(Some(first)) = first else {
            return Ok(None);
        };
        let Some(Message::Open(open)) = first.message else {
            return Err(refuse("schema", "a stream begins with `open`".to_owned()));
        };
        if open.schema_version > SCHEMA_VERSION {
            let text = format!(
                "schema version {} is newer than {SCHEMA_VERSION}: update here first",
                open.schema_version
            );
            return Err(refuse("schema", text));
        }
        match open.source.as_ref().map(Source::try_from) {
            Some(Ok(source)) => Ok(Some(source)),
            Some(Err(error)) => Err(refuse("source", error.to_string())),
            None => Err(refuse("source", "the stream names no source".to_owned())),
        }
    }
}

/// Passes answers on until either side is gone.
async fn forward(mut listener: Listener, out: mpsc::Sender<Answer>) {
    loop {
        let messages = tokio::select! {
            () = out.closed() => return,
            messages = listener.next() => messages,
        };
        let Some(messages) = messages else { return };
        for message in messages {
            if out
                .send(Ok(v1::AggregatorToDecoder {
                    message: Some(message),
                }))
                .await
                .is_err()
            {
                return;
            }
        }
    }
}
