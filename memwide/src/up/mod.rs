//! `memwide up`: the whole pipeline on one machine.
//!
//! Three processes: this one (all services, talking over real loopback gRPC), nats-server, the engine. The children die
//! with this one and are restarted when they die first.

mod children;
mod config;
mod place;
mod say;
mod services;
mod stages;

use crate::cli::UpArgs;
use crate::failure::Failure;
use anyhow::Context as _;
use config::UpConfig;
use memwide_service::run::stop_on_signal;
use memwide_service::{admin, telemetry};
use memwide_store::Store;
use services::Services;
use std::time::Duration;

pub(crate) use children::Children;
pub(crate) use place::Place;
pub(crate) use stages::Stages;

/// Logs of `up` go to the terminal of a person: only what went wrong.
const LOG_FILTER: &str = "warn";

/// Pause between two looks for the first row.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// After this long without a row a person wants to know why.
const SILENT_AFTER: Duration = Duration::from_secs(20);

pub(crate) fn run(args: &UpArgs) -> Result<(), Failure> {
    refuse_addresses(args)?;
    memwide_collector::keep_little_memory();
    let options = telemetry::Options {
        default_filter: LOG_FILTER.to_owned(),
        ..telemetry::Options::default()
    };
    telemetry::init(&options).map_err(Failure::usage)?;
    let config = UpConfig::load(args.config.as_deref()).map_err(Failure::usage)?;
    let place = Place::prepare(args.data.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(serve(args, config, &place));
    // Blocking work still under way (a symbol table being read) must not hold the end back.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(outcome?)
}

/// Until TLS and authentication exist, nothing may be reached from outside. Two listeners need two ports.
fn refuse_addresses(args: &UpArgs) -> Result<(), Failure> {
    for (flag, address) in [("--listen", args.listen), ("--ingest", args.ingest)] {
        if !address.ip().is_loopback() {
            let refused = anyhow::anyhow!(
                "{flag} {address} can be reached from other machines, and this version has neither TLS nor authentication; \
                 use 127.0.0.1 and forward the port (ssh -L {port}:127.0.0.1:{port} HOST)",
                port = if address.port() == 0 {
                    7070
                } else {
                    address.port()
                }
            );
            return Err(Failure::usage(refused));
        }
    }
    if args.listen == args.ingest && args.listen.port() != 0 {
        let address = args.listen;
        return Err(Failure::usage(anyhow::anyhow!(
            "--listen and --ingest are both {address}; give them different ports"
        )));
    }
    Ok(())
}

async fn serve(args: &UpArgs, config: UpConfig, place: &Place) -> anyhow::Result<()> {
    let stop = stop_on_signal().context("cannot watch for signals")?;
    // Ports first: a taken one ends it before anything has started.
    let query_listener = admin::bind(args.listen, "--listen").await?;
    let ingest_listener = admin::bind(args.ingest, "--ingest").await?;
    let mut stages = Stages::default();
    let children = Children::start(args.store.as_deref(), place, &mut stages)?;
    let url = format!("http://{}", query_listener.local_addr()?);
    let ingest = ingest_listener.local_addr()?.to_string();

    let started = async {
        say::starting(place);
        children.ready().await?;
        let store = children.store(place.database())?;
        let migrated = store.migrate().await;
        migrated.with_context(|| match &args.store {
            Some(_) => {
                "cannot use the ClickHouse of --store; check its address, user and password (`curl http://HOST:8123/ping` \
                 answers `Ok.`)"
            }
            None => "cannot bring the store's schema up to date",
        })?;
        let services = Services::start(
            services::Plan {
                args,
                config,
                place,
                children: &children,
                query_listener,
                ingest_listener,
            },
            &mut stages,
        )
        .await?;
        anyhow::Ok((store, services))
    };
    let started = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        started = started => Some(started),
    };
    let outcome = match started {
        None => Ok(()),
        Some(Err(failure)) => Err(failure),
        Some(Ok((store, mut services))) => {
            let talk = announce(&store, &mut services, &url, &ingest);
            tokio::select! {
                biased;
                () = stop.cancelled() => Ok(()),
                ended = stages.next_end() => ended,
                never = talk => never,
            }
        }
    };
    if stop.is_cancelled() {
        say::stopping();
    }
    stages.stop().await.and(outcome)
}

/// Tells a person what happens: what is collected, when the first rows are there; then stays silent.
async fn announce(
    store: &Store,
    services: &mut Services,
    url: &str,
    ingest: &str,
) -> anyhow::Result<()> {
    services.collecting().await;
    say::collecting(services);
    let start = tokio::time::Instant::now();
    let mut told = false;
    while services.expects_rows() && !has_rows(store).await {
        if !told && start.elapsed() > SILENT_AFTER {
            told = true;
            say::silent(services, start.elapsed());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    say::ready(url, ingest);
    std::future::pending().await
}

async fn has_rows(store: &Store) -> bool {
    let request = memwide_store::Request::new("SELECT 1 FROM samples LIMIT 1", "TabSeparated");
    store
        .query(request)
        .await
        .is_ok_and(|answer| !answer.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn args(line: &[&str]) -> UpArgs {
        match crate::cli::Cli::parse_from([&["memwide", "up"], line].concat()).command {
            crate::cli::Command::Up(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_loopback_is_listened_on() {
        assert!(refuse_addresses(&args(&[])).is_ok());
        assert!(refuse_addresses(&args(&["--listen", "[::1]:1"])).is_ok());
        for line in [["--listen", "0.0.0.0:7070"], ["--ingest", "10.0.0.1:7071"]] {
            assert!(refuse_addresses(&args(&line)).is_err(), "{line:?}");
        }
    }
}
