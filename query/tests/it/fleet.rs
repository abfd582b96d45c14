//! `latency`, `data`, `faults` and `kernel` equal counts made here from the same samples.

use std::collections::{BTreeMap, BTreeSet};

use memwide_model::{Context, LatencyKind, Locality, Op};
use serde_json::{Value as Json, json};

use crate::count::{Key, Sample, close, grouped, key_of};
use crate::support::{Running, running};
use crate::truth::{ALL, BEGIN, DATA, EVENTS, FUNCTIONS, PART, function, rows};

#[tokio::test(flavor = "multi_thread")]
async fn distributions_data_faults_and_contexts_equal_counts_of_the_same_samples() {
    let Some(running) = running().await else {
        return;
    };
    let all: Vec<Sample> = rows().collect();
    latency(&running, &all).await;
    data(&running, &all).await;
    faults(&running, &all).await;
    kernel(&running, &all).await;
    running.stop().await;
}

async fn records(running: &Running, question: &str, table: &str) -> Vec<Json> {
    let reply = running.get(&format!("/api/v1/{question}")).await;
    assert_eq!(reply.json()["source_table"], table, "{}", reply.text());
    reply.records()
}

/// The least value that at least this part of the values is not above.
fn quantile(sorted: &[u32], part: f64) -> u32 {
    let rank = (part * sorted.len() as f64).ceil().max(1.0);
    *sorted
        .iter()
        .enumerate()
        .find(|(i, _)| (*i + 1) as f64 >= rank)
        .unwrap()
        .1
}

