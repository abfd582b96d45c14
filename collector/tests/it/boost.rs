//! Shorter periods for some processes, on this machine.

use std::collections::HashMap;
use std::ops::Range;

use memwide_perf_abi::{Attr, Records, SampleLayout, SampleView, kind};
use memwide_proto::v1::{Batch, Boost};

use crate::central::{Collector, epoch, governed};
use crate::decoder::{Manners, Running, unpack};
use crate::live::{fault, possible};

/// Faults of this process, and of another one that does as much.
const PAGES: usize = 40_000;
/// Every how many faults a sample is taken.
const PERIOD: u64 = 31;
/// Of the only event, and of its other half.
const OWN: u32 = 1;
const TWIN: u32 = 2;
const FACTOR: u32 = 10;

/// Whose faults samples stand for: (of this process, of others), by event.
type Estimates = HashMap<u32, (u64, u64)>;

/// Of some batches, with the events that all of them describe.
fn estimates(all: &[Batch], of: Range<usize>) -> Estimates {
    let mut found = Estimates::new();
    let mut events = HashMap::new();
    for event in all.iter().flat_map(|batch| &batch.events) {
        events.extend(event.ids.iter().map(|id| (*id, event.clone())));
    }
    for batch in &all[of] {
        let bytes = unpack(batch.samples.as_ref().unwrap());
        for record in Records::new(&bytes).map(Result::unwrap) {
            if record.kind != kind::SAMPLE {
                continue;
            }
            let event = &events[&record.identifier().unwrap()];
            let layout = SampleLayout::new(&Attr::parse(&event.attr).unwrap()).unwrap();
            let sample = SampleView::parse(record.body(), &layout).unwrap();
            let mut counts = batch.counts.iter();
            let count = counts.find(|count| count.event == event.ordinal).unwrap();
            let of = found.entry(event.ordinal).or_default();
            if sample.pid() == Some(std::process::id()) {
                of.0 += count.period;
            } else {
                of.1 += count.period;
            }
        }
    }
    found
}

/// Another process touches about as many fresh pages.
fn fault_elsewhere() {
    let mut shell = std::process::Command::new("sh");
    let program = format!(
        "dd if=/dev/zero of=/dev/null bs={} count=1 2>/dev/null",
        PAGES * 4096
    );
    assert!(shell.args(["-c", &program]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_of_those_asked_for_come_more_often_and_all_estimates_stay_right() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let mut config = governed(&decoder.endpoint, folder.path());
    config.events[0].period = Some(PERIOD);
    if !possible(&config) {
        return;
    }
    let mut collector = Collector::start(config);
    collector.until(|status| status.batches > 0).await;
    let me = std::process::id();
    decoder.boost(Boost {
        id: 9,
        select: vec![format!("pid={me}")],
        factor: FACTOR,
        seconds: 600,
    });
    let status = collector.until(|status| status.boost.is_some()).await;
    let from = status.batches;
    tokio::task::spawn_blocking(|| {
        fault(PAGES);
        fault_elsewhere();
    })
    .await
    .unwrap();
    // Asked again for a moment, it ends by itself.
    decoder.boost(Boost {
        id: 10,
        select: vec![format!("pid={me}")],
        factor: FACTOR,
        seconds: 3,
    });
    collector
        .until(|status| status.boost.is_some_and(|boost| boost.id == 10))
        .await;
    let through = collector
        .until(|status| status.boost.is_none())
        .await
        .batches;
    let status = collector.until(|status| status.batches > through + 1).await;
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    let running = epoch(&status);
    assert_eq!(
        epoch(&collector.end().await),
        running,
        "nothing was opened anew"
    );

    let got = decoder.got();
    let said = got.reports.iter().find(|report| report.boost == 9);
    assert!(said.is_some_and(|said| said.applied), "{:?}", got.reports);
    let batches = &got.batches[&running];
    let at = |number: u64| usize::try_from(number).unwrap();
    let boosted = estimates(batches, at(from)..at(through));
    let pages = PAGES as u64;
    let (of_me, of_others) = (boosted[&TWIN], boosted[&OWN]);
    assert_eq!((of_me.1, of_others.0), (0, 0), "only those asked for");
    assert!(
        (pages * 9 / 10..pages * 12 / 10).contains(&of_me.0),
        "{of_me:?} of {pages}"
    );
    // Some ninety samples of the other process, kept at random, and those of the rest of the machine.
    assert!(of_others.1 >= pages * 6 / 10, "{of_others:?} of {pages}");
    let after = estimates(batches, at(through)..batches.len());
    assert!(!after.contains_key(&TWIN) && after[&OWN].0 > 0, "{after:?}");
    let periods = |ordinal| -> Vec<u64> {
        let counts = batches[at(from)..at(through)]
            .iter()
            .flat_map(|batch| &batch.counts);
        let of_it = counts.filter(|count| count.event == ordinal);
        of_it.map(|count| count.period).collect()
    };
    let times = periods(OWN).into_iter().zip(periods(TWIN));
    let times: Vec<u64> = times.map(|(own, twin)| own / twin).collect();
    assert!(
        !times.is_empty() && times.iter().all(|times| *times == 7),
        "{times:?}"
    );
    let residue: u64 = batches
        .iter()
        .flat_map(|batch| &batch.counts)
        .map(|count| count.residue)
        .sum();
    let produced: u64 = batches
        .iter()
        .flat_map(|batch| &batch.counts)
        .map(|count| count.produced)
        .sum();
    assert!(
        residue * 50 <= produced,
        "{residue} of {produced} counted and not seen"
    );
}
