//! Callers from copies of the stack: a program without frame pointers, whose calls are known, beside perf.

use crate::perf::{self, memwide};
use memwide_tests::programs::{Builder, C};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r"static volatile long sink;
__attribute__((noinline)) long spin(long n) {
    long s = 0;
    for (long i = 0; i < n; i++)
        s += i * i ^ s >> 3;
    return s;
}
__attribute__((noinline)) long inner(long n) {
    volatile char room[300];
    room[n % 300] = 1;
    return spin(n) + room[7];
}
__attribute__((noinline)) long outer(long n, int deep) {
    return deep ? outer(n, deep - 1) + 1 : inner(n) + 1;
}
int main(void) {
    for (int i = 0; i < 400; i++)
        sink += outer(400000, 3);
    return 0;
}
";

/// A recording with copies of the stack, or `None` (said loudly).
fn recorded(folder: &Path) -> Option<PathBuf> {
    let path = |name: &str| folder.join(name);
    let builder = Builder::within(folder, &[("calls.c", PROGRAM)]);
    builder.compile(
        C,
        "calls.c",
        "calls",
        &["-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"],
    )?;
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-e", "cpu-clock:u", "-c", "1000000"]);
    record.args(["--call-graph", "dwarf,4096", "-o"]);
    let output = record
        .arg(path("calls.data"))
        .arg("--")
        .arg(path("calls"))
        .output();
    if !output.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: perf cannot record here");
        return None;
    }
    Some(path("calls.data"))
}

/// Functions of each sample's chain, innermost first.
fn theirs(file: &Path) -> Vec<Vec<String>> {
    let args = ["script", "--no-inline", "-F", "comm,ip,sym"];
    let text = perf::perf(&args, file);
    let samples = text
        .split("\n\n")
        .filter(|sample| !sample.trim().is_empty());
    let function = |line: &str| {
        let (_, name) = line.trim().split_once(' ').unwrap();
        name.to_owned()
    };
    samples
        .map(|sample| sample.lines().skip(1).map(function).collect())
        .collect()
}

#[test]
fn callers_are_found_in_copies_of_the_stack() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = recorded(folder.path()) else {
        return;
    };
    let text = memwide(&["script", "--format", "ndjson"], &file);
    let samples: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names = |sample: &Value| -> Vec<String> {
        let frames = sample["callchain"].as_array().unwrap().iter();
        frames
            .map(|frame| frame["symbol"].as_str().unwrap_or("[unknown]").to_owned())
            .collect()
    };
    let ours: Vec<Vec<String>> = samples.iter().map(names).collect();
    let way = ["spin", "inner", "outer", "outer", "outer", "outer", "main"];
    let in_spin: Vec<usize> = (0..ours.len())
        .filter(|at| ours[*at][0] == "spin")
        .collect();
    assert!(
        in_spin.len() > 20,
        "{} of {} samples in spin",
        in_spin.len(),
        ours.len()
    );
    for at in in_spin {
        assert_eq!(ours[at][..way.len()], way, "sample {at}");
        assert_eq!(samples[at]["callchain_by"], "dwarf");
        assert_eq!(samples[at]["callchain_end"], "root");
    }
    let theirs = theirs(&file);
    assert_eq!(ours.len(), theirs.len());
    // perf gives up on some, for instance in the loader.
    let equal = ours
        .iter()
        .zip(&theirs)
        .filter(|(ours, theirs)| ours == theirs)
        .count();
    assert!(
        20 * equal >= 19 * ours.len(),
        "{equal} of {} are equal",
        ours.len()
    );
}

#[test]
fn trees_of_calls_are_made_of_unwound_chains_too() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = recorded(folder.path()) else {
        return;
    };
    let args = ["report", "--sort", "symbol", "-g", "--format", "json"];
    let document: Value = serde_json::from_str(&memwide(&args, &file)).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let spin = rows.iter().find(|row| row["symbol"] == "spin").unwrap();
    let caller = &spin["callers"][0];
    assert_eq!(caller["symbol"], "inner");
    assert_eq!(caller["samples"], spin["samples"]);
    assert_eq!(spin["without_callchain"]["samples"], 0);
}
