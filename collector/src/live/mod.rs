//! The collector of this machine.

mod alone;
mod collect;
mod counts;
mod sender;
mod waits;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use memwide_model::Source;
use memwide_proto::v1::Capability;
use memwide_service::CancellationToken;
use memwide_service::clock::unix_ns;
use memwide_service::single::Lock;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::signal::unix::{SignalKind, signal};

use crate::central::{self, Central};
use crate::config::Config;
use crate::events::machine::Machine;
use crate::events::{self, EventSet, OpenError};
use crate::facts;
use crate::readings::Look;
use crate::select::Selection;
use crate::spool::{Epoch, Spool};
use crate::status::{EventStatus, Reporter};
use crate::symbols::LiveSymbols;
use crate::uplink::{BatchStore, Origin, SymbolProvider};
use alone::Alone;
use collect::Collect;
use sender::{Sender, observe};

/// What this machine can collect with this configuration, in which tier, and why not better. Starts nothing.
pub fn probe(config: &Config) -> Vec<Capability> {
    let machine = Machine::default();
    let mut all = events::probe(config, &machine);
    all.extend(crate::symbols::capabilities(&machine));
    all.extend(central::row_of(config));
    all
}

/// Collects on this machine until `stop` is cancelled.
///
/// Then the rings are drained once more and acks are waited for, for [`Config::stop_grace_ms`]; what is unacked after that
/// stays in the spool for the next start.
pub async fn run(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    let (reporter, _status) = Reporter::new();
    run_reporting(config, reporter, stop).await
}

/// As [`run`], telling what it does: `let (reporter, status) = Reporter::new()`.
pub async fn run_reporting(
    config: Config,
    reporter: Reporter,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let symbols = Arc::new(LiveSymbols::new(
        Machine::default(),
        config.symbol_file_bytes_max,
    ));
    let told = reporter.clone();
    let start = move || {
        let locks = Arc::new(Locks::take(&config)?);
        let central = Central::new(config, Machine::default(), told);
        anyhow::Ok((locks, central))
    };
    let (locks, central) = tokio::task::spawn_blocking(start).await??;
    let warming = Arc::clone(&symbols);
    let symbols: Arc<dyn SymbolProvider> = symbols;
    let warmed = tokio::task::spawn_blocking(move || warming.warm());
    // A thread that panicked only means that symbols are read when they are asked for.
    drop(warmed.await);
    let stopped: Arc<AtomicBool> = Arc::default();
    let switched = tokio::spawn(follow_signals(stopped.clone()));
    let ended = loop {
        let run = Run {
            locks: locks.clone(),
            central: central.clone(),
            reporter: reporter.clone(),
            stopped: stopped.clone(),
            symbols: symbols.clone(),
        };
        match run.until(&stop).await {
            Ok(Ended::OtherCpus) if !stop.is_cancelled() => {
                tracing::info!("CPUs came or went: everything is opened anew, as another run");
            }
            Ok(Ended::OtherSettings) if !stop.is_cancelled() => {
                tracing::info!("other settings: everything is opened anew, as another run");
            }
            Err(error) if central.cannot_open(&error) => {
                let error = error.as_ref() as &dyn std::error::Error;
                tracing::error!(
                    error,
                    "central settings cannot be kept to; those before are in force again"
                );
            }
            ended => break ended.map(drop),
        }
    };
    switched.abort();
    ended
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// It was told to.
    Stopped,
    /// Other CPUs are online than it has events on.
    OtherCpus,
    /// The centre has said something that needs other events.
    OtherSettings,
}

/// One run: a source with its own epoch.
struct Run {
    locks: Arc<Locks>,
    central: Arc<Central>,
    reporter: Reporter,
    stopped: Arc<AtomicBool>,
    symbols: Arc<dyn SymbolProvider>,
}

