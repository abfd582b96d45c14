//! A store that is away or slow, under load.

use crate::cases::{SOON, diary, order, says, skip};
use crate::oracle::Sums;
use crate::source::Order;
use crate::{SETTLED_WITHIN, number, settled, start};
use memwide_tests::{Deployment, Setup, until};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most memory of any process, in MiB: debug binaries, and what waits for the store is bounded to [`WAITING_BYTES`].
const MEMORY_MIB_MAX: u64 = 400;

/// Rows that may wait in the stream, and as many in the aggregator, in bytes.
const WAITING_BYTES: u64 = 512 << 10;

/// What each source's spool may keep of samples, in bytes.
const SPOOL_BYTES: u64 = 8 << 10;

/// What is kept of a batch whose samples went: number, counts, times.
const GAP_BYTES: u64 = 160;

/// The store stays away for so long after spools are full.
const FULL_FOR: Duration = Duration::from_secs(5);

/// What a spool may have beside: side-band, the segment that is being written, files of a few bytes.
const SPOOL_MORE: u64 = 128 << 10;

fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_in(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

fn sources(deployment: &mut Deployment, count: usize, spool_bytes: u64) -> Vec<(String, Order)> {
    let mut all = Vec::new();
    for source in 1..=count {
        let host = format!("away-{source}");
        let folder = deployment.folder().join(&host);
        let order = Order {
            spool_bytes,
            ..order(deployment, &host, &folder)
        };
        let name = format!("source-{source}");
        start(deployment, &name, &order);
        all.push((name, order));
    }
    all
}

fn stored(deployment: &Deployment) -> bool {
    let rows = deployment.sql("SELECT count() FROM samples");
    rows.is_ok_and(|rows| rows[0][0] != "0")
}

/// Everything is sent, comes to rest, and is as the diaries say.
fn rest(deployment: &mut Deployment, orders: &[(String, Order)]) -> Sums {
    for (_, order) in orders {
        std::fs::write(order.last_call(), "").unwrap();
    }
    for (name, _) in orders {
        until("everything is committed", SETTLED_WITHIN, || {
            deployment.ended(name) == Some(true)
        });
    }
    let truths: Vec<_> = orders.iter().map(|(_, order)| diary(order)).collect();
    settled(deployment, &truths).unwrap()
}

/// The store is away for `MEMWIDE_FAULT_AWAY_S` (20) seconds; `make faults AWAY=600` says more.
#[test]
fn a_store_that_is_away_for_long_ends_in_gaps_and_nothing_grows_without_end() {
    if skip() {
        return;
    }
    let away = Duration::from_secs(number("MEMWIDE_FAULT_AWAY_S", 20));
    let mut deployment = Deployment::start_with(&Setup {
        waiting_bytes: Some(WAITING_BYTES),
        ..Setup::default()
    });
    let orders = sources(&mut deployment, 3, SPOOL_BYTES);
    until("rows are stored", SOON, || stored(&deployment));
    let spool_of = |order: &Order| bytes_in(&order.folder.join("spool"));
    // Side-band that is kept, while samples are acknowledged.
    let base = orders.iter().map(|(_, order)| spool_of(order)).max();
    let base = base.unwrap_or_default();
    deployment.kill("engine");
    let names: Vec<String> = Deployment::SERVICES
        .iter()
        .map(|name| (*name).to_owned())
        .chain(orders.iter().map(|(name, _)| name.clone()))
        .collect();
    let mut peaks: BTreeMap<String, u64> = BTreeMap::new();
    let (mut spools, mut full) = (0, None::<Instant>);
    let begin = Instant::now();
    // On a slow machine it takes longer until spools are full and samples have to go.
    while begin.elapsed() < away || full.is_none_or(|full| full.elapsed() < FULL_FOR) {
        assert!(
            begin.elapsed() < away + 2 * SETTLED_WITHIN,
            "spools take {spools} bytes and are not full"
        );
        for name in &names {
            let peak = peaks.entry(name.clone()).or_default();
            *peak = deployment.memory_mib(name).max(*peak);
        }
        for (_, order) in &orders {
            spools = spool_of(order).max(spools);
        }
        if spools > base + SPOOL_BYTES + SPOOL_BYTES / 2 {
            full.get_or_insert_with(Instant::now);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(
        says(&deployment, "sink-1", "store"),
        "the sink does not say what it waits for"
    );
    deployment.run("engine");
    let Sums {
        produced,
        stored,
        gap,
    } = rest(&mut deployment, &orders);
    eprintln!(
        "store away for {} s: {produced} samples produced, {stored} stored, {gap} in gaps; largest spool {spools} bytes; MiB at most: {peaks:?}",
        away.as_secs()
    );
    assert!(
        gap > 0,
        "{stored} of {produced} were stored: the store was not away for long"
    );
    let batches = produced / orders[0].1.samples / orders.len() as u64;
    let bound = SPOOL_BYTES + SPOOL_MORE + GAP_BYTES * batches;
    assert!(spools <= bound, "a spool took {spools} bytes");
    for (name, peak) in peaks {
        assert!(peak <= MEMORY_MIB_MAX, "{name} took {peak} MiB");
    }
}

#[test]
fn a_store_that_answers_now_and_then_loses_nothing() {
    if skip() {
        return;
    }
    let mut deployment = Deployment::start();
    let orders = sources(&mut deployment, 2, 16 << 20);
    until("rows are stored", SOON, || stored(&deployment));
    for _ in 0..8 {
        deployment.signal("engine", "STOP");
        std::thread::sleep(Duration::from_millis(900));
        deployment.signal("engine", "CONT");
        std::thread::sleep(Duration::from_millis(100));
    }
    let sums = rest(&mut deployment, &orders);
    assert_eq!(sums.gap, 0, "{sums:?}");
}
