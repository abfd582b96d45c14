//! Commits a flush: all of its messages and the partition's cursor as one atomic batch, fenced by the cursor's sequence.
//!
//! ```text
//!   mw.d.<p>  Nats-Batch-Id: x  Nats-Batch-Sequence: 1
//!   …                                                2
//!   mw.c.<p>                                         n   Nats-Batch-Commit: 1
//!                                                        Nats-Expected-Last-Subject-Sequence: <sequence of the cursor before>
//! ```
//!
//! Whatever goes wrong (an error, no answer, a lost connection), the cursor in the stream says what happened: it is
//! this flush's (committed), still the one before (not committed: once more, under another batch id), or another
//! publisher's (fenced).

use std::time::Duration;

use async_nats::{HeaderMap, Request};
use bytes::Bytes;
use memwide_proto::{limits, subject};
use memwide_service::CancellationToken;
use memwide_service::retry::Backoff;
use memwide_service::telemetry::Chain;
use prost::Message as _;
use serde::Deserialize;

use crate::error::{Cause, StreamError};
use crate::metrics::{self, FlushEnd};
use crate::partition::{FlushHead, Judged};
use crate::ready::Flushes;
use crate::stream::{CursorRead, FIRST_PAUSE, LONGEST_PAUSE, Nats, read_cursor};

/// What is asked of the server here.
const ACTION: &str = "take a flush";

/// After so many bytes the server is asked whether they have arrived, before more are sent: the commit's answer then
/// waits for the commit alone, and a retry never adds to a flood.
const PACE_BYTES: usize = 1 << 20;

/// How long an answer may take where the connection has no bound of its own.
const USUAL_TIMEOUT: Duration = Duration::from_secs(5);

/// After so many attempts a person hears that a flush is not taken.
const TELL_ATTEMPTS: u32 = 3;

/// A flush ready to be sent.
#[derive(Debug)]
pub(crate) struct Flush {
    /// The partition.
    pub partition: u16,
    /// Cursor and fence.
    pub head: FlushHead,
    /// Payloads of `mw.d.<partition>`, in order.
    pub messages: Vec<Bytes>,
    /// Rows in them.
    pub rows: u64,
}

/// How a flush ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It is in the stream, its cursor at this sequence.
    Committed(u64),
    /// Another publisher owns the partition; this is its cursor.
    Fenced(CursorRead),
    /// The process stops; whether the flush is in the stream is not known.
    Stopped,
}

/// JetStream's answer to the last message of a batch.
#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    count: usize,
    error: Option<Refusal>,
}

#[derive(Debug, Deserialize, thiserror::Error)]
#[error("{description} ({err_code})")]
struct Refusal {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// Commits a flush, however long NATS is away.
pub(crate) async fn publish(
    nats: &Nats,
    flush: &Flush,
    told: &Flushes,
    stop: &CancellationToken,
) -> Result<Outcome, StreamError> {
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    for attempt in 0_u64.. {
        let outcome = tokio::select! {
            biased;
            outcome = attempt_once(nats, flush, attempt) => outcome,
            () = stop.cancelled() => return Ok(Outcome::Stopped),
        };
        match outcome {
            Ok(sequence) => {
                metrics::FLUSHES.add(FlushEnd::Committed, 1);
                told.taken(flush.partition);
                return Ok(Outcome::Committed(sequence));
            }
            Err(failure) if !failure.is_retryable() => return Err(failure),
            Err(failure) => tell(told, flush.partition, backoff.attempts(), &failure),
        }
        // The answer may be lost, the flush committed. Only the leader's cursor says.
        let read = loop {
            match read_cursor(nats, flush.partition).await {
                Ok(read) => break read,
                Err(failure) if failure.is_retryable() => {
                    // A server that has switched JetStream off, as for want of room, answers this no more either.
                    tell(told, flush.partition, backoff.attempts(), &failure);
                    if pause(&mut backoff, stop).await {
                        return Ok(Outcome::Stopped);
                    }
                }
                Err(failure) => return Err(failure),
            }
        };
        match flush.head.judge(read.cursor.as_ref(), read.sequence) {
            Judged::Committed => {
                metrics::FLUSHES.add(FlushEnd::Recovered, 1);
                told.taken(flush.partition);
                return Ok(Outcome::Committed(read.sequence));
            }
            Judged::Fenced => {
                metrics::FLUSHES.add(FlushEnd::Fenced, 1);
                told.taken(flush.partition);
                return Ok(Outcome::Fenced(read));
            }
            Judged::Again => {}
        }
        metrics::FLUSHES.add(FlushEnd::Retried, 1);
        if pause(&mut backoff, stop).await {
            return Ok(Outcome::Stopped);
        }
    }
    Ok(Outcome::Stopped)
}

/// Says why a flush is not taken, once it has been tried often enough.
fn tell(told: &Flushes, partition: u16, attempts: u32, failure: &StreamError) {
    if attempts == TELL_ATTEMPTS {
        tracing::warn!(partition, error = %Chain(failure), "flush not taken; trying on");
    }
    if attempts >= TELL_ATTEMPTS {
        told.held(partition, Chain(failure).to_string());
    }
    tracing::debug!(partition, error = %Chain(failure), "flush not answered");
}

/// True when the process stops.
async fn pause(backoff: &mut Backoff, stop: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = stop.cancelled() => true,
        () = tokio::time::sleep(backoff.next_pause()) => false,
    }
}

