//! The block record: written by compare-and-set before anything is inserted, so that a restart knows what to repeat.

use async_nats::jetstream::kv;
use memwide_proto::{subject, v1};
use prost::Message as _;

use super::plan;
use crate::config::NatsConfig;
use crate::error::StreamError;
use crate::stream::Nats;

/// A partition's record and the revision it was read or written at; 0: there is none.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Kept {
    pub(super) record: v1::BlockRecord,
    pub(super) revision: u64,
}

/// Makes the bucket, or opens the one that is there.
pub(super) async fn ensure(nats: &Nats, config: &NatsConfig) -> Result<kv::Store, StreamError> {
    const ACTION: &str = "open the bucket of block records";
    if let Ok(bucket) = nats.context.get_key_value(subject::BLOCK_BUCKET).await {
        return Ok(bucket);
    }
    let bucket = kv::Config {
        bucket: subject::BLOCK_BUCKET.to_owned(),
        description: "the block each sink is inserting".to_owned(),
        history: 1,
        num_replicas: config.replicas,
        ..kv::Config::default()
    };
    nats.context
        .create_key_value(bucket)
        .await
        .map_err(StreamError::away(ACTION))
}

/// Reads a partition's record; a partition without one begins at the stream's begin.
pub(super) async fn read(records: &kv::Store, partition: u16) -> Result<Kept, StreamError> {
    // Not by direct get: the leader's word counts.
    let key = subject::block_key(partition);
    let subject = format!("$KV.{}.{key}", subject::BLOCK_BUCKET);
    match records
        .stream
        .get_last_raw_message_by_subject(&subject)
        .await
    {
        Ok(message) => {
            let revision = message.sequence;
            let decoded = v1::BlockRecord::decode(message.payload);
            let record = decoded.map_err(|source| StreamError::Unreadable {
                subject,
                sequence: revision,
                source: source.into(),
            })?;
            Ok(Kept { record, revision })
        }
        Err(error) => {
            use async_nats::jetstream::stream::LastRawMessageErrorKind as Kind;
            match error.kind() {
                Kind::NoMessageFound => {}
                Kind::JetStream(answer) if answer.error_code().0 == 10_037 => {}
                _ => return Err(StreamError::away("give a block record")(error)),
            }
            Ok(Kept {
                record: plan::fresh(partition),
                revision: 0,
            })
        }
    }
}

/// Writes the record if it still is at the revision known: `None` if somebody else has changed it.
pub(super) async fn write(records: &kv::Store, kept: &Kept) -> Result<Option<Kept>, StreamError> {
    use async_nats::jetstream::kv::UpdateErrorKind;
    let partition = u16::try_from(kept.record.partition).unwrap_or(u16::MAX);
    let key = subject::block_key(partition);
    let payload = kept.record.encode_to_vec();
    // Revision 0 asks for a key that was never written.
    match records.update(&key, payload.into(), kept.revision).await {
        Ok(revision) => Ok(Some(Kept {
            record: kept.record,
            revision,
        })),
        Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {
            // Somebody else's write, or our own whose answer was lost.
            let found = read(records, partition).await?;
            Ok(plan::is_mine(&kept.record, &found.record).then_some(found))
        }
        Err(error) => Err(StreamError::away("keep a block record")(error)),
    }
}
