//! Exports hold what `flamegraph` answers; pprof is read here by its own rules.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::support::{Running, running};
use crate::truth::{ALL, rows};

/// Fields of a protobuf message: number, and the varint or the bytes.
fn fields(mut message: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut all = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let value = varint(&mut message);
        match key & 7 {
            0 => all.push((key >> 3, value, &[][..])),
            2 => {
                let (bytes, rest) = message.split_at(usize::try_from(value).unwrap());
                all.push((key >> 3, value, bytes));
                message = rest;
            }
            other => panic!("wire type {other}"),
        }
    }
    all
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = message.split_first().unwrap();
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn numbers(mut packed: &[u8]) -> Vec<u64> {
    let mut all = Vec::new();
    while !packed.is_empty() {
        all.push(varint(&mut packed));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_hold_what_is_answered() {
    let Some(running) = running().await else {
        return;
    };
    let answer = running
        .get(&format!("/api/v1/flamegraph?{ALL}"))
        .await
        .records();
    let folded = running.get(&format!("/api/v1/export/folded?{ALL}")).await;
    assert!(folded.completeness.is_some());
    // Of the best tier the event with most samples, and none beside it.
    let (_, chosen) = ["mem-loads,ldlat=30", "mem-stores"]
        .map(|event| (rows().filter(|row| row.event == event).count(), event))
        .into_iter()
        .max()
        .unwrap();
    let notes = folded.notes.as_deref().unwrap();
    assert!(
        notes.contains(&format!("of one event, {chosen} (precise")),
        "{notes}"
    );
    assert!(notes.contains("minor-faults (software, none): "), "{notes}");
    let mut expected: Vec<String> = answer
        .iter()
        .filter(|row| row["event"] == chosen)
        .map(|row| format!("{} {}", row["path"].as_str().unwrap(), row["samples"]))
        .collect();
    let text = folded.text();
    let mut lines: Vec<&str> = text.lines().collect();
    expected.sort_unstable();
    lines.sort_unstable();
    assert_eq!(lines, expected);

    let document = running
        .get(&format!("/api/v1/export/speedscope?{ALL}&by=weight"))
        .await
        .json();
    let profiles = document["profiles"].as_array().unwrap();
    let of = |name: &str| -> f64 {
        let is_it = |profile: &&Json| profile["name"].as_str().unwrap().starts_with(name);
        profiles.iter().find(is_it).unwrap()["endValue"]
            .as_f64()
            .unwrap()
    };
    let weight: f64 = rows().map(|row| f64::from(row.weight)).sum();
    assert!((of("mem-loads") - weight).abs() < 1e-6 && of("mem-stores") == 0.0);

    pprof(
        &running,
        &answer,
        "mem-loads,ldlat=30",
        &["samples", "weight", "latency_cycles"],
    )
    .await;
    pprof(&running, &answer, "mem-stores", &["samples", "est_events"]).await;
    running.stop().await;
}

/// A profile of one event, whose kinds of values are these; asked by the last of them.
async fn pprof(running: &Running, answer: &[Json], event: &str, kinds: &[&str]) {
    let by = kinds.last().unwrap();
    let url = format!("/api/v1/export/pprof?{ALL}&event={event}&by={by}");
    let profile = running.get(&url).await;
    assert_eq!(profile.content_type, "application/octet-stream");
    let profile = fields(&profile.body);
    let of = |field: u64| profile.iter().filter(move |(known, ..)| *known == field);
    let strings: Vec<&str> = of(6)
        .map(|(_, _, text)| std::str::from_utf8(text).unwrap())
        .collect();
    let text = |number: u64| strings[usize::try_from(number).unwrap()];
    assert_eq!(strings[0], "");
    let named: Vec<&str> = of(1).map(|(_, _, kind)| text(fields(kind)[0].1)).collect();
    assert_eq!(named, kinds);
    let shown: Vec<&str> = of(14).map(|(_, name, _)| text(*name)).collect();
    assert_eq!(
        shown,
        [*by],
        "what a reader sees first is what was asked by"
    );
    let functions: BTreeMap<u64, &str> = of(5)
        .map(|(_, _, function)| (fields(function)[0].1, text(fields(function)[1].1)))
        .collect();
    let located: BTreeMap<u64, &str> = of(4)
        .map(|(_, _, location)| {
            let location = fields(location);
            (location[0].1, functions[&fields(location[1].2)[0].1])
        })
        .collect();
    let of_event = answer.iter().filter(|row| row["event"] == event);
    let samples: u64 = of_event.map(|row| row["samples"].as_u64().unwrap()).sum();
    let mut sum = 0;
    for (_, _, sample) in of(2) {
        let sample = fields(sample);
        let path: Vec<&str> = numbers(sample[0].2)
            .iter()
            .rev()
            .map(|id| located[id])
            .collect();
        let values = numbers(sample[1].2);
        let label = |at: usize| {
            let label: &[(u64, u64, &[u8])] = &fields(sample[at].2);
            (text(label[0].1), text(label[1].1))
        };
        assert_eq!((label(2).0, label(3).0), ("event", "tier"));
        let is_it = |row: &&Json| row["path"] == path.join(";") && row["event"] == label(2).1;
        let row = answer.iter().find(is_it).unwrap();
        for (kind, value) in kinds.iter().zip(&values) {
            assert_eq!(row[*kind].as_f64(), Some(*value as f64), "{kind}");
        }
        sum += values[0];
    }
    assert_eq!(sum, samples);
}
