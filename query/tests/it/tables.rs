//! Answers from closed tables are those from samples: before anything is closed, when some is, and when all is and the samples
//! are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use memwide_model::{LatencyKind, Snoop, Tier};
use memwide_store::Store;
use memwide_store::rows::{
    CloseRow, Closes, ClosesOfCalls, ClosesOfCallsRow, ClosesOfDetails, ClosesOfDetailsRow,
    NativeBlock, SampleRow, TableRows as _,
};
use memwide_store::schema::{close_calls, close_details, close_functions_1h};
use serde_json::Value as Json;

use crate::count::close;
use crate::support::{Running, running};
use crate::truth::{BEGIN, SAMPLES, insert_samples, put, sample};

const DAY: &str = "since=2026-11-20T00:00:00Z&until=2026-11-21T00:00:00Z";
const HOURS: &str = "since=2026-11-20T10:00:00Z&until=2026-11-20T15:00:00Z";
/// Calls and switches lie in the first half of the minute that begins here; the range that is shorter is of samples.
const CALLS: u32 = BEGIN + 3 * 3_600;
const MINUTE: &str = "since=2026-11-20T13:00:00Z&until=2026-11-20T13:01:00Z";
/// The same minute, long enough for switches of all hosts to be followed.
const AROUND: &str = "since=2026-11-20T12:30:00Z&until=2026-11-20T14:30:00Z";
const HALF: &str = "since=2026-11-20T13:00:00Z&until=2026-11-20T13:00:30Z";
/// The first minute of samples; the last second has none.
const FIRST: &str = "since=2026-11-20T10:00:00Z&until=2026-11-20T10:01:00Z";
const NEARLY: &str = "since=2026-11-20T10:00:00Z&until=2026-11-20T10:00:59Z";

/// Question, the table that answers it in the first range, and the range that samples answer; none: by a filter that every
/// sample passes.
const ASKED: &[(&str, &str, &str, &str)] = &[
    ("functions?by=weight", "fleet_1d", DAY, ""),
    ("functions?locality=remote&level=RAM", "fleet_1d", DAY, ""),
    ("annotate?", "sites_1h", HOURS, ""),
    ("annotate?function=lookup&op=load", "sites_1h", HOURS, ""),
    ("data?", "data_1h", HOURS, ""),
    ("data?per_function=true&host=alpha", "data_1h", HOURS, ""),
    (
        "data?by=weight&pod=cart-1&tier=precise",
        "data_1h",
        HOURS,
        "",
    ),
    ("faults?", "faults_1m", FIRST, NEARLY),
    (
        "faults?context=user&host=alpha,beta",
        "faults_1m",
        FIRST,
        NEARLY,
    ),
    ("allocs?", "allocs_1m", MINUTE, HALF),
    ("allocs?comm=even", "allocs_1m", MINUTE, HALF),
    ("offcpu?", "offcpu_1m", AROUND, HALF),
    ("offcpu?comm=odd&host=alpha", "offcpu_1m", AROUND, HALF),
];

/// Rows by what tells them apart, and their numbers by column.
type Told = BTreeMap<String, Vec<(String, Json)>>;

async fn ask(running: &Running, question: &str, table: &str, range: &str) -> Told {
    let url = format!("/api/v1/{question}&{range}&limit=10000");
    let reply = running.get(&url).await;
    assert_eq!(
        reply.json()["source_table"],
        table,
        "{url}: {}",
        reply.text()
    );
    let mut told = Told::new();
    for record in reply.records() {
        let (mut key, mut numbers) = (String::new(), Vec::new());
        for (name, value) in record.as_object().unwrap() {
            if let Some(text) = value.as_str() {
                key += &format!("{name}={text} ");
            } else {
                numbers.push((name.clone(), value.clone()));
            }
        }
        assert!(
            told.insert(key, numbers).is_none(),
            "{url}: two rows of {record}"
        );
    }
    assert!(!told.is_empty(), "{url}");
    told
}

/// Each question as samples answer it.
async fn from_samples(running: &Running) -> Vec<Told> {
    let snoop: Vec<&str> = Snoop::ALL.iter().map(|snoop| snoop.name()).collect();
    let snoop = format!("snoop={}", snoop.join(","));
    let mut all = Vec::new();
    for (question, _, range, short) in ASKED {
        let range = if short.is_empty() {
            format!("{range}&{snoop}")
        } else {
            (*short).to_owned()
        };
        all.push(ask(running, question, "samples", &range).await);
    }
    all
}

