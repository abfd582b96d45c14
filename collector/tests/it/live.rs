//! On this machine, where perf events can be opened.

use std::path::Path;

use memwide_collector::{
    BudgetConfig, Config, EventConfig, Reporter, RingConfig, SpoolConfig, probe, run_reporting,
};
use memwide_perf_abi::{Attr, Record, Records, SampleLayout, SampleView, kind};
use memwide_proto::v1::Batch;
use memwide_service::CancellationToken;

use crate::decoder::{Manners, Running, unpack};

pub(crate) const PAGES: usize = 60_000;

pub(crate) fn config(endpoint: &str, spool: &Path) -> Config {
    Config {
        endpoint: endpoint.to_owned(),
        spool: SpoolConfig {
            dir: spool.to_owned(),
            max_bytes: 256 << 20,
        },
        events: vec![
            EventConfig::named("minor-faults").every(1),
            EventConfig::named("major-faults"),
            EventConfig::named("cpu-clock").with_callchain(),
            EventConfig::named("ibs_op//"),
        ],
        stop_grace_ms: 30_000,
        rings: RingConfig {
            // A busy machine may let the collector wait for long.
            sample_bytes: 16 << 20,
            ..RingConfig::default()
        },
        // Periods stay what tests count on.
        budget: BudgetConfig {
            govern: false,
            ..BudgetConfig::default()
        },
        ..Config::default()
    }
}

/// Whether events can be opened; says so loudly when not.
pub(crate) fn possible(config: &Config) -> bool {
    let faults = probe(config)
        .into_iter()
        .find(|one| one.name == "minor-faults");
    let why = faults.map_or_else(
        || "nothing known of minor-faults".to_owned(),
        |one| {
            if one.available {
                String::new()
            } else {
                one.reason
            }
        },
    );
    if !why.is_empty() {
        eprintln!("skipped: perf events cannot be opened here: {why}");
    }
    why.is_empty()
}

/// Touches fresh pages.
pub(crate) fn fault(pages: usize) {
    let page = 4096;
    for _ in 0..pages / 1_000 {
        let mut memory = memmap2::MmapOptions::new()
            .len(1_000 * page)
            .map_anon()
            .unwrap();
        for at in (0..memory.len()).step_by(page) {
            memory[at] = 1;
        }
    }
}

