//! Periods of clocks are nanoseconds: never added to counts, and named.

use memwide_model::{LatencyKind, Tier};
use memwide_store::rows::{EventRow, Events, SampleRow, TableRows as _};

use crate::support::{Running, running};
use crate::truth::{BEGIN, insert_samples, put, sample};

/// Behind the samples that every test knows.
const RANGE: &str = "since=2026-11-20T20:00:00Z&until=2026-11-20T21:00:00Z";
const PERIOD: u64 = 1_000_003;

fn of_clock(i: u64) -> SampleRow<'static> {
    let mut row = sample(i);
    row.time = (i64::from(BEGIN) + 36_000) * 1_000_000_000 + i64::try_from(i).unwrap();
    row.tier = Tier::Software;
    row.latency_kind = LatencyKind::None;
    row.weight = 0;
    if i.is_multiple_of(4) {
        (row.event_id, row.event, row.period) = (3, "minor-faults", 1);
    } else {
        (row.event_id, row.event, row.period) = (9, "cpu-clock:u", PERIOD);
    }
    row
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_count_nanoseconds_and_are_not_added_to_faults() {
    let Some(running) = running().await else {
        return;
    };
    insert_samples(&running.store, (0..400).map(of_clock), "clock").await;
    let mut events = Events::default();
    events.push(&EventRow {
        event_id: 9,
        name: "cpu-clock:u",
        pmu: "software",
        tier: Tier::Software,
        period_mode: "fixed",
        period: PERIOD,
        threshold_cycles: 0,
        latency_kind: LatencyKind::None,
        // As a recording names it.
        population: "cpu-clock:u",
        cpu_model: "",
        cpuid: "",
        attr: "",
        last_seen: BEGIN,
    });
    for block in events.finish() {
        put(&running.store, &block, "clock").await;
    }
    for question in [
        "functions",
        "breakdown",
        "flamegraph",
        "kernel",
        "data",
        "annotate",
    ] {
        units(&running, question).await;
    }
    let folded = running.get(&format!("/api/v1/export/folded?{RANGE}")).await;
    let sum: u64 = folded
        .text()
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(sum, 300, "samples of the clock alone");
    assert!(folded.notes.unwrap().contains("of one event, cpu-clock:u"));
    let document = running
        .get(&format!("/api/v1/export/speedscope?{RANGE}&by=est_events"))
        .await
        .json();
    let profile = &document["profiles"][0];
    assert_eq!(profile["name"], "cpu-clock:u (software, est_events [ns])");
    assert_eq!(profile["unit"], "nanoseconds");
    assert_eq!(profile["endValue"].as_f64(), Some((300 * PERIOD) as f64));
    running.stop().await;
}

async fn units(running: &Running, question: &str) {
    let reply = running
        .get(&format!("/api/v1/{question}?{RANGE}&limit=1000"))
        .await;
    let (mut ns, mut events) = (0.0, 0.0);
    for record in reply.records() {
        let estimate = record["est_events"].as_f64().unwrap();
        if record["event"] == "cpu-clock:u" {
            assert_eq!(record["est_unit"], "ns", "{question}");
            ns += estimate;
        } else {
            assert_eq!(record["est_unit"], "events", "{question}");
            events += estimate;
        }
    }
    assert_eq!((ns, events), ((300 * PERIOD) as f64, 100.0), "{question}");
    let columns = reply.json()["columns"].as_array().unwrap().clone();
    let column = columns.iter().find(|column| column["name"] == "est_events");
    assert_eq!(column.unwrap()["unit"], "of est_unit");
}
