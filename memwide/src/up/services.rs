//! The services, each with its own stage, and what a person may ask about them.

use super::children::Children;
use super::config::UpConfig;
use super::place::Place;
use super::stages::Stages;
use crate::cli::UpArgs;
use anyhow::Context as _;
use memwide_collector::{Reporter, Status};
use memwide_query::{ServiceState, StatusDetail};
use memwide_service::admin::Readiness;
use memwide_service::child::State;
use memwide_service::metrics::Registry;
use memwide_service::run::Tasks;
use memwide_service::telemetry::Chain;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The collector opens its events within this, or says why not.
const COLLECTS_WITHIN: Duration = Duration::from_secs(15);

/// Pause between two looks at what a service waits for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What to start.
pub(crate) struct Plan<'a> {
    pub(crate) args: &'a UpArgs,
    pub(crate) config: UpConfig,
    pub(crate) place: &'a Place,
    pub(crate) children: &'a Children,
    pub(crate) query_listener: TcpListener,
    pub(crate) ingest_listener: TcpListener,
}

/// The running services.
#[derive(Debug)]
pub(crate) struct Services {
    /// State of this machine's collector; `None` with `--no-collect`.
    collector: Option<watch::Receiver<Status>>,
    /// Why the collector ended, if it did.
    collector_failure: Arc<Mutex<Option<String>>>,
    demo: bool,
    status: watch::Sender<StatusDetail>,
}

