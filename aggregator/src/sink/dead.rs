//! Dead letters: messages the store refused for good, kept for a person to look at.
//!
//! They also say, after a restart in the middle of a block, which of its messages had been refused: the rest must go in
//! under the same token as before, and the ledger's line must be the same.

use async_nats::HeaderMap;
use async_nats::jetstream::stream;
use bytes::Bytes;
use memwide_proto::subject;

use super::reader::Stored;
use crate::config::SinkConfig;
use crate::error::StreamError;
use crate::stream::Nats;

/// Header with the stream sequence the message had.
const SEQUENCE: &str = "Memwide-Sequence";
/// Header with the store's words.
const WHY: &str = "Memwide-Refusal";
/// Header with the number of samples.
const SAMPLES: &str = "Memwide-Samples";

/// A dead letter of an open block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) sequence: u64,
    pub(super) samples: u64,
}

/// Makes the stream if it is not there.
pub(super) async fn ensure(nats: &Nats, config: &SinkConfig) -> Result<(), StreamError> {
    const ACTION: &str = "open the dead-letter stream";
    let wanted = stream::Config {
        name: subject::DEAD_LETTER_STREAM.to_owned(),
        description: Some("rows the store refused for good".to_owned()),
        subjects: vec!["mw.x.*".to_owned()],
        discard: stream::DiscardPolicy::Old,
        max_bytes: i64::try_from(config.dead_letter_bytes_max).unwrap_or(i64::MAX),
        num_replicas: config.nats.replicas,
        ..stream::Config::default()
    };
    nats.context
        .get_or_create_stream(wanted)
        .await
        .map_err(StreamError::away(ACTION))?;
    Ok(())
}

/// Keeps a message. Twice is harmless.
pub(super) async fn send(
    nats: &Nats,
    partition: u16,
    message: &Stored,
    samples: u64,
    why: &str,
) -> Result<(), StreamError> {
    const ACTION: &str = "keep a dead letter";
    let mut headers = HeaderMap::new();
    headers.insert(SEQUENCE, message.sequence.to_string());
    headers.insert(SAMPLES, samples.to_string());
    let plain: String = why.chars().filter(|c| !c.is_control()).take(500).collect();
    headers.insert(WHY, plain);
    headers.insert("Nats-Msg-Id", format!("{partition}-{}", message.sequence));
    let payload: Bytes = message.payload.clone();
    let sent = nats
        .context
        .publish_with_headers(subject::dead_letter(partition), headers, payload)
        .await;
    sent.map_err(StreamError::away(ACTION))?
        .await
        .map_err(StreamError::away(ACTION))?;
    Ok(())
}

/// The dead letters of messages `first` through `last` of a partition.
pub(super) async fn of_block(
    nats: &Nats,
    partition: u16,
    first: u64,
    last: u64,
) -> Result<Vec<Letter>, StreamError> {
    const ACTION: &str = "give dead letters";
    let stream = nats
        .context
        .get_stream_no_info(subject::DEAD_LETTER_STREAM)
        .await;
    let stream = stream.map_err(StreamError::away(ACTION))?;
    let mut found: Vec<Letter> = Vec::new();
    let mut next = 1;
    loop {
        use async_nats::jetstream::stream::RawMessageErrorKind as Kind;
        let builder = stream
            .raw_message_builder()
            .sequence(next)
            .next_by_subject(subject::dead_letter(partition));
        let message = match builder.send().await {
            Ok(message) => message,
            Err(error) => match error.kind() {
                Kind::NoMessageFound => return Ok(found),
                Kind::JetStream(answer) if answer.error_code().0 == 10_037 => return Ok(found),
                _ => return Err(StreamError::away(ACTION)(error)),
            },
        };
        next = message.sequence + 1;
        let number = |name| {
            message
                .headers
                .get(name)
                .and_then(|value| value.as_str().parse::<u64>().ok())
        };
        if let Some(sequence) =
            number(SEQUENCE).filter(|sequence| (first..=last).contains(sequence))
            && found.iter().all(|letter| letter.sequence != sequence)
        {
            found.push(Letter {
                sequence,
                samples: number(SAMPLES).unwrap_or(0),
            });
        }
    }
}
