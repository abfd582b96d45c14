//! Keeps sinks from beginning anything while a day of the store is replaced: rows wait in the stream meanwhile.
//!
//! The record of every partition says so, by compare-and-set between two blocks. So no block is open, and none begins: what is
//! compared under the hold stays as it is. A hold runs out by itself, as who made it may die.

use std::time::{Duration, Instant};

use async_nats::jetstream::kv;
use memwide_proto::subject;
use memwide_service::admin::Readiness;
use memwide_service::{CancellationToken, clock};

use super::plan;
use super::record::{self, Kept};
use crate::config::NatsConfig;
use crate::error::{HoldError, StreamError};
use crate::stream::{Nats, connect, partitions_of, patiently};

/// A block or a close that is under way ends within this.
const BUSY_AT_MOST: Duration = Duration::from_mins(2);

/// Pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Who holds stops before the hold runs out, by so much: clocks differ, and a statement takes a while.
const MARGIN: Duration = Duration::from_mins(1);

/// All partitions, held.
#[derive(Debug)]
pub struct Hold {
    records: kv::Store,
    partitions: u16,
    until: Instant,
}

/// The stream that rows come by.
#[derive(Debug)]
pub struct Sinks {
    nats: Nats,
    config: NatsConfig,
    partitions: u16,
}

impl Sinks {
    /// Finds the stream; waits for the server as long as one request may take.
    pub async fn find(config: &NatsConfig) -> Result<Self, HoldError> {
        let nats = connect(config, "redecode", &Readiness::new()).await?;
        let partitions = partitions_of(&nats).await?;
        Ok(Self {
            nats,
            config: config.clone(),
            partitions,
        })
    }

    /// Partitions of the stream.
    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    /// Holds every partition for `time`, once what is under way there is done.
    pub async fn hold(&self, time: Duration) -> Result<Hold, HoldError> {
        let records = record::ensure(&self.nats, &self.config).await?;
        let begin = clock::instant();
        let until_s = (clock::unix_ns() / 1_000_000_000).saturating_add(time.as_secs());
        let hold = Hold {
            records,
            partitions: self.partitions,
            until: begin + time.saturating_sub(MARGIN),
        };
        for partition in 0..self.partitions {
            if let Err(error) = hold_one(&hold.records, partition, until_s, begin).await {
                hold.release().await?;
                return Err(error);
            }
        }
        Ok(hold)
    }
}

async fn hold_one(
    records: &kv::Store,
    partition: u16,
    until_s: u64,
    begin: Instant,
) -> Result<(), HoldError> {
    loop {
        let kept = read(records, partition).await?;
        if let Some(record) = plan::held(&kept.record, until_s)
            && write(records, record, kept.revision).await?
        {
            return Ok(());
        }
        if begin.elapsed() > BUSY_AT_MOST {
            return Err(HoldError::Busy {
                partition,
                key: subject::block_key(partition),
                bucket: subject::BLOCK_BUCKET,
            });
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn read(records: &kv::Store, partition: u16) -> Result<Kept, StreamError> {
    let never = CancellationToken::new();
    let read = patiently("block record", &never, || record::read(records, partition));
    Ok(read.await?.unwrap_or_default())
}

async fn write(
    records: &kv::Store,
    record: memwide_proto::v1::BlockRecord,
    revision: u64,
) -> Result<bool, StreamError> {
    let kept = Kept { record, revision };
    let never = CancellationToken::new();
    let written = patiently("block record", &never, || record::write(records, &kept));
    Ok(written.await?.flatten().is_some())
}

impl Hold {
    /// Whether there is time for another statement.
    pub fn lasts(&self) -> bool {
        clock::instant() < self.until
    }

    /// Lets the sinks go on.
    pub async fn release(self) -> Result<(), StreamError> {
        for partition in 0..self.partitions {
            loop {
                let kept = read(&self.records, partition).await?;
                let is_free = kept.record.held_until_s == 0;
                if is_free
                    || write(&self.records, plan::released(&kept.record), kept.revision).await?
                {
                    break;
                }
            }
        }
        Ok(())
    }
}
