//! Lines of the source, on a program compiled and recorded here.

use crate::perf::{self, memwide};
use memwide_tests::programs::{Builder, C};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r"#include <stdlib.h>
static volatile long sink;
static inline __attribute__((always_inline)) long leaf(const long *p, long n) {
    long s = 0;
    for (long i = 0; i < n; i++)
        s += p[i] * 3;
    return s;
}
__attribute__((noinline)) long work(const long *p, long n) {
    return leaf(p, n) ^ 5;
}
int main(void) {
    long *p = calloc(1 << 16, 8);
    for (int i = 0; i < 3000; i++)
        sink += work(p, 1 << 16);
    return 0;
}
";

/// A recording of the program with perf, or `None` (said loudly).
pub(crate) fn recorded(folder: &Path) -> Option<PathBuf> {
    let path = |name: &str| folder.join(name);
    let builder = Builder::within(folder, &[("hot.c", PROGRAM)]);
    builder.compile(C, "hot.c", "hot", &["-g", "-O1"])?;
    let mut record = Command::new("perf");
    record.args([
        "record",
        "-q",
        "-e",
        "cpu-clock:u",
        "-c",
        "500000",
        "-g",
        "-o",
    ]);
    let output = record
        .arg(path("hot.data"))
        .arg("--")
        .arg(path("hot"))
        .output();
    if !output.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: perf cannot record here");
        return None;
    }
    Some(path("hot.data"))
}

/// Samples by source line or file. Where perf says `??` we name the place.
fn theirs(file: &Path, key: &str) -> BTreeMap<String, u64> {
    let fields = format!("sample,{key}");
    let args = [
        "report",
        "--stdio",
        "--no-children",
        "-g",
        "none",
        "-t",
        "\u{1}",
        "-F",
        &fields,
    ];
    let text = perf::perf(&args, file);
    let rows = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    rows.filter_map(|line| {
        let (samples, key) = line.split_once('\u{1}')?;
        Some((key.trim().to_owned(), samples.trim().parse().ok()?))
    })
    .filter(|(key, _)| !key.starts_with("??"))
    .collect()
}

fn ours(file: &Path, key: &str) -> BTreeMap<String, u64> {
    let text = memwide(&["report", "--format", "json", "--sort", key], file);
    let document: Value = serde_json::from_str(&text).unwrap();
    let rows = document["rows"].as_array().unwrap().iter();
    rows.map(|row| {
        (
            row[key].as_str().unwrap().to_owned(),
            row["samples"].as_u64().unwrap(),
        )
    })
    .collect()
}

#[test]
fn source_lines_and_files_are_those_of_perf_report() {
    let folder = tempfile::tempdir().unwrap();
    if !perf::exists() {
        return;
    }
    let Some(file) = recorded(folder.path()) else {
        return;
    };
    for key in ["srcline", "srcfile"] {
        let (theirs, ours) = (theirs(&file, key), ours(&file, key));
        for (line, samples) in &theirs {
            assert_eq!(ours.get(line), Some(samples), "{key} {line}: {ours:?}");
        }
        let hot = theirs.iter().filter(|(line, _)| line.starts_with("hot.c"));
        assert!(
            hot.map(|(_, samples)| samples).sum::<u64>() > 50,
            "{theirs:?}"
        );
    }
}

#[test]
fn inlined_functions_stand_in_callchains_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    if !perf::exists() {
        return;
    }
    let Some(file) = recorded(folder.path()) else {
        return;
    };
    let script = |more: &[&str]| {
        let text = memwide(
            &[&["script", "--format", "ndjson"][..], more].concat(),
            &file,
        );
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        lines
    };
    let chains = |lines: &[Value]| {
        let chain = |line: &Value| -> Vec<String> {
            let frames = line["callchain"].as_array().unwrap().iter();
            frames
                .map(|frame| frame["symbol"].as_str().unwrap_or("?").to_owned())
                .collect()
        };
        lines.iter().map(chain).collect::<Vec<_>>()
    };
    let plain = script(&[]);
    assert!(plain.iter().all(|line| line.get("source").is_none()));
    assert!(!chains(&plain).concat().contains(&"leaf".to_owned()));
    let full = script(&["-F", "+srcline,+inline"]);
    let inlined = chains(&full);
    let hot = inlined
        .iter()
        .filter(|chain| chain.starts_with(&["leaf".to_owned(), "work".to_owned()]));
    assert!(hot.count() * 2 > inlined.len(), "{inlined:?}");
    let lines = full.iter().filter_map(|line| line["srcline"].as_str());
    assert!(
        lines
            .filter(|line| *line == "hot.c:6" || *line == "hot.c:5")
            .count()
            * 2
            > full.len()
    );
}
