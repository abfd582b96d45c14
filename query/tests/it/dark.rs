//! Time without samples is told of the ranges it lies in, and rows by the time of their samples.

use memwide_model::{Reason, Tier};
use memwide_store::rows::{Ledger1m, LedgerRow, TableRows as _, TierOrNone};
use serde_json::Value as Json;

use crate::support::{Running, running};
use crate::truth::{BEGIN, insert_samples, put, sample};

/// Hours behind the samples that every test knows; nothing else is there.
const HOUR: u32 = BEGIN + 10 * 3_600;

async fn enter(running: &Running, lines: &[(u32, &'static str, &'static str, Reason, f64)]) {
    let mut ledger = Ledger1m::default();
    for (time, host, event, reason, seconds) in lines {
        ledger.push(&LedgerRow {
            time: *time,
            host,
            source_id: 78,
            event_id: 3,
            event,
            tier: TierOrNone(Some(Tier::Software)),
            reason: *reason,
            records: 0,
            seconds: *seconds,
            last_batch: 1,
        });
    }
    for block in ledger.finish() {
        put(&running.store, &block, "dark").await;
    }
}

async fn asked(running: &Running, from_minute: u32, minutes: u32) -> Json {
    let (since, until) = (HOUR + from_minute * 60, HOUR + (from_minute + minutes) * 60);
    let url = format!("/api/v1/breakdown?by=host&since={since}000000000&until={until}000000000");
    running.get(&url).await.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn blind_and_stopped_time_is_told_of_the_range_it_lies_in() {
    let Some(running) = running().await else {
        return;
    };
    // Half an hour that ended in minute 40; four of eight CPUs' sampling stopped in minutes 50 and 51, both events at once.
    let mut lines = vec![(HOUR + 40 * 60, "alpha", "", Reason::BlindSeconds, 1_800.0)];
    for minute in [50, 51] {
        for event in ["cpu-clock", "minor-faults"] {
            lines.push((
                HOUR + minute * 60,
                "alpha",
                event,
                Reason::ThrottledSeconds,
                480.0,
            ));
        }
    }
    enter(&running, &lines).await;
    let answer = asked(&running, 0, 60).await;
    let complete = &answer["completeness"];
    assert_eq!(complete["blind_seconds"], 1_800.0);
    assert_eq!(
        complete["stopped_cpu_seconds"], 960.0,
        "of the event it fell on most"
    );
    assert_eq!(complete["stopped_seconds"], 120.0, "on eight CPUs");
    let notes = answer["notes"].to_string();
    assert!(
        notes.contains("blind for 1800.0 s in all on `alpha`"),
        "{notes}"
    );
    assert!(notes.contains("sampling stood still, stopped or throttled, for 960.0 CPU-seconds (120.0 s of all their CPUs) on `alpha`"), "{notes}");
    // The first ten minutes of the blindness end in minute 21, before anything of it was entered.
    let answer = asked(&running, 0, 21).await;
    assert_eq!(answer["completeness"]["blind_seconds"], 600.0);
    assert_eq!(answer["completeness"]["stopped_cpu_seconds"], 0.0);
    let answer = asked(&running, 41, 9).await;
    assert_eq!(answer["completeness"]["blind_seconds"], 0.0);
    assert!(!answer["notes"].to_string().contains("blind for"));
    let answer = asked(&running, 51, 5).await;
    assert_eq!(answer["completeness"]["stopped_seconds"], 60.0);
    late_batches(&running).await;
    running.stop().await;
}

/// An import: samples of ten minutes, their batch closed at the end of them.
async fn late_batches(running: &Running) {
    let begin = i64::from(HOUR + 7_200) * 1_000_000_000;
    let rows = (0..600).map(|i| {
        let mut row = sample(i);
        row.host = "gamma";
        row.time = begin + i64::try_from(i).unwrap() * 1_000_000_000;
        row
    });
    insert_samples(&running.store, rows, "late").await;
    let mut ledger = Ledger1m::default();
    for reason in [Reason::Produced, Reason::Stored] {
        ledger.push(&LedgerRow {
            time: HOUR + 7_200 + 9 * 60,
            host: "gamma",
            source_id: 79,
            event_id: 3,
            event: "minor-faults",
            tier: TierOrNone(Some(Tier::Software)),
            reason,
            records: 600,
            seconds: 0.0,
            last_batch: 1,
        });
    }
    for block in ledger.finish() {
        put(&running.store, &block, "late").await;
    }
    let answer = asked(running, 120, 5).await;
    let complete = &answer["completeness"];
    assert_eq!(complete["samples_in_range"], 300);
    assert_eq!(
        (&complete["samples_stored"], &complete["hosts_seen"]),
        (&Json::from(0), &Json::from(1))
    );
    let notes = answer["notes"].to_string();
    assert!(
        notes.contains("300 samples are from these minutes, 0 are of batches closed in them"),
        "{notes}"
    );
    let answer = asked(running, 120, 10).await;
    assert_eq!(answer["completeness"]["samples_stored"], 600);
    assert!(!answer["notes"].to_string().contains("batches closed"));
}
