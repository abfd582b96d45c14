//! What a running collector tells the command that started it.

use memwide_model::{Source, Tier};
use memwide_proto::v1::Capability;
use tokio::sync::watch;

/// A snapshot of a collector's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// Set once events are open.
    pub source: Option<Source>,
    /// Name of this host in answers.
    pub hostname: String,
    /// Events that are open.
    pub events: Vec<EventStatus>,
    /// What this machine can and cannot collect, and why.
    pub capabilities: Vec<Capability>,
    /// Batches written to the spool by this run.
    pub batches: u64,
    /// Highest batch of this run that the pipeline has committed; 0: none.
    pub acked: u64,
    /// What the centre says of this collector.
    pub central: CentralStatus,
    /// Periods are shorter for some processes.
    pub boost: Option<BoostStatus>,
    /// Sampling is stopped, by file, signal or centrally.
    pub stopped: bool,
    /// A decoder takes our batches.
    pub connected: bool,
    /// Why not, when not; empty when nothing went wrong yet.
    pub connection_error: String,
    /// Why the spool does not take the newest batch; empty: it does.
    pub unwritten: String,
    /// Bytes in the spool, earlier runs included.
    pub spool_bytes: u64,
    /// Unacked batches of earlier runs that are still to be sent.
    pub earlier_batches: u64,
}

impl Status {
    /// Samples taken by all events of this run.
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|event| event.samples).sum()
    }
}

/// Settings that a decoder pushed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CentralStatus {
    /// In force; 0: the host's own file alone.
    pub version: u64,
    /// They stop all sampling.
    pub stopped: bool,
    /// The last ones that were refused since others were taken; 0: none.
    pub refused_version: u64,
    /// Why.
    pub refused: String,
}

/// Shorter periods for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoostStatus {
    /// Chosen by the decoder.
    pub id: u64,
    /// So many times more often, as far as the budget allows.
    pub factor: u32,
}

/// One open event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventStatus {
    /// As perf names it.
    pub name: String,
    /// The kernel's name of its kind.
    pub pmu: String,
    /// How much its samples say.
    pub tier: Tier,
    /// Period in events (nanoseconds for clocks); 0: chosen by the kernel.
    pub period: u64,
    /// CPUs it is open on.
    pub cpus: usize,
    /// Samples taken.
    pub samples: u64,
    /// Samples the kernel could not write.
    pub lost: u64,
}

/// The writing half of a status.
#[derive(Debug, Clone)]
pub struct Reporter(watch::Sender<Status>);

impl Reporter {
    /// A status nobody has written yet, and its reading half.
    pub fn new() -> (Self, watch::Receiver<Status>) {
        let (sender, receiver) = watch::channel(Status::default());
        (Self(sender), receiver)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.0.borrow().stopped
    }

    /// Changes the status and wakes readers.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Status)) {
        self.0.send_modify(change);
    }
}
