//! Several hosts at once, each with its own stream.

use crate::host::{HostSpec, MakeError, SimulatedHost};
use crate::truth::Truth;
use memwide_collector::uplink::{self, NoSettings, UplinkError, UplinkEvent};
use memwide_service::run::{RunError, Tasks};
use memwide_service::{CancellationToken, clock};
use std::sync::Arc;
use std::time::Duration;

/// Hosts of `memwide up --demo`, and those of them (from 0) where [`crate::BADLY_PLACED`] is badly placed.
const DEMO_HOSTS: usize = 8;
const DEMO_BADLY_PLACED: [usize; 3] = [1, 4, 6];

/// Samples a second of a demo host.
const DEMO_SAMPLES: u64 = 250;

/// Time between two batches of a host.
const TICK: Duration = Duration::from_secs(1);

/// After a stop, streams have this long to end.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);

/// Why a fleet ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// Records could not be laid out.
    #[error("simulated events cannot be laid out")]
    Layout(#[from] memwide_perf_abi::LayoutError),
    /// A batch could not be made.
    #[error("a simulated host makes no batch")]
    Make(#[from] MakeError),
    /// A host's stream ended for good.
    #[error("a simulated host cannot send")]
    Uplink(#[from] UplinkError),
    /// A part failed.
    #[error("the simulated fleet stopped")]
    Run(#[from] RunError),
}

/// Simulated hosts and what they have sent.
#[derive(Debug, Clone)]
pub struct Fleet {
    hosts: Vec<HostSpec>,
    truth: Truth,
}

impl Fleet {
    /// `count` hosts `<prefix>-1` …; `badly_placed` are positions from 0; `samples` a tick each.
    pub fn new(
        prefix: &str,
        count: usize,
        badly_placed: &[usize],
        samples: u64,
        epoch: u64,
    ) -> Self {
        let host = |position: usize| HostSpec {
            name: format!("{prefix}-{}", position + 1),
            position,
            badly_placed: badly_placed.contains(&position),
            samples,
            seed: epoch.wrapping_add(position as u64),
            epoch,
        };
        Self {
            hosts: (0..count).map(host).collect(),
            truth: Truth::default(),
        }
    }

    /// What has been made so far.
    pub fn truth(&self) -> Truth {
        self.truth.clone()
    }

    /// Names of the hosts, by position.
    pub fn names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.name.clone()).collect()
    }

    /// Sends `ticks` batches of each host as fast as they are taken, and returns when all are committed.
    pub async fn send(
        &self,
        endpoint: &str,
        ticks: u64,
        stop: CancellationToken,
    ) -> Result<(), FleetError> {
        self.send_until(endpoint, ticks, clock::unix_ns(), stop)
            .await
    }

    /// The same with batches that end at this moment, nanoseconds since 1970 UTC.
    pub async fn send_until(
        &self,
        endpoint: &str,
        ticks: u64,
        now: u64,
        stop: CancellationToken,
    ) -> Result<(), FleetError> {
        let tick_ns = u64::try_from(TICK.as_nanos()).unwrap_or(u64::MAX);
        let tasks = Tasks::new(stop);
        for spec in &self.hosts {
            let host = Arc::new(SimulatedHost::new(spec.clone(), self.truth.clone())?);
            for tick in 0..ticks {
                host.tick(now - (ticks - tick) * tick_ns, tick_ns)?;
            }
            host.finish();
            let (endpoint, stop) = (endpoint.to_owned(), tasks.stop().clone());
            tasks.spawn_job(spec.name.clone(), async move {
                Ok(send(&endpoint, host, stop).await?)
            });
        }
        Ok(tasks.run(DRAIN_WITHIN).await?)
    }

    /// Sends a batch of each host every second until `stop` is cancelled.
    pub async fn run(&self, endpoint: &str, stop: CancellationToken) -> Result<(), FleetError> {
        let tasks = Tasks::new(stop);
        for spec in &self.hosts {
            let host = Arc::new(SimulatedHost::new(spec.clone(), self.truth.clone())?);
            let (sender, endpoint, stop) =
                (Arc::clone(&host), endpoint.to_owned(), tasks.stop().clone());
            tasks.spawn(spec.name.clone(), async move {
                Ok(send(&endpoint, sender, stop).await?)
            });
            let stop = tasks.stop().clone();
            tasks.spawn(format!("{} clock", spec.name), async move {
                Ok(beat(&host, u64::MAX, stop).await?)
            });
        }
        Ok(tasks.run(DRAIN_WITHIN).await?)
    }

    /// Sends `ticks` batches of each host, one every second, and returns when all are committed. Hosts tick one after
    /// the other, spread over the second.
    pub async fn run_for(
        &self,
        endpoint: &str,
        ticks: u64,
        stop: CancellationToken,
    ) -> Result<(), FleetError> {
        let tasks = Tasks::new(stop);
        let apart = TICK / u32::try_from(self.hosts.len().max(1)).unwrap_or(u32::MAX);
        let mut wait = Duration::ZERO;
        for spec in &self.hosts {
            let host = Arc::new(SimulatedHost::new(spec.clone(), self.truth.clone())?);
            let (sender, endpoint, stop) =
                (Arc::clone(&host), endpoint.to_owned(), tasks.stop().clone());
            tasks.spawn_job(spec.name.clone(), async move {
                Ok(send(&endpoint, sender, stop).await?)
            });
            let stop = tasks.stop().clone();
            let first = wait;
            wait += apart;
            tasks.spawn_job(format!("{} clock", spec.name), async move {
                tokio::time::sleep(first).await;
                beat(&host, ticks, stop).await?;
                host.finish();
                Ok(())
            });
        }
        Ok(tasks.run(DRAIN_WITHIN).await?)
    }
}

async fn send(
    endpoint: &str,
    host: Arc<SimulatedHost>,
    stop: CancellationToken,
) -> Result<(), UplinkError> {
    let name = memwide_collector::uplink::BatchStore::origin(host.as_ref()).hostname;
    let observer: uplink::Observer = Arc::new(move |event| {
        if let UplinkEvent::Disconnected(why) = event {
            tracing::debug!(host = name, why, "simulated host disconnected");
        }
    });
    let settings = Arc::new(NoSettings);
    uplink::run(endpoint, host.clone(), host, settings, observer, stop).await
}

async fn beat(host: &SimulatedHost, ticks: u64, stop: CancellationToken) -> Result<(), MakeError> {
    let mut made = 0;
    let mut last_ns = clock::unix_ns();
    let mut beats = tokio::time::interval(TICK);
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    beats.tick().await;
    while made < ticks {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            _ = beats.tick() => {}
        }
        let now_ns = clock::unix_ns();
        if host.tick(now_ns, now_ns.saturating_sub(last_ns))? {
            made += 1;
        } else {
            tracing::debug!("simulated host waits for acks");
        }
        last_ns = now_ns;
    }
    Ok(())
}

/// The fleet of `memwide up --demo`: `demo-1` … `demo-8`, a new source each run.
pub async fn demo(endpoint: &str, stop: CancellationToken) -> Result<(), FleetError> {
    let fleet = Fleet::new(
        "demo",
        DEMO_HOSTS,
        &DEMO_BADLY_PLACED,
        DEMO_SAMPLES,
        clock::unix_ns(),
    );
    fleet.run(endpoint, stop).await
}
