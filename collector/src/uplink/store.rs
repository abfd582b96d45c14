//! What an uplink needs of the place where batches are.

use memwide_model::Source;
use memwide_proto::v1::Batch;
use tokio::sync::watch;

/// Who the batches are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Host, boot and run.
    pub source: Source,
    /// The host's name in answers.
    pub hostname: String,
    /// `live`, `import` or `simulated`.
    pub kind: &'static str,
}

/// How far a store has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number the next new batch will get: all below exist.
    pub next: u64,
    /// No new batch will come. The uplink ends when the rest is acked.
    pub finished: bool,
}

/// Why a store could not give or free a batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such batch.
    #[error("batch {number} does not exist, the next one is {next}")]
    Missing {
        /// Number asked for.
        number: u64,
        /// Number the next new batch will get.
        next: u64,
    },
    /// The place is broken.
    #[error("{what}")]
    Broken {
        /// What could not be done, with names.
        what: String,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Batches of one source, from 1 without gaps.
///
/// Implemented by the spool, by a replayed file and by the simulator. Methods may block for as long as a disk takes; the
/// uplink calls them off the async threads, one at a time.
///
/// What the store owes: the same number always gives the same records (a gap may take the place of samples), and a batch
/// can be read until it is acked. Side-band of batches from [`BatchStore::snapshot`] on can be read even after that.
pub trait BatchStore: Send + Sync + 'static {
    /// Whose batches these are.
    fn origin(&self) -> Origin;

    /// Tells how far the store has come; wakes the uplink.
    fn progress(&self) -> watch::Receiver<Progress>;

    /// Lowest batch still there with its samples; the next number when there is none.
    fn first_unacked(&self) -> u64;

    /// Number of the newest acked snapshot; 0: none, history starts at batch 1.
    fn snapshot(&self) -> u64;

    /// The whole batch. For an acked one whose samples are freed: its side-band and a gap `freed` without counts.
    fn read(&self, number: u64) -> Result<Batch, StoreError>;

    /// The same without waiting for anything, for the newest ones; `None`: it has to be read.
    fn at_hand(&self, _number: u64) -> Option<Batch> {
        None
    }

    /// The batch without samples, for the history.
    fn side_band(&self, number: u64) -> Result<Batch, StoreError> {
        let mut batch = self.read(number)?;
        batch.samples = None;
        Ok(batch)
    }

    /// Batches up to here are committed: their samples may be freed.
    fn ack(&self, through: u64) -> Result<(), StoreError>;
}
