//! Each service alone, as deployed.

use super::ready;
use crate::cli::{RoleArgs, StoreEngineArgs};
use crate::failure::Failure;
use anyhow::Context as _;
use memwide_service::admin::{self, Admin, Readiness};
use memwide_service::config::{Loader, Wrong};
use memwide_service::metrics::{Metric, Registry};
use memwide_service::retry::Backoff;
use memwide_service::run::{Tasks, stop_on_signal};
use memwide_service::telemetry::Chain;
use memwide_service::{CancellationToken, telemetry};
use memwide_store::{Advice, Store, StoreError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A stopping service has this long to drain.
const DRAIN_WITHIN: Duration = Duration::from_secs(30);

/// First and longest pause between two questions whether the store is there.
const STORE_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Variables of the environment that are read elsewhere.
const NOT_KEYS: [&str; 3] = [
    "MEMWIDE_ENGINE_PASSWORD",
    "MEMWIDE_ENGINE_READER_PASSWORD",
    "MEMWIDE_SERVER",
];

/// What every role has besides its own keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
struct Role<C: Default> {
    /// Where it serves; unused by roles that only connect.
    listen: SocketAddr,
    /// Health, metrics and configuration over HTTP.
    admin: SocketAddr,
    #[serde(flatten)]
    service: C,
}

impl<C: Default> Default for Role<C> {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admin: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            service: C::default(),
        }
    }
}

/// A service that can run alone: its own keys, and what it does with them.
pub(crate) trait Service:
    Serialize + DeserializeOwned + Default + Clone + Send + 'static
{
    /// As logs and metrics name it.
    const NAME: &'static str;
    /// Its metrics.
    const METRICS: &'static [&'static dyn Metric];

    /// Refuses what only its meaning forbids.
    fn check(&self) -> Result<(), Wrong> {
        Ok(())
    }

    /// Works until `stop` is cancelled and keeps the conditions of `readiness`.
    fn serve(
        self,
        listen: SocketAddr,
        readiness: Readiness,
        stop: CancellationToken,
    ) -> impl Future<Output = anyhow::Result<()>> + Send;
}

impl Service for memwide_collector::Config {
    const NAME: &'static str = "collector";
    const METRICS: &'static [&'static dyn Metric] = memwide_collector::metrics::ALL;

    fn check(&self) -> Result<(), Wrong> {
        self.check()
    }

    async fn serve(
        self,
        _: SocketAddr,
        readiness: Readiness,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let (reporter, status) = memwide_collector::Reporter::new();
        let spool = self.spool.dir.clone();
        tokio::select! {
            ended = memwide_collector::run_reporting(self, reporter, stop) => ended,
            never = ready::collector(&readiness, status, &spool) => match never {},
        }
    }
}

impl Service for memwide_decoder::Config {
    const NAME: &'static str = "decoder";
    const METRICS: &'static [&'static dyn Metric] = memwide_decoder::metrics::ALL;

    async fn serve(
        self,
        listen: SocketAddr,
        readiness: Readiness,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let listener = admin::bind(listen, "listen").await?;
        let aggregators = self.aggregators.clone();
        tokio::select! {
            ended = memwide_decoder::serve(self, listener, stop) => Ok(ended?),
            never = ready::decoder(&readiness, &aggregators) => match never {},
        }
    }
}

impl Service for memwide_aggregator::Config {
    const NAME: &'static str = "aggregator";
    const METRICS: &'static [&'static dyn Metric] = memwide_aggregator::metrics::ALL;

    async fn serve(
        self,
        listen: SocketAddr,
        readiness: Readiness,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let listener = admin::bind(listen, "listen").await?;
        Ok(memwide_aggregator::serve(self, listener, readiness, stop).await?)
    }
}

impl Service for memwide_aggregator::SinkConfig {
    const NAME: &'static str = "sink";
    const METRICS: &'static [&'static dyn Metric] = memwide_aggregator::metrics::ALL;

    async fn serve(
        self,
        _: SocketAddr,
        readiness: Readiness,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let store = Store::from_url(self.store.expose().unwrap_or_default())?;
        if !migrated(&store, &readiness, &stop).await? {
            return Ok(());
        }
        Ok(memwide_aggregator::sink(self, readiness, stop).await?)
    }
}

/// Brings the schema up to date, however long the store is away. False: the process stops.
async fn migrated(
    store: &Store,
    readiness: &Readiness,
    stop: &CancellationToken,
) -> Result<bool, StoreError> {
    let condition = readiness.expect("store", "not asked yet");
    let mut backoff = Backoff::new(STORE_PAUSES.0, STORE_PAUSES.1);
    loop {
        let failure = match store.migrate().await {
            Ok(_) => return Ok(true),
            Err(failure) if failure.advice() == Advice::Retry => failure,
            Err(failure) => return Err(failure),
        };
        let why = Chain(&failure).to_string();
        if backoff.attempts() == 3 {
            tracing::warn!(
                error = why,
                "the store does not answer; its schema waits for it"
            );
        }
        condition.fails(why);
        tokio::select! {
            () = stop.cancelled() => return Ok(false),
            () = tokio::time::sleep(backoff.next_pause()) => {}
        }
    }
}

