//! One stream to the aggregator that owns a source.

use memwide_model::Source;
use memwide_proto::v1::accumulate_client::AccumulateClient;
use memwide_proto::v1::aggregator_to_decoder::Message as Answer;
use memwide_proto::v1::decoder_to_aggregator::Message;
use memwide_proto::{SCHEMA_VERSION, limits, v1};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// Decoded batches that may wait for the connection; what is under way is bounded in bytes by the collector's credit.
const QUEUE: usize = 2;

/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(3);

/// An open stream.
#[derive(Debug)]
pub(super) struct Upstream {
    out: mpsc::Sender<v1::DecoderToAggregator>,
    answers: Streaming<v1::AggregatorToDecoder>,
    /// The next batch the aggregator wants.
    pub(super) next: u64,
}

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("the aggregator cannot be reached")]
    Connect(#[from] tonic::transport::Error),
    #[error("the aggregator ended the stream")]
    Ended(#[from] tonic::Status),
    #[error("the aggregator closed the stream before it said where to start")]
    Closed,
    #[error("the aggregator refused the source ({}): {}", .0.reason, .0.message)]
    Refused(v1::Refuse),
}

impl Upstream {
    /// Connects and waits until the aggregator has said where to start.
    pub(super) async fn open(
        url: &str,
        source: &Source,
        hostname: &str,
    ) -> Result<Self, OpenError> {
        let endpoint = Endpoint::from_shared(url.to_owned())?
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_while_idle(true);
        let channel = endpoint.connect().await?;
        let mut client = AccumulateClient::new(channel)
            .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(limits::MESSAGE_BYTES_MAX);
        let (out, messages) = mpsc::channel(QUEUE);
        let open = Message::Open(v1::Open {
            schema_version: SCHEMA_VERSION,
            source: Some(source.into()),
            hostname: hostname.to_owned(),
        });
        let first = v1::DecoderToAggregator {
            message: Some(open),
        };
        out.send(first).await.map_err(|_| OpenError::Closed)?;
        let mut answers = client
            .apply(ReceiverStream::new(messages))
            .await?
            .into_inner();
        let answer = answers.message().await?;
        match answer.and_then(|answer| answer.message) {
            Some(Answer::Opened(opened)) => Ok(Self {
                out,
                answers,
                next: opened.next.max(1),
            }),
            Some(Answer::Refuse(refuse)) => Err(OpenError::Refused(refuse)),
            _ => Err(OpenError::Closed),
        }
    }

    /// Hands a batch over; `false` when the stream is gone.
    pub(super) async fn send(&self, batch: v1::DecodedBatch) -> bool {
        let message = v1::DecoderToAggregator {
            message: Some(Message::Batch(batch)),
        };
        self.out.send(message).await.is_ok()
    }

    /// The next answer; `None` when the stream is gone.
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        match self.answers.message().await {
            Ok(answer) => answer?.message,
            Err(status) => {
                tracing::debug!(%status, "stream to the aggregator ended");
                None
            }
        }
    }
}