impl Run {
    async fn until(self, stop: &CancellationToken) -> anyhow::Result<Ended> {
        let Self {
            locks,
            central,
            reporter,
            stopped,
            symbols,
        } = self;
        let (config, generation) = central.config();
        let grace = Duration::from_millis(config.stop_grace_ms);
        let endpoint = config.endpoint.clone();
        let told = Told {
            reporter: reporter.clone(),
            stopped,
            central: central.clone(),
            generation,
        };
        let (job, spool, epoch) =
            tokio::task::spawn_blocking(move || open(config, told, locks)).await??;
        // The thread stops with `stop`, or when the uplink cannot go on.
        let intake = stop.child_token();
        let (ended, end) = tokio::sync::oneshot::channel();
        let intake_stop = intake.clone();
        std::thread::Builder::new()
            .name("mw-collect".to_owned())
            .spawn(move || {
                // The other side is gone only when the process is, too.
                drop(ended.send(job.run(&intake_stop)));
            })
            .context("cannot start the collector's thread")?;

        let uplink_stop = CancellationToken::new();
        let sender = Sender {
            endpoint,
            spool: spool.clone(),
            epoch: epoch.clone(),
            symbols,
            settings: central,
            observer: observe(reporter),
            stop: uplink_stop.clone(),
        };
        let _stopped_in_any_case = uplink_stop.clone().drop_guard();
        let mut sent = sender.start().context("cannot start the sending thread")?;
        tokio::pin!(end);
        let collected = tokio::select! {
            ended = &mut end => ended,
            failed = &mut sent => {
                intake.cancel();
                let ended = (&mut end).await;
                failed.unwrap_or(Ok(()))?;
                ended
            }
        };
        let collected =
            collected.unwrap_or_else(|_| Err(anyhow::anyhow!("the collector's thread panicked")));
        // After a change of CPUs or settings the next run sends what is left.
        if matches!(collected, Ok(Ended::Stopped)) && !uplinks_done(&epoch) {
            // What this run wrote may still be taken; the rest waits in the spool.
            if let Ok(outcome) = tokio::time::timeout(grace, &mut sent).await {
                outcome.unwrap_or(Ok(()))?;
            } else {
                let batches = epoch.unacked();
                tracing::info!(batches, "stopped, unacked batches stay in the spool");
            }
        }
        uplink_stop.cancel();
        if !sent.is_terminated() {
            // What it had to say is no news any more; that it has ended is.
            drop(sent.await);
        }
        if epoch.unacked() == 0 {
            let retired = tokio::task::spawn_blocking(move || spool.retire(&epoch)).await?;
            retired.context("cannot clear the spool")?;
        }
        collected
    }
}

/// SIGUSR1 stops sampling, SIGUSR2 starts it again.
async fn follow_signals(stopped: Arc<AtomicBool>) {
    let listen = |kind| signal(kind).inspect_err(|error| tracing::warn!(%error, "no signals"));
    let (Ok(mut stop), Ok(mut start)) = (
        listen(SignalKind::user_defined1()),
        listen(SignalKind::user_defined2()),
    ) else {
        return;
    };
    loop {
        let wanted = tokio::select! {
            _ = stop.recv() => false,
            _ = start.recv() => true,
        };
        stopped.store(!wanted, Ordering::Relaxed);
    }
}

fn uplinks_done(epoch: &Epoch) -> bool {
    epoch.unacked() == 0 && epoch.progress().borrow().finished
}

/// What the collector's thread does.
enum Job {
    /// Samples, and all else.
    Collect(Box<Collect>),
    /// Pressure and memory only.
    Alone(Box<Alone>),
}

impl Job {
    fn run(self, stop: &CancellationToken) -> anyhow::Result<Ended> {
        match self {
            Self::Collect(collect) => collect.run(stop),
            Self::Alone(alone) => alone.run(stop).map(|()| Ended::Stopped),
        }
    }
}

