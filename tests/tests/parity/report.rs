//! Rows, counts and weights.

use crate::collection::folder;
use crate::perf::{self, NO_SYMBOLS, memwide};
use memwide_tests::generated::{self, Generated};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Rows of each event, as lines `samples perf_weight key | key …`, sorted.
type Rows = BTreeMap<String, Vec<String>>;

fn theirs(file: &Path, keys: &str, symbols: &[&str]) -> Rows {
    let fields = format!("sample,period,{keys}");
    let args = [
        "report",
        "--mem-mode",
        "--stdio",
        "-t",
        "\u{1}",
        "--percent-limit",
        "0",
        "-F",
        &fields,
    ];
    let text = perf::perf(&[&args[..], symbols].concat(), file);
    let mut rows = Rows::new();
    let mut event = None;
    for line in text.lines() {
        if let Some((_, name)) = line.split_once(" of event '") {
            event = Some(name.trim_end_matches('\'').to_owned());
        }
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let cells: Vec<&str> = line.split('\u{1}').map(str::trim).collect();
        let rows = rows
            .entry(event.clone().expect("an event's name comes first"))
            .or_default();
        rows.push(format!(
            "{} {} {}",
            cells[0],
            cells[1],
            cells[2..].join(" | ")
        ));
    }
    sorted(rows)
}

fn ours(file: &Path, keys: &str, symbols: &[&str]) -> Rows {
    let args = [
        "report",
        "--format",
        "json",
        "--sort",
        keys,
        "--by",
        "perf_weight",
    ];
    let text = memwide(&[&args[..], symbols].concat(), file);
    let document: Value = serde_json::from_str(&text).unwrap();
    let mut rows = Rows::new();
    for row in document["rows"].as_array().unwrap() {
        let cells: Vec<String> = keys
            .split(',')
            .map(|key| {
                let text = row[key]
                    .as_str()
                    .map_or_else(|| row[key].to_string(), str::to_owned);
                let mode = row[format!("{key}_mode")].as_str();
                mode.map_or_else(|| text.clone(), |mode| format!("[{mode}] {text}"))
            })
            .collect();
        let line = format!(
            "{} {} {}",
            row["samples"],
            row["perf_weight"],
            cells.join(" | ")
        );
        rows.entry(row["event"].as_str().unwrap().to_owned())
            .or_default()
            .push(line);
    }
    sorted(rows)
}

fn sorted(mut rows: Rows) -> Rows {
    for rows in rows.values_mut() {
        rows.sort_unstable();
    }
    rows
}

/// The first row that differs. perf cuts the last column where the line gets longer than its columns are wide.
fn difference(ours: &[String], theirs: &[String]) -> Option<String> {
    let same = |(ours, theirs): (&String, &String)| {
        ours == theirs || (theirs.len() > 12 && ours.starts_with(theirs.as_str()))
    };
    if let Some(at) = ours.iter().zip(theirs).position(|pair| !same(pair)) {
        return Some(format!(
            "row {at}: {:?}, perf has {:?}",
            ours[at], theirs[at]
        ));
    }
    (ours.len() != theirs.len()).then(|| format!("{} rows, perf has {}", ours.len(), theirs.len()))
}

/// Compares the rows of several sets of keys.
#[track_caller]
fn check(file: &Path, symbols: &[&str], more: &[&str]) {
    let mut compared = 0;
    let keys = [
        "symbol,mem",
        "symbol,dso,mem",
        "mem",
        "snoop",
        "tlb",
        "locked",
        "blocked",
        "local_weight",
        "comm,dso",
        "dso_daddr",
        "symbol_daddr",
        "mem,snoop,tlb,locked,blocked",
    ];
    for keys in keys.iter().chain(more) {
        let (theirs, ours) = (theirs(file, keys, symbols), ours(file, keys, symbols));
        let events: Vec<_> = theirs.keys().collect();
        assert_eq!(ours.keys().collect::<Vec<_>>(), events, "{keys}");
        for (event, theirs) in &theirs {
            let found = difference(&ours[event], theirs);
            assert_eq!(found, None, "{} --sort {keys}, {event}", file.display());
            compared += theirs.len();
        }
    }
    assert!(compared > 20, "only {compared} rows were compared");
}

#[test]
fn rows_of_real_memory_profiles_are_those_of_perf_report() {
    let Some(folder) = folder() else { return };
    if !perf::exists() {
        return;
    }
    for name in [
        "mem-intel-coffeelake-perfmem-loads-stores.data",
        "mem-intel-skylake-weight_struct-systemwide.data",
    ] {
        check(&folder.join(name), &NO_SYMBOLS, &["dcacheline"]);
    }
}

#[test]
fn rows_of_a_generated_file_are_those_of_perf_report() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("generated.data");
    generated::write(&file, &Generated::of_this_program(20_000));
    check(&file, &[], &[]);
}
