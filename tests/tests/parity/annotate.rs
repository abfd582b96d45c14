//! Shares of instructions beside `perf annotate`, sums beside `memwide report`.

use crate::perf::{self, memwide};
use crate::source::recorded;
use memwide_tests::generated::{self, Generated};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn annotated(file: &Path, args: &[&str]) -> Value {
    let all = [&["annotate", "--format", "json"][..], args].concat();
    serde_json::from_str(&memwide(&all, file)).unwrap()
}

fn list<'a>(of: &'a Value, name: &str) -> &'a Vec<Value> {
    of[name].as_array().unwrap()
}

/// Percent by address, of instructions that have some.
fn theirs(file: &Path, symbol: &str) -> BTreeMap<u64, f64> {
    let text = perf::perf(&["annotate", "--stdio", "-s", symbol], file);
    let rows = text.lines().filter_map(|line| {
        let mut parts = line.split(':');
        let percent: f64 = parts.next()?.trim().parse().ok()?;
        let address = u64::from_str_radix(parts.next()?.trim(), 16).ok()?;
        (percent > 0.0).then_some((address, percent))
    });
    rows.collect()
}

#[test]
fn shares_and_instructions_are_those_of_perf_annotate() {
    let folder = tempfile::tempdir().unwrap();
    if !perf::exists() {
        return;
    }
    let Some(file) = recorded(folder.path()) else {
        return;
    };
    let theirs = theirs(&file, "work");
    if theirs.is_empty() {
        eprintln!("skipped: perf annotates nothing here (it needs objdump)");
        return;
    }
    let answer = annotated(&file, &["--by", "period", "--full", "work"]);
    let function = &list(&answer, "functions")[0];
    let mut ours = BTreeMap::new();
    for row in list(function, "instructions") {
        assert_ne!(row["instruction"], "", "the code is here");
        let address = row["address"].as_str().unwrap().trim_start_matches("0x");
        let percent = 100.0 * row["share"].as_f64().unwrap();
        if percent > 0.0 {
            ours.insert(u64::from_str_radix(address, 16).unwrap(), percent);
        }
    }
    assert_eq!(
        ours.keys().collect::<Vec<_>>(),
        theirs.keys().collect::<Vec<_>>()
    );
    for (address, percent) in &theirs {
        let difference = (ours[address] - percent).abs();
        assert!(
            difference < 0.006,
            "{address:x}: {} against {percent}",
            ours[address]
        );
    }
    let lines = list(function, "lines");
    let hot = lines
        .iter()
        .filter(|line| line["file"].as_str().is_some_and(|f| f.ends_with("/hot.c")));
    assert!(hot.clone().count() > 0, "{lines:?}");
    assert!(
        hot.clone().any(|line| line["text"] == "s += p[i] * 3;"),
        "{lines:?}"
    );
}

#[test]
fn instructions_lines_and_levels_sum_up_to_the_samples_of_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("generated.data");
    generated::write(&file, &Generated::of_this_program(5_000));
    let report = memwide(
        &["report", "--format", "json", "--sort", "symbol,dso"],
        &file,
    );
    let report: Value = serde_json::from_str(&report).unwrap();
    let answer = annotated(&file, &["--limit", "100000"]);
    let mut by_function: BTreeMap<(String, String), u64> = BTreeMap::new();
    for function in list(&answer, "functions") {
        let samples = function["samples"].as_u64().unwrap();
        let sum = |name: &str| -> u64 {
            list(function, name)
                .iter()
                .map(|row| row["samples"].as_u64().unwrap())
                .sum()
        };
        assert_eq!(
            (sum("lines"), sum("instructions")),
            (samples, samples),
            "{function}"
        );
        let served = function["served"].as_object().unwrap().values();
        assert_eq!(
            served.map(|count| count.as_u64().unwrap()).sum::<u64>(),
            samples
        );
        let text = |name: &str| function[name].as_str().unwrap().to_owned();
        *by_function
            .entry((text("event"), text("symbol")))
            .or_default() += samples;
    }
    assert!(by_function.len() > 3, "{by_function:?}");
    let mut reported: BTreeMap<(String, String), u64> = BTreeMap::new();
    for row in list(&report, "rows") {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let key = (text("event"), text("symbol"));
        if by_function.contains_key(&key) {
            *reported.entry(key).or_default() += row["samples"].as_u64().unwrap();
        }
    }
    assert_eq!(by_function, reported);
}
