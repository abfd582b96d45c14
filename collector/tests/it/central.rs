//! Settings that a decoder pushes, on this machine.

use std::path::Path;

use memwide_collector::{BudgetConfig, Config, EventConfig, Reporter, Status, run_reporting};
use memwide_proto::v1::Batch;
use memwide_service::CancellationToken;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::decoder::{Manners, Running};
use crate::live::{PAGES, config, fault, possible};

/// With a budget that nothing here exceeds.
pub(crate) fn governed(endpoint: &str, spool: &Path) -> Config {
    Config {
        events: vec![EventConfig::named("minor-faults").every(2)],
        budget: BudgetConfig {
            handler_percent: 1e6,
            cpu_percent: 1e6,
            bytes_per_second: 1 << 40,
            ..BudgetConfig::default()
        },
        ..config(endpoint, spool)
    }
}

pub(crate) struct Collector {
    pub(crate) status: watch::Receiver<Status>,
    running: JoinHandle<anyhow::Result<()>>,
    stop: CancellationToken,
}

impl Collector {
    pub(crate) fn start(config: Config) -> Self {
        let stop = CancellationToken::new();
        let (reporter, status) = Reporter::new();
        let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
        Self {
            status,
            running,
            stop,
        }
    }

    pub(crate) async fn until(&mut self, holds: impl FnMut(&Status) -> bool) -> Status {
        self.status.wait_for(holds).await.unwrap().clone()
    }

    pub(crate) async fn end(self) -> Status {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.status.borrow().clone()
    }
}

pub(crate) fn epoch(status: &Status) -> u64 {
    status.source.unwrap().epoch
}

/// Faults that samples stand for and what was counted and not written, of all events.
fn estimated(batches: &[Batch]) -> u64 {
    let counts = batches.iter().flat_map(|batch| &batch.counts);
    counts
        .map(|count| (count.produced + count.lost + count.residue) * count.period)
        .sum()
}

fn rows(batches: &[Batch]) -> Vec<String> {
    let facts = batches.iter().filter_map(|batch| batch.facts.as_ref());
    let rows = facts.flat_map(|facts| &facts.capabilities);
    rows.filter(|row| row.name == "central-settings")
        .map(|row| row.reason.clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_events_are_opened_and_nothing_of_the_old_ones_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let config = governed(&decoder.endpoint, folder.path());
    if !possible(&config) {
        return;
    }
    let mut collector = Collector::start(config);
    let first = epoch(&collector.until(|status| status.batches > 0).await);
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    decoder.push(
        5,
        "events = [{ name = 'minor-faults', period = 3 }, 'cpu-clock']",
    );
    let status = collector
        .until(|status| status.events.len() == 2 && epoch(status) != first)
        .await;
    assert_eq!(
        (status.central.version, status.central.refused_version),
        (5, 0)
    );
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    // What is refused leaves everything as it is.
    let second = epoch(&status);
    decoder.push(6, "events = ['minor-fautls']");
    let status = collector
        .until(|status| status.central.refused_version == 6)
        .await;
    assert!(
        status.central.refused.contains("minor-faults"),
        "{status:?}"
    );
    let batches = status.batches;
    collector.until(|status| status.batches > batches + 2).await;
    let status = collector.end().await;
    assert_eq!(epoch(&status), second);

    let got = decoder.got();
    let (before, after) = (&got.batches[&first], &got.batches[&second]);
    assert!(
        estimated(before) >= PAGES as u64 * 9 / 10,
        "{}",
        estimated(before)
    );
    let faults = after[0]
        .events
        .iter()
        .find(|one| one.name == "minor-faults");
    assert!(faults.is_some() && after[0].events.len() == 3);
    assert!(
        estimated(after) >= PAGES as u64 * 9 / 10,
        "{}",
        estimated(after)
    );
    assert!(after[0].blind_ns < 10_000_000_000, "{}", after[0].blind_ns);
    let said = rows(after);
    assert!(said[0].contains("version 5 is in force"), "{said:?}");
    assert!(
        said.last().unwrap().contains("version 6 is refused"),
        "{said:?}"
    );
    let applied: Vec<(u64, bool)> = got
        .reports
        .iter()
        .map(|report| (report.version, report.applied))
        .collect();
    assert!(
        applied.contains(&(5, true)) && applied.contains(&(6, false)),
        "{applied:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_central_switch_stops_and_starts_sampling_and_outlives_the_collector() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let config = governed(&decoder.endpoint, folder.path());
    if !possible(&config) {
        return;
    }
    let mut collector = Collector::start(config.clone());
    collector.until(|status| status.batches > 0).await;
    decoder.push(1, "stop = true");
    let status = collector.until(|status| status.stopped).await;
    assert!(status.central.stopped);
    let running = epoch(&status);
    assert_eq!(
        epoch(&collector.end().await),
        running,
        "nothing was opened anew"
    );

    // No decoder answers, and it stays stopped from the first batch on.
    let (kept, address) = decoder.stop().await;
    let grace = Config {
        stop_grace_ms: 10,
        ..config.clone()
    };
    let mut collector = Collector::start(grace);
    collector.until(|status| status.batches > 0).await;
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    let status = collector.until(|status| status.batches > 2).await;
    assert!(status.stopped && status.central.version == 1, "{status:?}");
    assert_eq!(status.samples(), 0);
    collector.end().await;

    let decoder = Running::again((kept, address)).await;
    let mut collector = Collector::start(config);
    collector.until(|status| status.stopped).await;
    decoder.push(2, "");
    collector
        .until(|status| !status.stopped && status.central.version == 2)
        .await;
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    collector.until(|status| status.samples() > 0).await;
    collector.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_start_on_a_taken_spool_touches_nothing_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let config = governed(&decoder.endpoint, folder.path());
    if !possible(&config) {
        return;
    }
    let mut first = Collector::start(config.clone());
    first.until(|status| status.batches > 0).await;
    decoder.push(2, "stop = true");
    first.until(|status| status.stopped).await;
    let file = folder.path().join("central.json");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains("stop = true"), "{kept}");

    let second = run_reporting(config, Reporter::new().0, CancellationToken::new()).await;
    let refused = second.unwrap_err().to_string();
    assert!(refused.contains("the spool is taken"), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
    first.end().await;
}