fn run_short_lived(count: usize) {
    for _ in 0..count {
        let done = std::process::Command::new("/bin/true").status();
        assert!(done.unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_every_counted_fault_arrives_with_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let config = config(&decoder.endpoint, folder.path());
    if !possible(&config) {
        return;
    }
    let stop = CancellationToken::new();
    let (reporter, mut status) = Reporter::new();
    let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
    status
        .wait_for(|status| status.connected && status.batches > 0)
        .await
        .unwrap();
    tokio::task::spawn_blocking(|| {
        fault(PAGES);
        run_short_lived(20);
    })
    .await
    .unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();

    let said = status.borrow().clone();
    assert!(said.capabilities.iter().any(|one| one.name == "ibs_op//"));
    let got = decoder.got();
    let batches = &got.batches[&said.source.unwrap().epoch];
    assert_eq!(batches.len() as u64, said.batches, "all were sent");
    assert!(batches[0].snapshot && batches[0].facts.is_some());
    let events = &batches[0].events;
    assert!(events[0].side_band);
    let faults = events
        .iter()
        .find(|event| event.name == "minor-faults")
        .unwrap();

    let sum = |of: fn(&memwide_proto::v1::EventCount) -> u64| -> u64 {
        batches
            .iter()
            .flat_map(|b| &b.counts)
            .filter(|c| c.event == faults.ordinal)
            .map(of)
            .sum()
    };
    let (produced, lost, residue) = (sum(|c| c.produced), sum(|c| c.lost), sum(|c| c.residue));
    assert!(produced + lost >= PAGES as u64, "{produced} faults");
    // None when nobody else records; beside another recorder of the event the kernel counts a few that it writes nowhere.
    assert!(
        residue * 1_000 <= produced,
        "{residue} counted and not seen"
    );
    // On a busy machine the ring may be full for a moment; then the kernel says how many it had no room for.
    assert!(lost * 10 <= produced, "{lost} lost of {produced}");

    let layout = SampleLayout::new(&Attr::parse(&faults.attr).unwrap()).unwrap();
    let mut seen = Seen::default();
    for batch in batches {
        seen.take(batch, &faults.ids, &layout);
    }
    assert_eq!(seen.faults, produced);
    let own = seen.own + lost;
    assert!(own >= PAGES as u64, "{} of our own, {lost} lost", seen.own);
    assert!(
        seen.with_phys * 10 >= seen.own * 9,
        "{} with a physical address",
        seen.with_phys
    );
    assert!(
        seen.names.iter().filter(|name| *name == "true").count() >= 20,
        "short-lived processes"
    );
    assert!(
        seen.sides_at_sample_time,
        "side-band comes no later than its samples"
    );
    for batch in batches {
        assert!(!batch.anchors.is_empty());
        assert!(
            batch.anchors.iter().all(|a| a.uncertainty_ns < 100_000_000),
            "{:?}",
            batch.anchors
        );
    }
}

#[derive(Default)]
struct Seen {
    faults: u64,
    own: u64,
    with_phys: u64,
    names: Vec<String>,
    known: std::collections::HashSet<u32>,
    sides_at_sample_time: bool,
}

impl Seen {
    fn take(&mut self, batch: &Batch, ids: &[u64], layout: &SampleLayout) {
        let side_band = unpack(batch.side_band.as_ref().unwrap());
        let records = Records::new(&side_band).count();
        assert_eq!(records, batch.side_band.as_ref().unwrap().records as usize);
        for record in Records::new(&side_band) {
            let record = record.unwrap();
            assert_ne!(record.kind, kind::SAMPLE);
            if let Record::Comm(comm) = Record::parse(record).unwrap() {
                self.known.insert(comm.pid);
                if comm.exec {
                    self.names
                        .push(String::from_utf8_lossy(comm.comm).into_owned());
                }
            }
            if let Record::Fork(task) = Record::parse(record).unwrap() {
                self.known.insert(task.pid);
            }
        }
        let samples = unpack(
            batch
                .samples
                .as_ref()
                .unwrap_or(&memwide_proto::v1::Section::default()),
        );
        self.sides_at_sample_time = true;
        for record in Records::new(&samples) {
            let record = record.unwrap();
            if record.kind != kind::SAMPLE || !ids.contains(&record.identifier().unwrap()) {
                continue;
            }
            self.faults += 1;
            let sample = SampleView::parse(record.body(), layout).unwrap();
            let pid = sample.pid().unwrap();
            self.sides_at_sample_time &= pid == 0 || self.known.contains(&pid);
            if pid == std::process::id() {
                self.own += 1;
                self.with_phys += u64::from(sample.phys_addr().unwrap_or(0) != 0);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_collectors_that_look_at_the_same_faults_each_have_them_all() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let decoders = [
        Running::start(Manners::default()).await,
        Running::start(Manners::default()).await,
    ];
    let stop = CancellationToken::new();
    let mut collectors = Vec::new();
    for (folder, decoder) in folders.iter().zip(&decoders) {
        let mut config = config(&decoder.endpoint, folder.path());
        // The second one is in a ring of its own, which is small: it loses most.
        config.events = vec![
            EventConfig::named("minor-faults").every(1).with_callchain(),
            EventConfig::named("minor-faults").every(1),
        ];
        config.rings.poll_ms = 20;
        if !possible(&config) {
            return;
        }
        let (reporter, mut status) = Reporter::new();
        let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
        status.wait_for(|status| status.batches > 0).await.unwrap();
        collectors.push((running, status));
    }
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    stop.cancel();
    for ((running, status), decoder) in collectors.into_iter().zip(&decoders) {
        running.await.unwrap().unwrap();
        let epoch = status.borrow().source.unwrap().epoch;
        let got = decoder.got();
        let batches = &got.batches[&epoch];
        for event in batches[0].events.iter().filter(|event| !event.side_band) {
            let layout = SampleLayout::new(&Attr::parse(&event.attr).unwrap()).unwrap();
            let mut seen = Seen::default();
            let (mut produced, mut lost) = (0, 0);
            for batch in batches {
                seen.take(batch, &event.ids, &layout);
                let counts = batch.counts.iter();
                for count in counts.filter(|count| count.event == event.ordinal) {
                    produced += count.produced;
                    lost += count.lost;
                }
            }
            assert_eq!(seen.faults, produced);
            let (own, pages) = (seen.own, PAGES as u64);
            assert!(own + lost >= pages, "{own} and {lost} lost");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_decoder_took_is_sent_by_the_next_run_under_its_own_source() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = Running::start(Manners::default()).await;
    let mut first = config(&nobody.endpoint, folder.path());
    let place = nobody.stop().await;
    if !possible(&first) {
        return;
    }
    first.stop_grace_ms = 1;
    let stop = CancellationToken::new();
    let (reporter, mut status) = Reporter::new();
    let running = tokio::spawn(run_reporting(first.clone(), reporter, stop.clone()));
    status.wait_for(|status| status.batches >= 2).await.unwrap();
    assert!(!status.borrow().connected);
    stop.cancel();
    running.await.unwrap().unwrap();
    let (batches, epoch) = {
        let said = status.borrow();
        (said.batches, said.source.unwrap().epoch)
    };

    let decoder = Running::again(place).await;
    let stop = CancellationToken::new();
    let (reporter, status) = Reporter::new();
    let running = tokio::spawn(run_reporting(first, reporter, stop.clone()));
    let all = |got: &crate::decoder::Got| {
        got.batches
            .get(&epoch)
            .is_some_and(|all| all.len() as u64 == batches)
    };
    decoder.until("the first run's batches", all).await;
    let own = status.borrow().source.unwrap().epoch;
    decoder
        .until("a batch of the second run", |got| {
            got.batches.get(&own).is_some_and(|all| !all.is_empty())
        })
        .await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let got = decoder.got();
    assert!(
        got.batches[&own][0].blind_ns > 0,
        "nobody looked between the runs"
    );
    assert_eq!(got.batches[&epoch][0].blind_ns, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_period_takes_one_of_so_many() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = Running::start(Manners::default()).await;
    let mut config = config(&decoder.endpoint, folder.path());
    config.events = vec![EventConfig::named("minor-faults")];
    if !possible(&config) {
        return;
    }
    let stop = CancellationToken::new();
    let (reporter, mut status) = Reporter::new();
    let running = tokio::spawn(run_reporting(config, reporter, stop.clone()));
    status.wait_for(|status| status.batches > 0).await.unwrap();
    tokio::task::spawn_blocking(|| fault(PAGES)).await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    let said = status.borrow().clone();
    let got = decoder.got();
    let batches = &got.batches[&said.source.unwrap().epoch];
    let faults = batches[0]
        .events
        .iter()
        .find(|event| event.name == "minor-faults")
        .unwrap();
    let layout = SampleLayout::new(&Attr::parse(&faults.attr).unwrap()).unwrap();
    let mut seen = Seen::default();
    for batch in batches {
        seen.take(batch, &faults.ids, &layout);
        assert!(batch.counts.iter().all(|count| count.period == 19));
    }
    let estimate = seen.own * 19;
    let pages = PAGES as u64;
    assert!(
        (pages * 9 / 10..pages * 2).contains(&estimate),
        "{estimate} of {pages}"
    );
}

#[test]
fn a_probe_says_of_every_event_whether_and_why_not() {
    let config = Config {
        events: vec![
            EventConfig::named("minor-faults"),
            EventConfig::named("cpu/mem-loads,ldlat=30/P"),
            EventConfig::named("no-such-event"),
        ],
        ..Config::default()
    };
    let said = probe(&config);
    for event in &config.events {
        let one = said.iter().find(|one| one.name == event.name).unwrap();
        assert!(one.available || !one.reason.is_empty(), "{one:?}");
    }
    let wrong = said.iter().find(|one| one.name == "no-such-event").unwrap();
    assert!(!wrong.available && !wrong.remedy.is_empty());
}
