//! Configuration of the process.

use memwide_proto::limits;
use memwide_service::config::Secret;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The decoder: raw records → accesses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Aggregators, as `http://host:port`. Partitions are spread over them in order: each owns an equal run of numbers.
    pub aggregators: Vec<String>,
    /// Shares of the sources, as the aggregators have them.
    pub partitions: u16,
    /// Folder of received symbol tables, or `s3://BUCKET/START` in an object store (reached as the environment says:
    /// `AWS_REGION`, `AWS_ACCESS_KEY_ID` …); so each is shipped once. Empty: none.
    pub symbol_dir: PathBuf,
    /// Bytes that place may take; the least recently used tables go first.
    pub symbol_bytes_max: u64,
    /// How long a batch waits for symbol tables that its samples need, in milliseconds.
    pub symbol_wait_ms: u64,
    /// Bytes of batches that may wait meanwhile; more end the wait.
    pub symbol_wait_bytes: u64,
    /// File with settings of collectors, read again when it changes: each collector is told its part (`docs/collector.md`).
    /// Empty: none.
    pub collectors_file: PathBuf,
    /// What `memwide boost` has to show before it is passed on to collectors; best given as `MEMWIDE_BOOST_TOKEN`. Empty: only
    /// this machine may ask (in a cluster: whoever may forward a port to the decoder).
    pub boost_token: Secret,
    /// Folder in which raw batches are kept, to be decoded again (`docs/archive.md`). Empty: they are not kept.
    pub archive_dir: PathBuf,
    /// `s3://BUCKET/START` in an object store: files go there from `archive_dir` (reached as the environment says, as
    /// `symbol_dir`). Empty: they stay.
    pub archive_url: String,
    /// With `archive_url`: a file goes up at the latest so long after its first batch, in seconds.
    pub archive_close_s: u64,
    /// Bytes the folder may take; the oldest days go first, but nothing that waits to go up.
    pub archive_bytes_max: u64,
    /// Days that a day is kept after its end and its last batch; 0: as long as there is room.
    pub archive_days: u32,
    /// File with the key it is encrypted with, 64 hexadecimal digits. Empty: it is not encrypted.
    pub archive_key_file: PathBuf,
    /// A batch that cannot be archived waits in its collector's spool. False: it goes on, counted.
    pub archive_required: bool,
    /// Bytes a collector may have under way and not acked.
    pub credit_bytes: u64,
    /// How long the state of a source is kept after its stream has ended, in milliseconds.
    pub session_keep_ms: u64,
    /// Sources whose state is kept after their streams have ended.
    pub sessions_kept: usize,
    /// Batches decoded at the same time; 0: one a CPU.
    pub threads: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            aggregators: vec!["http://127.0.0.1:7072".to_owned()],
            partitions: 4,
            symbol_dir: PathBuf::new(),
            symbol_bytes_max: 4 << 30,
            symbol_wait_ms: 2_000,
            symbol_wait_bytes: 16 << 20,
            collectors_file: PathBuf::new(),
            boost_token: Secret::default(),
            archive_dir: PathBuf::new(),
            archive_url: String::new(),
            archive_close_s: 300,
            archive_bytes_max: 16 << 30,
            archive_days: 30,
            archive_key_file: PathBuf::new(),
            archive_required: false,
            credit_bytes: limits::UNACKED_BYTES_MAX,
            session_keep_ms: 600_000,
            sessions_kept: 256,
            threads: 0,
        }
    }
}

impl Config {
    pub(super) fn symbol_wait(&self) -> Duration {
        Duration::from_millis(self.symbol_wait_ms)
    }

    pub(super) fn archive_close(&self) -> Duration {
        Duration::from_secs(self.archive_close_s)
    }

    pub(super) fn session_keep(&self) -> Duration {
        Duration::from_millis(self.session_keep_ms)
    }

    pub(super) fn decoders(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    /// The aggregator that owns a partition.
    pub(super) fn owner(&self, partition: u16) -> Option<&str> {
        let of = self.aggregators.len();
        let at = usize::from(partition) * of / usize::from(self.partitions.max(1));
        self.aggregators.get(at).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_spread_evenly_in_order() {
        let config = Config {
            aggregators: vec!["a".into(), "b".into()],
            partitions: 4,
            ..Config::default()
        };
        let owners: Vec<_> = (0..4).map(|partition| config.owner(partition)).collect();
        assert_eq!(owners, [Some("a"), Some("a"), Some("b"), Some("b")]);
        assert_eq!(
            Config {
                aggregators: vec![],
                ..config
            }
            .owner(0),
            None
        );
    }
}