async fn compare(running: &Running, expected: &[Told], samples_are_there: bool) {
    for ((question, table, range, _), expected) in ASKED.iter().zip(expected) {
        let found = ask(running, question, table, range).await;
        let keys = |told: &Told| told.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&found), keys(expected), "{question}");
        for (key, numbers) in &found {
            assert_eq!(numbers.len(), expected[key].len());
            for ((name, number), (_, other)) in numbers.iter().zip(&expected[key]) {
                let needs_samples =
                    question.starts_with("data") && ["pages", "processes"].contains(&name.as_str());
                if needs_samples && !samples_are_there {
                    assert!(number.is_null(), "{question} {key}: {name}");
                } else {
                    close(number, other, &format!("{question} {key}: {name}"));
                }
            }
        }
    }
}

/// Calls and switches of two hosts, the `lot`th ten seconds of them.
fn calls(lot: u32) -> impl Iterator<Item = SampleRow<'static>> {
    (0..120_u64).map(move |i| {
        let tid = u32::try_from(i * 7 % 5).unwrap();
        let name = [
            "sched:sched_switch",
            "kmem:kmalloc",
            "sched:sched_switch",
            "mmap:vm_unmapped_area",
        ];
        let name = name[usize::try_from(i % 4).unwrap()];
        let seconds = i64::from(CALLS + 10 * lot) * 1_000_000_000;
        SampleRow {
            time: seconds + i64::try_from(i).unwrap() * 80_000_001,
            host: ["alpha", "beta"][usize::try_from(i / 60).unwrap()],
            cpu: u16::try_from(i % 3).unwrap(),
            pid: tid,
            tid,
            comm: ["even", "odd"][tid as usize % 2],
            event_id: 90 + i % 4,
            event: name,
            tier: Tier::Software,
            latency_kind: LatencyKind::None,
            weight: 0,
            period: if name.starts_with("sched") { 1 } else { 1 + i },
            ..sample(i)
        }
    })
}

fn now() -> u32 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    u32::try_from(now.as_secs()).unwrap()
}

/// Closes all that has come since `after`, as a sink does; nothing comes within the second that it ends with.
async fn closed(store: &Store, after: u32) -> u32 {
    let through = now();
    let functions = ("functions_1h", close_functions_1h(0, after, through));
    let details = close_details(0, after, through);
    let all = std::iter::once(functions).chain(details);
    for (table, sql) in all.chain(close_calls(0, after, through)) {
        let token = format!("{table}/{through}");
        store.insert_select(&sql, &token).await.unwrap();
    }
    let (mut hours, mut details, mut calls) = (
        Closes::default(),
        ClosesOfDetails::default(),
        ClosesOfCalls::default(),
    );
    let (part, closed_through) = (0, through);
    hours.push(&CloseRow {
        part,
        closed_through,
    });
    details.push(&ClosesOfDetailsRow {
        part,
        closed_through,
    });
    calls.push(&ClosesOfCallsRow {
        part,
        closed_through,
    });
    let blocks: Vec<NativeBlock> = [hours.finish(), details.finish(), calls.finish()].concat();
    for block in &blocks {
        put(store, block, &through.to_string()).await;
    }
    while now() <= through {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    through
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_tables_answer_as_samples_do() {
    let Some(running) = running().await else {
        return;
    };
    let store = &running.store;
    insert_samples(store, calls(0), "calls-0").await;
    compare(&running, &from_samples(&running).await, true).await;
    let through = closed(store, 0).await;
    compare(&running, &from_samples(&running).await, true).await;
    insert_samples(store, calls(1), "calls-1").await;
    insert_samples(store, (SAMPLES..SAMPLES + 500).map(sample), "more").await;
    let expected = from_samples(&running).await;
    compare(&running, &expected, true).await;
    closed(store, through).await;
    compare(&running, &expected, true).await;
    store.execute("TRUNCATE TABLE samples").await.unwrap();
    compare(&running, &expected, false).await;
    running.stop().await;
}
