//! What `memwide record` writes, read by perf and by memwide: the same samples.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

use memwide_perf_abi::{PerfFile, kind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;

const LOAD: &str = "for i in 1 2; do ls -lR /usr/lib/os-release /etc > /dev/null 2>&1; head -c 1000000 /dev/zero | gzip -1 > /dev/null; done";

fn perf_exists() -> bool {
    let version = Command::new("perf").arg("--version").output();
    let exists = version.is_ok_and(|output| output.status.success());
    if !exists {
        eprintln!("skipped: there is no perf to compare with");
    }
    exists
}

/// Records the load; `false` where the kernel does not let it be.
fn record(to: &Path, args: &[&str]) -> bool {
    let mut command = Command::new(memwide_tests::memwide());
    command
        .args(["record", "-o"])
        .arg(to)
        .args(args)
        .args(["--", "sh", "-c", LOAD]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let reasons = [
            "not permitted",
            "without perf events",
            "tracing file system",
            "may not be read",
        ];
        assert!(
            reasons.iter().any(|reason| said.contains(reason)),
            "{args:?}: {said}"
        );
        eprintln!("skipped: memwide record {args:?}: {said}");
    }
    output.status.success()
}

/// `pid/tid [cpu] time: event: ip`, as perf prints it.
fn ours(file: &Path) -> Vec<String> {
    let output = Command::new(memwide_tests::memwide())
        // Symbols are compared elsewhere; looking for them takes most of the time.
        .args([
            "script",
            "--symfs",
            "/sys/kernel",
            "--kallsyms",
            "/dev/null",
        ])
        .args(["--format", "ndjson", "-i"])
        .arg(file)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let time = line["time_ns"].as_u64().unwrap();
        format!(
            "{}/{} [{:03}] {}.{:09}: {}: {}",
            line["pid"],
            line["tid"],
            line["cpu"].as_u64().unwrap(),
            time / 1_000_000_000,
            time % 1_000_000_000,
            line["event"].as_str().unwrap(),
            line["ip"].as_str().unwrap().trim_start_matches("0x"),
        )
    };
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(line)
        .collect()
}

/// The lines, and what perf complained about.
fn perfs(file: &Path) -> (Vec<String>, String) {
    let output = Command::new("perf")
        .args([
            "script",
            "--no-itrace",
            "--ns",
            "-G",
            "-f",
            "-F",
            "pid,tid,cpu,time,event,ip",
            "-i",
        ])
        .arg(file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    (lines.collect(), said)
}

/// Samples by event, of the records themselves.
fn counts(file: &Path) -> BTreeMap<String, usize> {
    let mut file = PerfFile::open(File::open(file).unwrap()).unwrap();
    let events = std::sync::Arc::clone(file.events());
    let mut counts = BTreeMap::new();
    let mut records = file.records().unwrap();
    while let Some(item) = records.next().unwrap() {
        if let (kind::SAMPLE, Some(event)) = (item.record.kind, item.event) {
            *counts
                .entry(events.events()[event].name.clone())
                .or_default() += 1;
        }
    }
    counts
}

/// Records of losses in a file.
fn lost(file: &Path) -> usize {
    let mut file = PerfFile::open(File::open(file).unwrap()).unwrap();
    let mut records = file.records().unwrap();
    let mut lost = 0;
    while let Some(item) = records.next().unwrap() {
        lost += usize::from(matches!(item.record.kind, kind::LOST | kind::LOST_SAMPLES));
    }
    lost
}

/// A line of what perf says when a file tells of losses.
fn is_of_losses(line: &str) -> bool {
    let known = ["Warning:", "Processed ", "Check IO/CPU overload!"];
    line.is_empty() || known.iter().any(|start| line.starts_with(start))
}

#[test]
fn perf_reads_the_same_samples_in_the_same_order() {
    if !perf_exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.data");
    for args in [
        &[][..],
        &["-g", "-c", "7", "-e", "minor-faults,cpu-clock"],
        &["-a", "-e", "minor-faults", "-e", "cpu-clock"],
        &["-a", "-g", "-e", "sched:sched_switch,minor-faults"],
        &["-e", "kmem:kmalloc,major-faults,minor-faults"],
    ] {
        if !record(&file, args) {
            continue;
        }
        let (ours, (theirs, complaints)) = (ours(&file), perfs(&file));
        let others = complaints.lines().filter(|line| !is_of_losses(line));
        let others = others.collect::<Vec<_>>();
        assert!(others.is_empty(), "perf complains of {args:?}: {others:?}");
        // A busy machine loses some, which the file has to say.
        let says_lost = complaints.contains("lost");
        assert!(!says_lost || lost(&file) > 0, "{args:?}: {complaints}");
        assert!(ours.len() > 100, "{args:?}: only {} samples", ours.len());
        let differs = ours
            .iter()
            .zip(&theirs)
            .position(|(ours, theirs)| ours != theirs);
        if let Some(at) = differs {
            panic!(
                "{args:?}, line {at}: {:?}, perf has {:?}",
                ours[at], theirs[at]
            );
        }
        let counts = counts(&file);
        let all: usize = counts.values().sum();
        assert_eq!(
            (ours.len(), theirs.len()),
            (all, all),
            "{args:?}: {counts:?}"
        );
    }
}

#[test]
fn perf_finds_build_ids_and_the_wall_clock() {
    if !perf_exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("header.data");
    if !record(&file, &["-e", "minor-faults"]) {
        return;
    }
    let perf = |args: &[&str]| {
        let output = Command::new("perf")
            .args(args)
            .arg("-f")
            .arg("-i")
            .arg(&file)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let listed = perf(&["buildid-list"]);
    assert!(
        listed.contains("/ls\n") && listed.contains("libc.so"),
        "{listed}"
    );
    let times = perf(&["script", "-F", "tod"]);
    let year = |line: &str| {
        line.trim()
            .split('-')
            .next()
            .and_then(|year| year.parse::<u32>().ok())
    };
    assert!(times.lines().count() > 100);
    assert!(
        times
            .lines()
            .all(|line| year(line).is_some_and(|year| year >= 2024)),
        "{times}"
    );
    let header = perf(&["report", "--header-only"]);
    for part in ["# hostname : ", "# cmdline : ", "name = minor-faults"] {
        assert!(header.contains(part), "{header}");
    }
}
