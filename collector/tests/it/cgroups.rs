//! Samples and the cgroups they were taken in, on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use memwide_collector::{Config, EventConfig, Reporter, run_reporting};
use memwide_perf_abi::{Attr, Records, SampleLayout, SampleView, kind};
use memwide_proto::v1::Batch;
use memwide_service::CancellationToken;

use crate::decoder::{Manners, Running, unpack};
use crate::live::{config, possible};

/// A cgroup of the hierarchy of `perf_event`, removed in the end.
struct Made(PathBuf);

impl Made {
    /// `None` where none can be made.
    fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let of = |kind: &str, option: &str| {
            let mut lines = mounts
                .lines()
                .map(|line| line.split(' ').collect::<Vec<_>>());
            lines.find_map(|words| {
                let is_it =
                    words[2] == kind && words[3].split(',').any(|one| one.starts_with(option));
                is_it.then(|| words[1].to_owned())
            })
        };
        let root = of("cgroup", "perf_event").or_else(|| of("cgroup2", ""))?;
        let path = Path::new(&root).join(name);
        fs::create_dir_all(&path).ok()?;
        Some(Self(path))
    }

    fn id(&self) -> u64 {
        fs::metadata(&self.0).unwrap().ino()
    }

    /// Starts a shell in it that runs some programs.
    fn run(&self) {
        let script = format!(
            "echo $$ > {}/cgroup.procs; for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done",
            self.0.display()
        );
        let done = Command::new("sh").args(["-c", &script]).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // What ran there may not be gone yet; an empty folder left over does no harm.
        drop(fs::remove_dir(&self.0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_carry_cgroups_whose_paths_and_names_are_told() {
    const ID: &str = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90";
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let names = folder.path().join("names");
    fs::create_dir(&names).unwrap();
    let link = format!("shop-5d4f7c9b8d-x2x7k_prod_web-{ID}.log");
    fs::write(names.join(link), "").unwrap();
    let config = Config {
        events: vec![EventConfig::named("minor-faults").every(1)],
        pod_names: names,
        ..config(&decoder.endpoint, &folder.path().join("spool"))
    };
    if !possible(&config) {
        return;
    }
    let before = format!("memwide-test-{}-before.service", std::process::id());
    let Some(before) = Made::new(&before) else {
        eprintln!("skipped: no cgroup can be made here");
        return;
    };
    let stop = CancellationToken::new();
    let (reporter, mut status) = Reporter::new();
    let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
    status.wait_for(|status| status.batches > 0).await.unwrap();
    let pod = format!("pod{}", "2f1c5c5a-8f1b-11e9-b2c1-0050568f0d3a");
    let later = Made::new(&format!("{pod}/{ID}")).unwrap();
    let (first, second) = (before.id(), later.id());
    before.run();
    later.run();
    stop.cancel();
    running.await.unwrap().unwrap();

    let epoch = status.borrow().source.unwrap().epoch;
    let got = decoder.got();
    let batches = &got.batches[&epoch];
    let readings = || batches.iter().filter_map(|batch| batch.readings.as_ref());
    let find = |id: u64| {
        let mut all = readings().flat_map(|readings| &readings.workloads);
        all.find(|one| one.cgroup_id == id).unwrap().clone()
    };
    let (unit, named) = (find(first), find(second));
    assert!(unit.service.ends_with("-before.service"), "{unit:?}");
    let said = [
        &named.namespace,
        &named.pod,
        &named.container,
        &named.service,
    ];
    // The first cgroup of a pod is told before the names were read.
    if named.namespace.is_empty() {
        assert_eq!(said[2], &ID[..12]);
    } else {
        assert_eq!(said, ["prod", "shop-5d4f7c9b8d-x2x7k", "web", "shop"]);
    }
    let event = batches[0]
        .events
        .iter()
        .find(|event| !event.side_band)
        .unwrap();
    let layout = SampleLayout::new(&Attr::parse(&event.attr).unwrap()).unwrap();
    let (mut in_first, mut in_second) = (0, 0);
    for batch in batches {
        let samples = unpack(
            batch
                .samples
                .as_ref()
                .unwrap_or(&memwide_proto::v1::Section::default()),
        );
        for record in Records::new(&samples).map(Result::unwrap) {
            if record.kind == kind::SAMPLE {
                let sample = SampleView::parse(record.body(), &layout).unwrap();
                in_first += u32::from(sample.cgroup() == Some(first));
                in_second += u32::from(sample.cgroup() == Some(second));
            }
        }
    }
    assert!(
        in_first > 100 && in_second > 100,
        "{in_first} and {in_second} faults"
    );
    drop(later);
    drop(Made(before.0.parent().unwrap().join(pod)));
}

/// Counts of an event by workload and comm, over all batches.
fn counted(batches: &[Batch], name: &str) -> BTreeMap<(u64, String), f64> {
    let readings = batches.iter().filter_map(|batch| batch.readings.as_ref());
    let counters = readings.flat_map(|readings| &readings.counters);
    let mut sums = BTreeMap::new();
    for one in counters.filter(|one| one.name == name) {
        *sums.entry((one.workload_id, one.comm.clone())).or_default() += one.value;
    }
    sums
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_counted_in_cgroups_apart_and_the_rest_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let config = Config {
        events: vec![EventConfig::named("minor-faults").every(101)],
        readings_ms: 200,
        counters: vec!["page-faults".to_owned()],
        counters_cgroups: 64,
        ..config(&decoder.endpoint, &folder.path().join("spool"))
    };
    if !possible(&config) {
        return;
    }
    let made = |name| {
        Made::new(&format!(
            "memwide-test-{}-{name}.service",
            std::process::id()
        ))
    };
    let (Some(much), Some(little)) = (made("much"), made("little")) else {
        eprintln!("skipped: no cgroup can be made here");
        return;
    };
    let stop = CancellationToken::new();
    let (reporter, _status) = Reporter::new();
    let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
    let told = |decoder: &Running, name: &str| {
        let got = decoder.got();
        let batches = got.batches.values().next().cloned().unwrap_or_default();
        let readings = batches.iter().filter_map(|batch| batch.readings.as_ref());
        let mut all = readings.flat_map(|readings| &readings.workloads);
        let found = all.find(|one| one.service.ends_with(name));
        let workload = found.map_or(0, |one| one.workload_id);
        let sums = counted(&batches, "page-faults");
        (sums.get(&(workload, String::new())).copied(), sums)
    };
    // Counted from then on.
    let waiting = async {
        while told(&decoder, "-much.service").0.is_none()
            || told(&decoder, "-little.service").0.is_none()
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), waiting).await;
    waited.expect("both are counted");
    for _ in 0..3 {
        much.run();
    }
    little.run();
    // Another round of readings, and the batch that has it.
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.cancel();
    running.await.unwrap().unwrap();

    let (of_much, sums) = told(&decoder, "-much.service");
    let of_little = told(&decoder, "-little.service").0.unwrap();
    let of_much = of_much.unwrap();
    assert!(of_little > 100.0, "{sums:?}");
    assert!(
        of_much > 2.0 * of_little,
        "three times as much ran: {sums:?}"
    );
    assert!(
        of_much < 6.0 * of_little,
        "three times as much ran: {sums:?}"
    );
    let all = sums[&(0, String::new())];
    let others = sums[&(0, "other cgroups".to_owned())];
    assert!(others > 0.0 && all > of_much + of_little, "{sums:?}");
    // The first intervals are of the machine alone.
    assert!(others + of_much + of_little <= all * 1.01, "{sums:?}");
}