/// The events; `None`: nothing can be sampled here, and other things can be collected.
fn open_events(config: &Config, machine: &Machine) -> anyhow::Result<Option<EventSet>> {
    match EventSet::open(config, machine) {
        Ok(set) => Ok(Some(set)),
        Err(error @ OpenError::SideBand { .. }) if config.readings_ms > 0 => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(
                error,
                "nothing can be sampled, only pressure and memory are collected; `memwide doctor` says what helps"
            );
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// What a run is told while it runs, and whom it tells.
struct Told {
    reporter: Reporter,
    /// Set: nothing shall be sampled.
    stopped: Arc<AtomicBool>,
    central: Arc<Central>,
    /// Of the central settings that the run starts with.
    generation: u64,
}

impl Told {
    fn settings_changed(&self) -> bool {
        self.central.generation() != self.generation
    }
}

/// Opens the spool, the events, this run's epoch.
fn open(
    config: Config,
    told: Told,
    locks: Arc<Locks>,
) -> anyhow::Result<(Job, Arc<Spool>, Arc<Epoch>)> {
    let reporter = told.reporter.clone();
    let machine = Machine::default();
    let selection = Selection::new(&config.select)?;
    let (folder, bound) = (&config.spool.dir, config.spool.max_bytes);
    let spool = Arc::new(Spool::open_taken(locks.spool.clone(), folder, bound)?);
    let online = machine.online_cpus();
    let set = open_events(&config, &machine)?;
    let hostname = facts::hostname(&config, &machine);
    let source = Source {
        host: facts::host_id(&hostname),
        boot: facts::boot_id(&machine),
        epoch: random().context("cannot read /dev/urandom")?,
    };
    let epoch = spool.start(&Origin {
        source,
        hostname: hostname.clone(),
        kind: "live",
    })?;
    let mut capabilities = set.as_ref().map_or_else(
        || events::probe(&config, &machine),
        |set| set.capabilities.clone(),
    );
    capabilities.extend(crate::symbols::capabilities(&machine));
    capabilities.extend(told.central.row());
    let facts = facts::read(&config, &machine, capabilities.clone());
    reporter.update(|status| {
        status.source = Some(source);
        status.hostname = hostname;
        status.capabilities = capabilities;
        let events = set.iter().flat_map(|set| &set.events);
        status.events = events
            .map(|event| EventStatus {
                name: event.desc.name.clone(),
                pmu: event.desc.pmu.clone(),
                tier: event.tier,
                period: event.period,
                cpus: event.descriptors.len(),
                samples: 0,
                lost: 0,
            })
            .collect();
    });
    let boot = source.boot.0;
    let last_seen = spool.last_seen(&boot);
    let Some(set) = set else {
        told.central.opened();
        let alone = Alone {
            look: Look::new(&config, &machine),
            epoch: epoch.clone(),
            spool: spool.clone(),
            facts,
            reporter,
            blind_ns: blind_since(last_seen),
            boot,
            _locks: locks,
        };
        return Ok((Job::Alone(Box::new(alone)), spool, epoch));
    };
    let collect = Collect {
        config,
        machine,
        set,
        epoch: epoch.clone(),
        spool: spool.clone(),
        facts,
        told,
        last_seen,
        boot,
        _locks: locks,
        selection,
        online,
    };
    Ok((Job::Collect(Box::new(collect)), spool, epoch))
}

/// Nanoseconds since a moment of the wall clock; 0 without one.
fn blind_since(last_seen: Option<u64>) -> u64 {
    last_seen.map_or(0, |last| unix_ns().saturating_sub(last))
}

/// What one collector holds, through all its runs.
#[derive(Debug)]
struct Locks {
    _host: Option<File>,
    spool: Arc<Lock>,
}

impl Locks {
    fn take(config: &Config) -> anyhow::Result<Self> {
        Ok(Self {
            _host: hold(&config.host_lock)?,
            spool: Spool::take(&config.spool.dir)?,
        })
    }
}

/// Holds the host's lock. It ends with the process, however that ends.
fn hold(path: &Path) -> anyhow::Result<Option<File>> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot open the host's lock {shown}"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => anyhow::bail!(
            "another collector runs on this host and holds {shown}: two would count everything twice; stop it first"
        ),
        Err(error) => Err(error).with_context(|| format!("cannot hold the host's lock {shown}")),
    }
}

/// Never a counter: a wiped disk would repeat it, and the pipeline would take new batches for old ones.
fn random() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_collector() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = hold(file.path()).unwrap();
        assert!(first.is_some());
        let refused = hold(file.path()).unwrap_err();
        assert!(
            refused.to_string().contains("another collector"),
            "{refused}"
        );
        drop(first);
        assert!(hold(file.path()).unwrap().is_some());
        assert!(hold(Path::new("")).unwrap().is_none());
    }
}