impl Services {
    pub(crate) async fn start(plan: Plan<'_>, stages: &mut Stages) -> anyhow::Result<Self> {
        let database = plan.place.database();
        let sink = memwide_aggregator::SinkConfig {
            nats: plan.children.nats(),
            store: plan.children.writer_url(database),
            ..memwide_aggregator::SinkConfig::default()
        };
        let (sink_ready, aggregator_ready) = (Readiness::new(), Readiness::new());
        let (of_sink, of_aggregator) = (sink_ready.clone(), aggregator_ready.clone());
        stages.start("sink", |tasks| {
            let stop = tasks.stop().clone();
            tasks.spawn("sink", async move {
                Ok(memwide_aggregator::sink(sink, of_sink, stop).await?)
            });
        });

        let aggregator = memwide_aggregator::Config {
            nats: plan.children.nats(),
            ..memwide_aggregator::Config::default()
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("no free port on loopback")?;
        let aggregator_endpoint = format!("http://{}", listener.local_addr()?);
        stages.start("aggregator", |tasks| {
            let stop = tasks.stop().clone();
            tasks.spawn("aggregator", async move {
                Ok(memwide_aggregator::serve(aggregator, listener, of_aggregator, stop).await?)
            });
        });

        let decoder = memwide_decoder::Config {
            aggregators: vec![aggregator_endpoint],
            symbol_dir: plan.place.symbols(),
            archive_dir: if plan.args.archive {
                plan.place.archive()
            } else {
                std::path::PathBuf::new()
            },
            archive_key_file: plan.args.archive_key.clone().unwrap_or_default(),
            ..memwide_decoder::Config::default()
        };
        let ingest = format!("http://{}", plan.ingest_listener.local_addr()?);
        let ingest_listener = plan.ingest_listener;
        stages.start("decoder", |tasks| {
            let stop = tasks.stop().clone();
            tasks.spawn("decoder", async move {
                Ok(memwide_decoder::serve(decoder, ingest_listener, stop).await?)
            });
        });

        let query = memwide_query::Config {
            store: plan.children.reader_url(database),
            ..plan.config.query()
        };
        let detail = StatusDetail {
            ingest_address: ingest.clone(),
            ..StatusDetail::default()
        };
        let (status, watched) = watch::channel(detail);
        let query_listener = plan.query_listener;
        stages.start("query", |tasks| {
            watch_children(plan.children, &status, tasks);
            for (name, readiness) in [("sink", sink_ready), ("aggregator", aggregator_ready)] {
                watch_service(name, readiness, status.clone(), tasks);
            }
            let stop = tasks.stop().clone();
            tasks.spawn("query", async move {
                // One process has them all.
                let beside = Registry::new()
                    .with(memwide_collector::metrics::ALL)
                    .with(memwide_decoder::metrics::ALL)
                    .with(memwide_aggregator::metrics::ALL)
                    .with(memwide_service::child::metrics::ALL);
                let readiness = Readiness::new();
                memwide_query::serve(query, query_listener, readiness, beside, stop, watched).await
            });
        });

        let mut services = Self {
            collector: None,
            collector_failure: Arc::default(),
            demo: plan.args.demo,
            status,
        };
        services.start_sources(
            plan.args,
            plan.config.collector,
            plan.place,
            &ingest,
            stages,
        );
        Ok(services)
    }

    /// This machine's collector and the simulated hosts: neither's failure ends the pipeline.
    fn start_sources(
        &mut self,
        args: &UpArgs,
        mut config: memwide_collector::Config,
        place: &Place,
        ingest: &str,
        stages: &mut Stages,
    ) {
        ingest.clone_into(&mut config.endpoint);
        config.spool.dir = place.spool();
        let (reporter, status) = Reporter::new();
        let failure = Arc::clone(&self.collector_failure);
        if !args.no_collect {
            self.collector = Some(status);
        }
        let ingest = ingest.to_owned();
        stages.start("collect", |tasks| {
            let stop = tasks.stop().clone();
            let idle = stop.clone();
            tasks.spawn("sources", async move {
                idle.cancelled().await;
                Ok(())
            });
            if !args.no_collect {
                let stop = stop.clone();
                tasks.spawn_job("collector", async move {
                    if let Err(error) =
                        memwide_collector::run_reporting(config, reporter, stop).await
                    {
                        let text = Chain(error.as_ref()).to_string();
                        tracing::error!(error = text, "not collecting on this machine");
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
                    }
                    Ok(())
                });
            }
            if args.demo {
                tasks.spawn_job("demo", async move {
                    Ok(memwide_simulator::demo(&ingest, stop).await?)
                });
            }
        });
    }

    /// Waits until the collector has opened its events or failed; then `/api/v1/status` says what it collects.
    pub(crate) async fn collecting(&mut self) {
        if let Some(status) = &mut self.collector {
            let known = status.wait_for(|status| status.source.is_some());
            // A failed collector drops its reporter, which ends the wait as well.
            drop(tokio::time::timeout(COLLECTS_WITHIN, known).await);
        }
        let collects = super::say::collects(self)
            .lines()
            .map(str::to_owned)
            .collect();
        self.status.send_modify(|status| status.collects = collects);
    }

    /// Whether anything is expected to send samples.
    pub(crate) fn expects_rows(&self) -> bool {
        self.demo || (self.collector.is_some() && self.collector_failure().is_none())
    }

    /// Why nothing is collected here.
    pub(crate) fn collector_failure(&self) -> Option<String> {
        self.collector_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What the collector of this machine does; `None` when it was not asked for.
    pub(crate) fn collector(&self) -> Option<Status> {
        self.collector
            .as_ref()
            .map(|status| status.borrow().clone())
    }

    pub(crate) fn demo(&self) -> bool {
        self.demo
    }
}

/// Keeps `/api/v1/status` true about the children.
fn watch_children(children: &Children, status: &watch::Sender<StatusDetail>, tasks: &Tasks) {
    for (name, supervisor) in children.supervisors() {
        let (status, stop) = (status.clone(), tasks.stop().clone());
        let mut child = supervisor.state();
        tasks.spawn_job(name, async move {
            loop {
                show(&status, service_state(name, &child.borrow_and_update()));
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    changed = child.changed() => if changed.is_err() { return Ok(()) },
                }
            }
        });
    }
}

/// Keeps `/api/v1/status` true about a service of this process: what it waits for, if it does.
fn watch_service(
    name: &'static str,
    readiness: Readiness,
    status: watch::Sender<StatusDetail>,
    tasks: &Tasks,
) {
    let stop = tasks.stop().clone();
    tasks.spawn_job(name, async move {
        loop {
            let missing = readiness.missing();
            let texts: Vec<String> = missing
                .iter()
                .map(|(condition, why)| format!("{condition}: {why}"))
                .collect();
            let state = if missing.is_empty() {
                "running"
            } else {
                "waiting"
            };
            let now = ServiceState {
                name: name.to_owned(),
                state: state.to_owned(),
                detail: texts.join("; "),
            };
            if !status.borrow().services.contains(&now) {
                show(&status, now);
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    });
}

fn show(status: &watch::Sender<StatusDetail>, now: ServiceState) {
    status.send_modify(|status| {
        status.services.retain(|service| service.name != now.name);
        status.services.push(now);
        status.services.sort_by(|one, two| one.name.cmp(&two.name));
    });
}

fn service_state(name: &str, child: &State) -> ServiceState {
    let (state, detail) = match child {
        State::Starting => ("starting", String::new()),
        State::Ready { pid, generation: 1 } => ("running", format!("pid {pid}")),
        State::Ready { pid, generation } => {
            ("running", format!("pid {pid}, started {generation} times"))
        }
        State::Waiting { status } => ("restarting", status.clone()),
        State::Stopped => ("stopped", String::new()),
    };
    ServiceState {
        name: name.to_owned(),
        state: state.to_owned(),
        detail,
    }
}
