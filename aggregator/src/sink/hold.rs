//! Keeps sinks from beginning anything while a day of the store is replaced: rows wait in the stream meanwhile.
//!
//! The record of every partition says so, by compare-and-set between two blocks. So no block is open, and none begins: what is
//! compared under the hold stays as it is. A hold runs out by itself, as who made it may die: each sink bounds it by its own time.

use std::time::Duration;

use async_nats::jetstream::kv;
use memwide_proto::{subject, v1};
use memwide_service::admin::Readiness;
use memwide_service::telemetry::Chain;
use memwide_service::{CancellationToken, clock};

use super::lease::{self, Lease};
use super::plan;
use super::record::{self, Kept};
use crate::config::NatsConfig;
use crate::error::{HoldError, StreamError};
use crate::stream::{Nats, connect, not_let_in, partitions_of, patiently};

/// A block or a close that is under way ends within this.
const BUSY_AT_MOST: Duration = Duration::from_mins(2);

/// NATS answers one question within this, or is away.
const AWAY_AT_MOST: Duration = Duration::from_secs(30);

/// Pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Who holds stops before the hold runs out, by so much: a statement takes a while.
const MARGIN: Duration = Duration::from_mins(1);

/// All partitions, held.
#[derive(Debug)]
pub struct Hold {
    records: kv::Store,
    partitions: u16,
    /// Nanoseconds since boot, sleep of the machine included.
    until_ns: u64,
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
        let readiness = Readiness::new();
        let nats = connect(config, "redecode", &readiness).await?;
        let partitions = match partitions_of(&nats).await {
            Ok(partitions) => partitions,
            Err(_) if is_refused(&readiness, &config.url) => {
                return Err(HoldError::NotLetIn {
                    url: config.url.clone(),
                });
            }
            Err(error) => return Err(error.into()),
        };
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

    /// Takes the right to make days of the store, in the name of `who`, or says who has it.
    pub async fn lease(&self, who: &str) -> Result<Lease, HoldError> {
        let records = record::ensure(&self.nats, &self.config).await?;
        lease::take(records, who).await
    }

    /// Holds every partition, once what is under way there is done.
    pub async fn hold(&self) -> Result<Hold, HoldError> {
        let records = record::ensure(&self.nats, &self.config).await?;
        let begin_ns = clock::boottime_ns();
        let until_s = (clock::unix_ns() / 1_000_000_000) + plan::HELD_AT_MOST.as_secs();
        let hold = Hold {
            records,
            partitions: self.partitions,
            until_ns: after(begin_ns, plan::HELD_AT_MOST.saturating_sub(MARGIN)),
        };
        for partition in 0..self.partitions {
            let busy_ns = after(begin_ns, BUSY_AT_MOST);
            if let Err(error) = hold_one(&hold.records, partition, until_s, busy_ns).await {
                // What is held already runs out otherwise.
                if let Err(error) = hold.release().await {
                    tracing::warn!(error = %Chain(&error), "sinks stay held for some minutes");
                }
                return Err(error);
            }
        }
        Ok(hold)
    }
}

fn is_refused(readiness: &Readiness, url: &str) -> bool {
    let why = not_let_in(url);
    readiness.missing().iter().any(|(_, told)| *told == why)
}

fn after(begin_ns: u64, time: Duration) -> u64 {
    begin_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

async fn hold_one(
    records: &kv::Store,
    partition: u16,
    until_s: u64,
    busy_ns: u64,
) -> Result<(), HoldError> {
    loop {
        let kept = read(records, partition).await?;
        if let Some(record) = plan::held(&kept.record, until_s)
            && write(records, record, kept.revision).await?
        {
            return Ok(());
        }
        if clock::boottime_ns() > busy_ns {
            return Err(HoldError::Busy {
                partition,
                key: subject::block_key(partition),
                bucket: subject::BLOCK_BUCKET,
            });
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn read(records: &kv::Store, partition: u16) -> Result<Kept, HoldError> {
    let read = asked("give a block record", || record::read(records, partition));
    read.await
}

async fn write(
    records: &kv::Store,
    record: v1::BlockRecord,
    revision: u64,
) -> Result<bool, HoldError> {
    let kept = Kept { record, revision };
    let written = asked("keep a block record", || record::write(records, &kept));
    Ok(written.await?.is_some())
}

/// Asks again as long as NATS is away, but not for ever: whoever is held would wait with it.
async fn asked<T, F>(what: &'static str, request: impl FnMut() -> F) -> Result<T, HoldError>
where
    F: Future<Output = Result<T, StreamError>>,
{
    let away = || HoldError::Away {
        what,
        waited_s: AWAY_AT_MOST.as_secs(),
    };
    let never = CancellationToken::new();
    let answered = tokio::time::timeout(AWAY_AT_MOST, patiently(what, &never, request)).await;
    answered.map_err(|_| away())??.ok_or_else(away)
}

impl Hold {
    /// Whether there is time for another statement.
    pub fn lasts(&self) -> bool {
        clock::boottime_ns() < self.until_ns
    }

    /// Lets the sinks go on.
    pub async fn release(self) -> Result<(), HoldError> {
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