impl Service for memwide_query::Config {
    const NAME: &'static str = "query";
    const METRICS: &'static [&'static dyn Metric] = memwide_query::metrics::ALL;

    fn check(&self) -> Result<(), Wrong> {
        self.check()
    }

    async fn serve(
        self,
        listen: SocketAddr,
        readiness: Readiness,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let listener = admin::bind(listen, "listen").await?;
        let (_status, watched) =
            tokio::sync::watch::channel(memwide_query::StatusDetail::default());
        memwide_query::serve(self, listener, readiness, Registry::new(), stop, watched).await
    }
}

/// The engine in this process, at a fixed port: passwords come from the environment.
pub(crate) fn store(args: &RoleArgs) -> Result<(), Failure> {
    let resolved = resolve::<memwide_store::engine::EngineOptions>(args, |_| Ok(()))?;
    let Some((mut options, _)) = resolved else {
        return Ok(());
    };
    if options.library.as_os_str().is_empty() {
        options.library = memwide_store::tools::engine_library()?;
    }
    Ok(memwide_store::engine::run_child(options)?)
}

/// The engine as a child of this program.
pub(crate) fn store_engine(args: &StoreEngineArgs) -> Result<(), Failure> {
    let text = args.rest.join(" ");
    let options = memwide_store::engine::EngineOptions::from_json(&text).map_err(Failure::usage)?;
    Ok(memwide_store::engine::run_child(options)?)
}

/// The configuration and how it is shown; `None` when it was only to be printed.
fn resolve<C>(
    args: &RoleArgs,
    check: impl FnOnce(&C) -> Result<(), Wrong>,
) -> Result<Option<(C, serde_json::Value)>, Failure>
where
    C: Serialize + DeserializeOwned + Default,
{
    let loaded = loader::<C>(args.config.as_deref()).load();
    let checked = loaded.and_then(|resolved| resolved.checked(check));
    let resolved = checked.map_err(Failure::usage)?;
    let shown = resolved.to_json();
    if args.print_config {
        crate::output::print_json(&shown)?;
        return Ok(None);
    }
    Ok(Some((resolved.value, shown)))
}

/// Defaults, the file, variables `MEMWIDE_<KEY>`.
pub(crate) fn loader<C>(file: Option<&Path>) -> Loader<C>
where
    C: Serialize + DeserializeOwned + Default,
{
    let mut loader = Loader::new().environment();
    for name in NOT_KEYS {
        loader = loader.not_a_key(name);
    }
    // A decoder's key; of all others it is what `memwide boost` shows.
    let keys = serde_json::to_value(C::default()).unwrap_or_default();
    if keys.get("boost_token").is_none() {
        loader = loader.not_a_key("MEMWIDE_BOOST_TOKEN");
    }
    match file {
        Some(file) => loader.file(file),
        None => loader,
    }
}

/// The configuration of a collector that is started with this file.
pub(crate) fn collector_config(file: &Path) -> Result<memwide_collector::Config, Failure> {
    let loaded = loader::<Role<memwide_collector::Config>>(Some(file)).load();
    let checked = loaded.and_then(|resolved| resolved.checked(|role| role.service.check()));
    Ok(checked.map_err(Failure::usage)?.value.service)
}

/// Runs a service until a signal comes.
pub(crate) fn run<S: Service>(args: &RoleArgs) -> Result<(), Failure> {
    let resolved = resolve::<Role<S>>(args, |role| role.service.check())?;
    let Some((role, shown)) = resolved else {
        return Ok(());
    };
    memwide_collector::keep_little_memory();
    let format = if args.log_json {
        telemetry::Format::Json
    } else {
        telemetry::Format::Text
    };
    let options = telemetry::Options {
        format,
        ..telemetry::Options::default()
    };
    telemetry::init(&options).map_err(Failure::usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(async move {
        let stop = stop_on_signal().context("cannot watch for signals")?;
        let listener = admin::bind(role.admin, "admin").await?;
        let readiness = Readiness::new();
        let admin = Admin {
            service: S::NAME,
            registry: Arc::new(Registry::new().with(S::METRICS)),
            readiness: readiness.clone(),
            config: shown,
        };
        tracing::info!(service = S::NAME, admin = %listener.local_addr()?, "started");
        let tasks = Tasks::new(stop.clone());
        tasks.spawn(
            "admin",
            admin::serve(listener, admin.router(), stop.clone()),
        );
        tasks.spawn(S::NAME, role.service.serve(role.listen, readiness, stop));
        tasks.run(DRAIN_WITHIN).await?;
        anyhow::Ok(())
    });
    // What a service has not waited for (a file whose symbols are read) holds nothing up.
    runtime.shutdown_background();
    Ok(served?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_keeps_its_own_keys_beside_the_common_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sink.toml");
        std::fs::write(
            &path,
            "admin = \"127.0.0.1:9\"\npartitions = 64\n[nats]\nreplicas = 3\n",
        )
        .unwrap();
        let loaded = Loader::<Role<memwide_aggregator::SinkConfig>>::new()
            .file(&path)
            .load()
            .unwrap();
        assert_eq!(loaded.value.admin.port(), 9);
        assert_eq!(
            (
                loaded.value.service.partitions,
                loaded.value.service.nats.replicas
            ),
            (64, 3)
        );
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sink.toml");
        std::fs::write(&path, "partitoins = 64\n").unwrap();
        let refused = Loader::<Role<memwide_aggregator::SinkConfig>>::new()
            .file(&path)
            .load()
            .unwrap_err();
        assert!(refused.to_string().contains("partitoins"), "{refused}");
    }
}
