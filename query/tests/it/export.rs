//! Exports hold what `flamegraph` answers; pprof is read here by its own rules.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::support::running;
use crate::truth::{ALL, SAMPLES, rows};

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
    let mut expected: Vec<String> = answer
        .iter()
        .map(|row| {
            format!(
                "{};{} {}",
                row["event"].as_str().unwrap(),
                row["path"].as_str().unwrap(),
                row["samples"]
            )
        })
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

    let profile = running.get(&format!("/api/v1/export/pprof?{ALL}")).await;
    assert_eq!(profile.content_type, "application/octet-stream");
    let profile = fields(&profile.body);
    let of = |field: u64| profile.iter().filter(move |(known, ..)| *known == field);
    let strings: Vec<&str> = of(6)
        .map(|(_, _, text)| std::str::from_utf8(text).unwrap())
        .collect();
    let text = |number: u64| strings[usize::try_from(number).unwrap()];
    assert_eq!(strings[0], "");
    let kinds: Vec<&str> = of(1).map(|(_, _, kind)| text(fields(kind)[0].1)).collect();
    assert_eq!(kinds, ["samples", "weight"]);
    let functions: BTreeMap<u64, &str> = of(5)
        .map(|(_, _, function)| (fields(function)[0].1, text(fields(function)[1].1)))
        .collect();
    let located: BTreeMap<u64, &str> = of(4)
        .map(|(_, _, location)| {
            let location = fields(location);
            (location[0].1, functions[&fields(location[1].2)[0].1])
        })
        .collect();
    let mut sums = (0, 0);
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
        assert_eq!(row["samples"], values[0]);
        sums = (sums.0 + values[0], sums.1 + values[1]);
    }
    assert_eq!(sums.0, SAMPLES);
    assert!((weight - sums.1 as f64).abs() < 1e-6);
    running.stop().await;
}