async fn latency(running: &Running, all: &[Sample]) {
    let key = |row: &Sample| -> Key {
        [
            function(row),
            row.event,
            row.level.name(),
            row.outcome.name(),
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let measured = |row: &&Sample| row.latency_kind == LatencyKind::Use;
    let expected = grouped(all.iter().filter(measured), key);
    let path = format!("latency?{ALL}");
    let reply = running.get(&format!("/api/v1/{path}")).await;
    let found = records(running, &path, "samples").await;
    assert_eq!(found.len(), expected.len());
    let names = ["function", "event", "level", "outcome"];
    for record in &found {
        let rows = &expected[&key_of(record, &names)];
        let mut weights: Vec<u32> = rows.iter().map(|row| row.weight).collect();
        weights.sort_unstable();
        let what = record.to_string();
        assert_eq!(record["samples"], rows.len(), "{what}");
        assert_eq!(record["measured"], rows.len(), "{what}");
        let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        close(&record["mean"], &json!(sum / rows.len() as f64), &what);
        close(&record["least"], &json!(weights[0]), &what);
        close(&record["most"], &json!(weights.last().unwrap()), &what);
        for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
            let found = record[name].as_f64().unwrap();
            // Where a rank falls between two values either is right.
            let (low, high) = (
                quantile(&weights, part - 1.0 / rows.len() as f64),
                quantile(&weights, (part + 1.0 / rows.len() as f64).min(1.0)),
            );
            assert!(
                (f64::from(low)..=f64::from(high)).contains(&found),
                "{name}: {low} {high} {what}"
            );
        }
    }
    let mut buckets: BTreeMap<Key, u64> = BTreeMap::new();
    for bucket in reply.part("histogram") {
        *buckets.entry(key_of(&bucket, &names)).or_default() += bucket["samples"].as_u64().unwrap();
        let (from, below) = (
            bucket["from"].as_f64().unwrap(),
            bucket["below"].as_f64().unwrap(),
        );
        assert!((below / from - 2_f64.powf(0.25)).abs() < 1e-9);
        let rows = &expected[&key_of(&bucket, &names)];
        let within = rows
            .iter()
            .filter(|row| (from..below).contains(&f64::from(row.weight)));
        // A value at a bound may be on either side of it by rounding.
        let off = within
            .count()
            .abs_diff(usize::try_from(bucket["samples"].as_u64().unwrap()).unwrap());
        assert!(off <= 1, "{bucket}");
    }
    for (key, samples) in &buckets {
        assert_eq!(
            *samples,
            expected[key].len() as u64,
            "every sample has its bucket"
        );
    }
    let found = records(
        running,
        &format!("latency?{PART}&by=host&level=RAM"),
        "samples",
    )
    .await;
    let begin = i64::from(BEGIN) * 1_000_000_000;
    let part = begin + 300_500_000_000..begin + 2_700_250_000_000;
    for record in &found {
        let is_it = |row: &&Sample| {
            part.contains(&row.time)
                && row.latency_kind == LatencyKind::Use
                && record["host"] == row.host
                && row.level.name() == "RAM"
        };
        assert_eq!(record["samples"], all.iter().filter(is_it).count());
    }
    assert_eq!(found.len(), 3);
}

async fn data(running: &Running, all: &[Sample]) {
    let name = |row: &Sample| {
        DATA.iter()
            .find(|data| data.id == row.data_id)
            .unwrap()
            .name
    };
    let key = |row: &Sample| -> Key {
        [row.region.name(), name(row), row.event, function(row)]
            .map(str::to_owned)
            .to_vec()
    };
    for (question, by, of) in [
        (
            format!("data?{ALL}"),
            &["region", "data_symbol", "event"][..],
            3,
        ),
        (
            format!("data?{ALL}&per_function=true&by=weight&limit=100"),
            &["region", "data_symbol", "event", "function"][..],
            4,
        ),
    ] {
        let expected = grouped(all, |row| key(row)[..of].to_vec());
        let found = records(running, &question, "data_1h").await;
        assert_eq!(found.len(), expected.len(), "{question}");
        for record in &found {
            let rows = &expected[&key_of(record, by)];
            let count = |is: &dyn Fn(&Sample) -> bool| rows.iter().filter(|row| is(row)).count();
            let what = record.to_string();
            assert_eq!(record["samples"], rows.len(), "{what}");
            assert_eq!(
                record["stores"],
                count(&|row| row.op == Op::Store),
                "{what}"
            );
            assert_eq!(record["loads"], count(&|row| row.op == Op::Load), "{what}");
            let remote = count(&|row| row.locality == Locality::Remote);
            assert_eq!(record["remote_samples"], remote, "{what}");
            let pages: BTreeSet<_> = rows
                .iter()
                .map(|row| (row.host, row.pid, row.addr >> 12))
                .collect();
            assert_eq!(record["pages"], pages.len(), "{what}");
            let processes: BTreeSet<_> = rows.iter().map(|row| (row.host, row.pid)).collect();
            assert_eq!(record["processes"], processes.len(), "{what}");
        }
    }
}

async fn faults(running: &Running, all: &[Sample]) {
    let faults = all.iter().filter(|row| row.event == EVENTS[2].1);
    let expected = grouped(faults, |row| {
        vec![function(row).to_owned(), row.region.name().to_owned()]
    });
    let found = records(running, &format!("faults?{ALL}"), "faults_1m").await;
    assert_eq!(found.len(), expected.len());
    let whole: usize = expected.values().map(Vec::len).sum();
    for record in &found {
        let rows = &expected[&key_of(record, &["function", "region"])];
        let what = record.to_string();
        assert_eq!(
            (&record["kind"], &record["tier"]),
            (&json!("minor"), &json!("software"))
        );
        assert_eq!(record["samples"], rows.len(), "{what}");
        close(
            &record["faults"],
            &json!(rows.iter().map(|row| row.period).sum::<u64>()),
            &what,
        );
        close(
            &record["share"],
            &json!(rows.len() as f64 / whole as f64),
            &what,
        );
        let pages: BTreeSet<_> = rows
            .iter()
            .map(|row| (row.host, row.pid, row.addr >> 12))
            .collect();
        assert_eq!(record["pages"], pages.len(), "{what}");
    }
    let reply = running
        .get(&format!("/api/v1/faults?{ALL}&event=mem-stores"))
        .await;
    assert!(reply.records().is_empty());
    assert!(reply.text().contains("no event that counts page faults"));
}

async fn kernel(running: &Running, all: &[Sample]) {
    let one = FUNCTIONS[0].1;
    for (question, table, of) in [
        (format!("kernel?{ALL}"), "mix_1m", None),
        (
            format!("kernel?{ALL}&function={one}"),
            "functions",
            Some(one),
        ),
        (
            format!("kernel?{ALL}&function={one}&snoop=unknown,none,miss,hit,peer,fwd,hitm"),
            "samples",
            Some(one),
        ),
    ] {
        let taken = |row: &&Sample| of.is_none_or(|name| function(row) == name);
        let expected = grouped(all.iter().filter(taken), |row| {
            vec![row.context.name().to_owned(), row.event.to_owned()]
        });
        let found = records(running, &question, table).await;
        assert_eq!(found.len(), expected.len());
        for record in &found {
            let rows = &expected[&key_of(record, &["context", "event"])];
            assert_eq!(record["samples"], rows.len(), "{question} {record}");
            let stores = rows.iter().filter(|row| row.op == Op::Store).count();
            assert_eq!(record["stores"], stores, "{record}");
            assert_eq!(record["group"], "on behalf");
        }
        let reply = running.get(&format!("/api/v1/{question}")).await;
        let functions = reply.part("functions");
        assert!(!functions.is_empty());
        for record in &functions {
            let is_it = |row: &&Sample| {
                row.context == Context::Syscall
                    && record["function"] == function(row)
                    && record["event"] == row.event
            };
            assert_eq!(
                record["samples"],
                all.iter().filter(is_it).count(),
                "{record}"
            );
        }
    }
}
