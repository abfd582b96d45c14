//! CPUs that come and go. Takes one away from the machine, so it is for machines of one's own:
//!
//! ```text
//! MEMWIDE_TEST_HOTPLUG=1 cargo test -p memwide-collector --test it cpus
//! ```

use std::fs;

use memwide_collector::{Reporter, Status, run_reporting};
use memwide_proto::v1::Batch;
use memwide_service::CancellationToken;
use tokio::sync::watch;

use crate::decoder::{Manners, Running};
use crate::live::{config, fault, possible};

const CPU: &str = "/sys/devices/system/cpu/cpu1/online";

/// Puts the CPU back, whatever happens.
struct Back;

impl Drop for Back {
    fn drop(&mut self) {
        drop(fs::write(CPU, "1"));
    }
}

/// Waits for a run with so many CPUs whose first batch has arrived; says how many they are.
async fn running_on(
    status: &mut watch::Receiver<Status>,
    decoder: &Running,
    fits: impl Fn(usize) -> bool,
) -> usize {
    let has_begun = |status: &Status| {
        let cpus = status.events.first().map(|event| event.cpus)?;
        fits(cpus).then_some((cpus, status.source?.epoch))
    };
    let begun = status.wait_for(|status| has_begun(status).is_some());
    let (cpus, epoch) = has_begun(&begun.await.unwrap()).unwrap();
    let has_batch =
        |got: &crate::decoder::Got| got.batches.get(&epoch).is_some_and(|all| !all.is_empty());
    decoder.until("a batch of the run", has_batch).await;
    cpus
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_cpus_starts_a_run_on_those_that_are_there() {
    if std::env::var_os("MEMWIDE_TEST_HOTPLUG").is_none() {
        eprintln!("skipped: MEMWIDE_TEST_HOTPLUG is not set");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let config = config(&decoder.endpoint, folder.path());
    if !possible(&config) {
        return;
    }
    let stop = CancellationToken::new();
    let (reporter, mut status) = Reporter::new();
    let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
    let all = running_on(&mut status, &decoder, |_| true).await;
    let back = Back;
    fs::write(CPU, "0").unwrap();
    running_on(&mut status, &decoder, |cpus| cpus == all - 1).await;
    tokio::task::spawn_blocking(|| fault(10_000)).await.unwrap();
    drop(back);
    running_on(&mut status, &decoder, |cpus| cpus == all).await;
    tokio::task::spawn_blocking(|| fault(10_000)).await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    let last = status.borrow().source.unwrap().epoch;
    let got = decoder.got();
    assert_eq!(got.batches.len(), 3, "a run each");
    assert!(
        got.batches[&last][0].blind_ns > 0,
        "the change was not free"
    );
    let sums = |batches: &Vec<Batch>| {
        let counts = || batches.iter().flat_map(|batch| &batch.counts);
        let produced: u64 = counts().map(|count| count.produced).sum();
        (produced, counts().map(|count| count.residue).sum::<u64>())
    };
    let all = got.batches.values().map(sums);
    // Another recorder on the machine leaves a few.
    let is_right = |(produced, residue): (u64, u64)| produced > 0 && residue < 100;
    assert!(all.clone().all(is_right), "{:?}", all.collect::<Vec<_>>());
}
