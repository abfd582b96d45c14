//! The budget and the switch, on this machine.

use memwide_collector::{BudgetConfig, Config, EventConfig, Reporter, metrics, run_reporting};
use memwide_perf_abi::{Attr, Records, SampleLayout, SampleView, kind, sample};
use memwide_proto::v1::{Batch, EventDesc};
use memwide_service::CancellationToken;
use memwide_service::metrics::Registry;

use crate::central::{Collector, governed};
use crate::decoder::{Manners, Running, unpack};
use crate::live::{PAGES, config, fault, possible};

fn faults(batches: &[Batch]) -> EventDesc {
    let mut events = batches[0].events.iter();
    events
        .find(|event| event.name == "minor-faults")
        .unwrap()
        .clone()
}

/// Samples of this process in a batch, and the period in force.
fn own(batch: &Batch, event: &EventDesc) -> (u64, u64) {
    let layout = SampleLayout::new(&Attr::parse(&event.attr).unwrap()).unwrap();
    let none = memwide_proto::v1::Section::default();
    let samples = unpack(batch.samples.as_ref().unwrap_or(&none));
    let own = Records::new(&samples).map(Result::unwrap).filter(|record| {
        record.kind == kind::SAMPLE
            && event.ids.contains(&record.identifier().unwrap())
            && SampleView::parse(record.body(), &layout).unwrap().pid() == Some(std::process::id())
    });
    let count = batch
        .counts
        .iter()
        .find(|count| count.event == event.ordinal);
    (own.count() as u64, count.unwrap().period)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn periods_change_between_batches_and_estimates_stay_right() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let config = Config {
        events: vec![
            EventConfig::named("minor-faults").every(2),
            EventConfig::named("cpu-clock"),
        ],
        budget: BudgetConfig {
            // Whatever other programs do meanwhile.
            handler_percent: 1e6,
            cpu_percent: 1e6,
            bytes_per_second: 1 << 40,
            ..BudgetConfig::default()
        },
        ..config(&decoder.endpoint, folder.path())
    };
    if !possible(&config) {
        return;
    }
    let stop = CancellationToken::new();
    let (reporter, mut status) = Reporter::new();
    let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
    status.wait_for(|status| status.batches > 0).await.unwrap();
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    let period = |status: &memwide_collector::Status| status.events[0].period;
    let first = period(&status.borrow());
    status
        .wait_for(|status| period(status) < first)
        .await
        .unwrap();
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();

    let epoch = status.borrow().source.unwrap().epoch;
    let got = decoder.got();
    let batches = &got.batches[&epoch];
    let event = faults(batches);
    for event in batches[0].events.iter().filter(|event| !event.side_band) {
        let attr = Attr::parse(&event.attr).unwrap();
        assert!(
            !attr.samples(sample::PERIOD),
            "{}: the batch says the period in force",
            event.name
        );
    }
    let mut periods = std::collections::BTreeSet::new();
    let mut estimate = 0;
    for batch in batches {
        let (samples, period) = own(batch, &event);
        periods.insert(period);
        estimate += samples * period;
    }
    assert!(
        periods.len() >= 2 && periods.contains(&first) && first >= 32,
        "{periods:?}"
    );
    let pages = 2 * PAGES as u64;
    assert!(
        (pages * 9 / 10..pages * 12 / 10).contains(&estimate),
        "{estimate} of {pages}"
    );
    let sum = |of: fn(&memwide_proto::v1::EventCount) -> u64| -> u64 {
        batches.iter().flat_map(|batch| &batch.counts).map(of).sum()
    };
    let (produced, residue) = (sum(|count| count.produced), sum(|count| count.residue));
    assert!(
        residue * 100 <= produced,
        "{residue} of {produced} counted and not seen"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_stops_all_sampling_until_it_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let file = folder.path().join("stop");
    let config = Config {
        events: vec![EventConfig::named("minor-faults").every(1)],
        stop_file: file.clone(),
        ..config(&decoder.endpoint, &folder.path().join("spool"))
    };
    if !possible(&config) {
        return;
    }
    let stop = CancellationToken::new();
    let (reporter, mut status) = Reporter::new();
    let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
    status.wait_for(|status| status.batches > 0).await.unwrap();
    std::fs::write(&file, "").unwrap();
    let stopped = status
        .wait_for(|status| status.stopped)
        .await
        .unwrap()
        .batches;
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    status
        .wait_for(|status| status.batches > stopped + 1)
        .await
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    let going = status
        .wait_for(|status| !status.stopped)
        .await
        .unwrap()
        .batches;
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();

    let epoch = status.borrow().source.unwrap().epoch;
    let got = decoder.got();
    let batches = &got.batches[&epoch];
    let event = faults(batches);
    let (while_stopped, after): (Vec<&Batch>, Vec<_>) = batches
        .iter()
        .filter(|batch| batch.number > stopped)
        .partition(|batch| batch.number <= going);
    let produced =
        |batches: &[&Batch]| -> u64 { batches.iter().map(|batch| own(batch, &event).0).sum() };
    assert_eq!(produced(&while_stopped), 0);
    assert!(produced(&after) > PAGES as u64 / 2, "{}", produced(&after));
    let blind: u64 = while_stopped
        .iter()
        .flat_map(|batch| &batch.counts)
        .map(|count| count.throttled_ns)
        .sum();
    assert!(
        blind > 1_000_000_000,
        "{blind} ns in which nothing was sampled"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_samples_cost_is_published_in_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let mut config = governed(&decoder.endpoint, folder.path());
    config.budget.sample_ns = 1_500;
    if !possible(&config) {
        return;
    }
    let mut collector = Collector::start(config);
    collector.until(|status| status.batches > 0).await;
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    collector.until(|status| status.samples() > 1_000).await;
    collector.end().await;
    let text = Registry::new().with(metrics::ALL).render();
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    };
    let cost = value("collector_sample_cost_seconds ");
    assert!((cost - 1.5e-6).abs() < 1e-12, "{cost}");
    let taken = value("collector_ring_samples_total ") + value("collector_excluded_samples_total ");
    let handler = value("collector_handler_seconds_total ");
    assert!(
        (handler / (taken * cost) - 1.0).abs() < 0.1,
        "{handler} s for {taken} samples of {cost} s"
    );
}
