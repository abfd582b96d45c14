//! Configuration of both roles.

use std::time::Duration;

use memwide_service::config::Secret;
use serde::{Deserialize, Serialize};

use crate::partition::Limits;

/// How NATS is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NatsConfig {
    /// Servers, comma-separated, as `nats://127.0.0.1:4222`.
    pub url: String,
    /// Token the servers ask for; not set: none.
    pub token: Secret,
    /// Copies of the stream and of the block records: 1, 3 or 5.
    pub replicas: usize,
    /// Bytes of rows that may wait for the sink. Full: aggregators hold their streams back.
    pub stream_bytes_max: u64,
    /// How long one request may take before it counts as lost, in milliseconds.
    pub request_timeout_ms: u64,
}

impl Default for NatsConfig {
    fn default() -> Self {
        Self {
            url: "nats://127.0.0.1:4222".to_owned(),
            token: Secret::default(),
            replicas: 1,
            stream_bytes_max: 2 << 30,
            request_timeout_ms: 5_000,
        }
    }
}

impl NatsConfig {
    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }
}

/// The aggregator: accesses → rows → JetStream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the stream is.
    pub nats: NatsConfig,
    /// Shares of the sources. Fixed when the stream is made: 64 deployed, 4 on one machine.
    pub partitions: u16,
    /// Age of the oldest unflushed batch at which a partition is flushed, in milliseconds; at most 5,000.
    pub flush_after_ms: u64,
    /// Built rows at which a partition is flushed earlier, in bytes before compression.
    pub flush_bytes: u64,
    /// Built rows that may wait for NATS, in bytes before compression, shared evenly by the partitions. A partition
    /// whose share is full does not read its streams.
    pub pending_bytes_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            nats: NatsConfig::default(),
            partitions: 4,
            flush_after_ms: 2_000,
            flush_bytes: 16 << 20,
            pending_bytes_max: 256 << 20,
        }
    }
}

/// A partition's share of `pending_bytes_max` is at least this, in bytes.
const PARTITION_BYTES_MIN: u64 = 1 << 20;

/// A flush is never later than this, whatever the configuration says.
const FLUSH_AT_THE_LATEST_MS: u64 = 5_000;

impl Config {
    /// What does not fit together, with the remedy.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.partitions == 0 || self.partitions > 1_024 {
            return Err(format!(
                "partitions is {}, 1 to 1024 are possible",
                self.partitions
            ));
        }
        let (stream, flush) = (self.nats.stream_bytes_max, self.limits().flush_bytes);
        if stream < flush {
            return Err(format!(
                "nats.stream_bytes_max is {stream}, and one flush may have {flush} bytes: the stream would never take it. \
                 Set nats.stream_bytes_max to at least {flush}, or flush_bytes to at most {stream}"
            ));
        }
        Ok(())
    }

    /// Bounds of one partition.
    pub(crate) fn limits(&self) -> Limits {
        let share = self.pending_bytes_max / u64::from(self.partitions.max(1));
        let pending_bytes_max = share.max(PARTITION_BYTES_MIN);
        Limits {
            flush_after_ns: self.flush_after_ms.min(FLUSH_AT_THE_LATEST_MS) * 1_000_000,
            // Half of the share, so that there is room for rows while a flush is under way.
            flush_bytes: self.flush_bytes.min(pending_bytes_max / 2),
            pending_bytes_max,
        }
    }
}

/// The sink: JetStream → store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SinkConfig {
    /// Where the stream is.
    pub nats: NatsConfig,
    /// URL of the store, password included, as `http://user:password@host:8123/database`.
    pub store: Secret,
    /// Shares of the sources, as the aggregator's.
    pub partitions: u16,
    /// Partitions this sink owns; empty: all of them.
    pub owned: Vec<u16>,
    /// Rows of the largest table at which a block is closed.
    pub block_rows: u64,
    /// Bytes before compression at which a block is closed.
    pub block_bytes: u64,
    /// Blocks unpacked and inserted at once, over all partitions: bounds memory and the store's load.
    pub blocks_at_once: usize,
    /// How long a block stays open for more rows, in milliseconds.
    pub block_wait_ms: u64,
    /// How often tables of hours are closed, in seconds.
    pub close_every_s: u64,
    /// Samples of a partition after which they are closed earlier: bounds the store's memory for a close.
    pub close_rows: u64,
    /// Bytes kept of blocks that the store refused for good; the oldest go first.
    pub dead_letter_bytes_max: u64,
    /// Error codes of the store that also mean that it will never take the rows, besides those known as such: rows it
    /// refuses with one of them become dead letters instead of holding their partition up.
    pub refused_codes: Vec<u32>,
}

impl Default for SinkConfig {
    fn default() -> Self {
        Self {
            nats: NatsConfig::default(),
            store: Secret::default(),
            partitions: 4,
            owned: Vec::new(),
            block_rows: memwide_proto::limits::BLOCK_ROWS,
            block_bytes: 64 << 20,
            blocks_at_once: 3,
            block_wait_ms: 1_000,
            close_every_s: 3_600,
            close_rows: 8_000_000,
            dead_letter_bytes_max: 256 << 20,
            refused_codes: Vec::new(),
        }
    }
}

impl SinkConfig {
    pub(crate) fn block_wait(&self) -> Duration {
        Duration::from_millis(self.block_wait_ms)
    }

    pub(crate) fn partitions(&self) -> Vec<u16> {
        if self.owned.is_empty() {
            return (0..self.partitions).collect();
        }
        let mut owned = self.owned.clone();
        owned.sort_unstable();
        owned.dedup();
        owned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_smaller_than_one_flush_is_refused_with_the_remedy() {
        let mut config = Config::default();
        config.check().unwrap();
        config.nats.stream_bytes_max = 192 << 10;
        let why = config.check().unwrap_err();
        assert!(
            why.contains("is 196608,") && why.contains("at least 16777216"),
            "{why}"
        );
        config.flush_bytes = 192 << 10;
        config.check().unwrap();
        config.partitions = 0;
        assert!(config.check().is_err());
    }
}
