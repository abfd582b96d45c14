//! Reads a partition's row blocks in order, from a sequence on.
//!
//! Without a consumer: each read names where it begins, so there is no position on the server that could differ from the
//! record's. A plain subscription to the partition's cursor says when looking again is worth it.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use memwide_proto::subject;

use crate::error::StreamError;
use crate::stream::Nats;

/// Messages of one read.
const READ_MESSAGES: u32 = 64;
/// Bytes of one read.
const READ_BYTES: u32 = 4 << 20;
/// Longest wait for the next message of a read.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// A flush is committed at most so long after its cursor was heard, usually.
const COMMIT_TAKES: Duration = Duration::from_millis(20);

/// One message of `mw.d.<partition>`.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) sequence: u64,
    pub(super) payload: Bytes,
}

/// A place in a partition's messages.
pub(super) struct Reader {
    nats: Nats,
    subject: String,
    next: u64,
    ahead: VecDeque<Stored>,
    hints: Option<Subscriber>,
    cursor_subject: String,
}

impl Reader {
    /// Begins at stream sequence `next`.
    pub(super) fn new(nats: Nats, partition: u16, next: u64) -> Self {
        Self {
            nats,
            subject: subject::data(partition),
            next,
            ahead: VecDeque::new(),
            hints: None,
            cursor_subject: subject::cursor(partition),
        }
    }

    /// Goes on at `next`.
    pub(super) fn seek(&mut self, next: u64) {
        self.next = next;
        self.ahead.clear();
    }

    /// The next message without taking it; `None`: there is none now.
    pub(super) async fn peek(&mut self) -> Result<Option<&Stored>, StreamError> {
        if self.ahead.is_empty() {
            self.read().await?;
        }
        Ok(self.ahead.front())
    }

    /// Takes the message that [`Reader::peek`] showed.
    pub(super) fn take(&mut self) -> Option<Stored> {
        let message = self.ahead.pop_front()?;
        self.next = message.sequence + 1;
        Some(message)
    }

    /// Waits until a flush may have come, at most `longest`.
    pub(super) async fn wait(&mut self, longest: Duration) {
        if self.hints.is_none() {
            self.hints = self
                .nats
                .client
                .subscribe(self.cursor_subject.clone())
                .await
                .ok();
        }
        let Some(hints) = &mut self.hints else {
            return tokio::time::sleep(longest).await;
        };
        match tokio::time::timeout(longest, hints.next()).await {
            Ok(Some(_)) => {
                // All hints heard so far mean the same.
                while let Some(Some(_)) = hints.next().now_or_never() {}
                tokio::time::sleep(COMMIT_TAKES.min(longest)).await;
            }
            Ok(None) => self.hints = None,
            Err(_) => {}
        }
    }

    async fn read(&mut self) -> Result<(), StreamError> {
        const ACTION: &str = "give rows";
        let inbox = self.nats.client.new_inbox();
        let mut answers = self
            .nats
            .client
            .subscribe(inbox.clone())
            .await
            .map_err(StreamError::away(ACTION))?;
        let request = serde_json::json!({
            "seq": self.next,
            "next_by_subj": self.subject,
            "batch": READ_MESSAGES,
            "max_bytes": READ_BYTES,
        });
        let to = format!("$JS.API.DIRECT.GET.{}", subject::STREAM);
        let sent = self
            .nats
            .client
            .publish_with_reply(to, inbox, request.to_string().into())
            .await;
        sent.map_err(StreamError::away(ACTION))?;
        loop {
            let answer = tokio::time::timeout(ANSWER_WITHIN, answers.next()).await;
            let answer = answer.map_err(StreamError::away(ACTION))?;
            let answer = answer
                .ok_or("the connection is closed")
                .map_err(StreamError::away(ACTION))?;
            match answer.status.map(|status| status.as_u16()) {
                // All that was asked for, or there is nothing.
                Some(204 | 404) => return Ok(()),
                None | Some(200) => {}
                Some(code) => {
                    let text = answer
                        .description
                        .map_or_else(String::new, |text| text.clone());
                    return Err(StreamError::away(ACTION)(format!("status {code} {text}")));
                }
            }
            let header = |name| {
                answer
                    .headers
                    .as_ref()
                    .and_then(|headers| headers.get(name))
                    .map(async_nats::HeaderValue::as_str)
            };
            let sequence = header("Nats-Sequence").and_then(|text| text.parse().ok());
            let sequence: u64 = sequence
                .ok_or("a message without its sequence")
                .map_err(StreamError::away(ACTION))?;
            // A gap between reads must not turn into a gap in a block.
            if sequence
                >= self
                    .ahead
                    .back()
                    .map_or(self.next, |last| last.sequence + 1)
            {
                self.ahead.push_back(Stored {
                    sequence,
                    payload: answer.payload,
                });
            }
        }
    }
}