/// Sends a message and waits for its answer, at each attempt longer: a server that is slow must not get more to do.
async fn ask(
    nats: &Nats,
    subject: String,
    headers: HeaderMap,
    payload: Bytes,
    attempt: u64,
) -> Result<Bytes, StreamError> {
    let usual = nats.client.timeout().unwrap_or(USUAL_TIMEOUT);
    let timeout = usual * (1 << attempt.min(4));
    let request = Request::new()
        .headers(headers)
        .payload(payload)
        .timeout(Some(timeout));
    let answer = nats.client.send_request(subject, request).await;
    Ok(answer.map_err(StreamError::away(ACTION))?.payload)
}

async fn attempt_once(nats: &Nats, flush: &Flush, attempt: u64) -> Result<u64, StreamError> {
    let cursor = &flush.head.cursor;
    let id = format!(
        "{:016x}-{}-{}-{attempt}",
        cursor.publisher, flush.partition, cursor.flush
    );
    let messages = flush.messages.len() + 1;
    if messages > limits::STREAM_BATCH_MESSAGES_MAX {
        let text = format!(
            "{messages} messages in one flush, {} at most",
            limits::STREAM_BATCH_MESSAGES_MAX
        );
        return Err(StreamError::Refused {
            action: ACTION,
            code: 0,
            text,
        });
    }
    let headers = |sequence: usize| {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Batch-Id", id.as_str());
        headers.insert("Nats-Batch-Sequence", sequence.to_string());
        headers
    };
    let data = subject::data(flush.partition);
    let mut unheard = 0;
    for (index, payload) in flush.messages.iter().enumerate() {
        unheard += payload.len();
        if unheard < PACE_BYTES {
            let sent =
                nats.client
                    .publish_with_headers(data.clone(), headers(index + 1), payload.clone());
            sent.await.map_err(StreamError::away(ACTION))?;
            continue;
        }
        // An empty answer says that everything so far has arrived.
        unheard = 0;
        let answer = ask(
            nats,
            data.clone(),
            headers(index + 1),
            payload.clone(),
            attempt,
        )
        .await?;
        if !answer.is_empty() {
            let answer: Answer =
                serde_json::from_slice(&answer).map_err(StreamError::away(ACTION))?;
            let refusal = answer
                .error
                .map_or_else(|| "an answer in the middle of a batch".into(), Cause::from);
            return Err(StreamError::away(ACTION)(refusal));
        }
    }
    let mut last = headers(messages);
    last.insert("Nats-Batch-Commit", "1");
    last.insert(
        "Nats-Expected-Last-Subject-Sequence",
        flush.head.expected.to_string(),
    );
    let cursor = cursor.encode_to_vec().into();
    let answer = ask(
        nats,
        subject::cursor(flush.partition),
        last,
        cursor,
        attempt,
    )
    .await?;
    let answer: Answer = serde_json::from_slice(&answer).map_err(StreamError::away(ACTION))?;
    if let Some(refusal) = answer.error {
        return Err(StreamError::away(ACTION)(refusal));
    }
    if answer.count != messages || answer.seq == 0 {
        // A server without atomic batches stores every message by itself and acknowledges the last one.
        let text = format!(
            "{} of {messages} messages were taken as one batch",
            answer.count
        );
        return Err(StreamError::Refused {
            action: "take a flush as one atomic batch",
            code: 0,
            text,
        });
    }
    Ok(answer.seq)
}
