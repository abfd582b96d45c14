//! What the kernel tells without samples: pressure, reclaim, memory of cgroups and processes, and the collector's own cost.
//!
//! A thread of its own reads small files, so that rings never wait for them. Counters are told as their change over an
//! interval, levels as they are. Never read: `smaps` and its like, which hold a process's memory lock while page tables are
//! walked.

mod cgroups;
mod changes;
mod counters;
mod in_cgroups;
mod node;
mod own;
mod processes;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use memwide_proto::v1::{Reading, Readings};
use memwide_service::clock::{instant, unix_ns};

use crate::config::Config;
use crate::events::machine::Machine;
use crate::identity::Identity;
use changes::Changes;
use counters::Counting;

/// Rounds that wait for the collector's thread at most; when it stands still, a round covers a longer interval.
const WAITING_MAX: usize = 2;
/// Readings kept while the collector's thread stands still; then they are given up.
const UNTOLD_MAX: usize = 100_000;
/// Between two looks at all processes.
const PROCESSES_EVERY: Duration = Duration::from_secs(30);

/// The running thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Reader {
    ready: Receiver<Readings>,
    /// Nothing is ever sent.
    _stop: SyncSender<()>,
}

/// Where the reader looks, and how often.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) machine: Machine,
    pub(crate) pod_names: PathBuf,
    pub(crate) every: Duration,
    /// Events to count.
    pub(crate) counters: Vec<String>,
    /// In so many cgroups apart, at most.
    pub(crate) counters_cgroups: u16,
}

impl Look {
    pub(crate) fn new(config: &Config, machine: &Machine) -> Self {
        Self {
            machine: machine.clone(),
            pod_names: config.pod_names.clone(),
            every: Duration::from_millis(config.readings_ms),
            counters: config.counters.clone(),
            counters_cgroups: config.counters_cgroups,
        }
    }
}

impl Reader {
    pub(crate) fn start(look: Look) -> std::io::Result<Self> {
        let (send, ready) = sync_channel(WAITING_MAX);
        let (stop, stopped) = sync_channel(0);
        let thread = std::thread::Builder::new().name("mw-readings".to_owned());
        thread.spawn(move || Rounds::new(look).run(&send, &stopped))?;
        Ok(Self { ready, _stop: stop })
    }

    /// What was read since the last time.
    pub(crate) fn take(&self) -> Readings {
        let mut all = Readings::default();
        while let Ok(one) = self.ready.try_recv() {
            all.counters.extend(one.counters);
            all.pressure.extend(one.pressure);
            all.rss.extend(one.rss);
            all.own_cost.extend(one.own_cost);
            all.workloads.extend(one.workloads);
        }
        all
    }
}

struct Rounds {
    look: Look,
    changes: Changes,
    identity: Identity,
    counting: Counting,
    processes_due: Duration,
}

impl Rounds {
    fn new(look: Look) -> Self {
        Self {
            identity: Identity::new(look.pod_names.clone()),
            counting: Counting::start(&look.counters, look.counters_cgroups),
            look,
            changes: Changes::default(),
            processes_due: Duration::ZERO,
        }
    }

    fn run(mut self, ready: &SyncSender<Readings>, stopped: &Receiver<()>) {
        let mut last = instant();
        let mut untold = Readings::default();
        // The first round only remembers where counters stand.
        self.round(Duration::ZERO);
        while stopped.recv_timeout(self.look.every) == Err(RecvTimeoutError::Timeout) {
            let now = instant();
            let read = self.round(now.duration_since(last));
            last = now;
            untold.pressure.extend(read.pressure);
            untold.counters.extend(read.counters);
            untold.own_cost.extend(read.own_cost);
            untold.workloads.extend(read.workloads);
            // Levels of an earlier moment are of no use beside newer ones.
            if !read.rss.is_empty() {
                untold.rss = read.rss;
            }
            if let Err(TrySendError::Full(back)) = ready.try_send(std::mem::take(&mut untold))
                && back.pressure.len() < UNTOLD_MAX
            {
                untold = back;
            }
        }
    }

    fn round(&mut self, interval: Duration) -> Readings {
        let machine = &self.look.machine;
        let mut out = Out {
            wall_ns: unix_ns(),
            interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX),
            read: Readings::default(),
        };
        self.changes.begin();
        node::read(machine, &mut self.changes, &mut out);
        cgroups::read(machine, &mut self.changes, &mut self.identity, &mut out);
        own::read(machine, &mut self.changes, &mut out);
        self.counting.read(machine, &mut self.identity, &mut out);
        self.changes.end();
        self.processes_due = self.processes_due.saturating_sub(interval);
        if self.processes_due.is_zero() {
            self.processes_due = PROCESSES_EVERY;
            processes::read(machine, &mut out);
        }
        out.read.workloads.extend(self.identity.take(instant()));
        out.read
    }
}

/// Gathers readings of one moment.
struct Out {
    wall_ns: u64,
    interval_ns: u64,
    read: Readings,
}

impl Out {
    fn level(&self, name: &str, bytes: u64) -> Reading {
        Reading {
            name: name.to_owned(),
            wall_ns: self.wall_ns,
            value: as_f64(bytes),
            unit: "bytes".to_owned(),
            ..Reading::default()
        }
    }

    fn change(&self, name: &str, change: u64, unit: &str) -> Reading {
        Reading {
            unit: unit.to_owned(),
            interval_ns: self.interval_ns,
            ..self.level(name, change)
        }
    }
}

/// Exact up to 2^53, which counters of pages and nanoseconds between two rounds do not reach.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

/// `KEY NUMBER` a line, as `vmstat` and `memory.stat` have it.
fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once(' ')?;
        Some((key, value.trim().parse().ok()?))
    })
}

/// Stalled nanoseconds of `some` and `full` of a pressure file, which counts microseconds.
fn stalls(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let kind = line.split(' ').next()?;
        let (_, total) = line.split_once("total=")?;
        Some((
            kind,
            total.trim().parse::<u64>().ok()?.saturating_mul(1_000),
        ))
    })
}

#[cfg(test)]
mod tests;
