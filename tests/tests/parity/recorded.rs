//! A recording of this machine under a small load: samples and symbols, of programs and the kernel.

use crate::perf::{self, difference, memwide};
use crate::script::first_difference;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A load with user and kernel work, short-lived processes and page faults.
const LOAD: &str = "for i in 1 2 3; do ls -lR /usr/lib > /dev/null 2>&1; head -c 20000000 /dev/zero | gzip -1 > /dev/null; done";

/// Records with perf itself; `false` if this machine does not let it.
pub(crate) fn record(to: &Path, args: &[&str]) -> bool {
    let output = Command::new("perf")
        .args(["record", "-q", "-o"])
        .arg(to)
        .args(args)
        .args(["--", "sh", "-c", LOAD])
        .output()
        .unwrap();
    if !output.status.success() {
        eprintln!(
            "skipped: perf record {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    output.status.success()
}

/// Programs of the load. Others are not compared: of functions that share one body, as in compilers, perf may name another.
const PROGRAMS: [&str; 5] = ["sh", "ls", "head", "gzip", "dash"];

/// `comm ip symbol+offset (dso)` of the load's samples, as perf prints it.
fn symbols(file: &Path) -> Vec<String> {
    let text = memwide(&["script", "--format", "ndjson"], file);
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str();
        let (comm, ip) = (text("comm").unwrap(), text("ip").unwrap());
        let symbol = text("symbol").map_or_else(
            || "[unknown]".to_owned(),
            |symbol| format!("{symbol}+{:#x}", line["symbol_offset"].as_u64().unwrap()),
        );
        let dso = text("dso").unwrap_or("[unknown]");
        format!("{comm} {} {symbol} ({dso})", ip.trim_start_matches("0x"))
    };
    of_load(text.lines().map(line))
}

fn perfs_symbols(file: &Path) -> Vec<String> {
    let fields = "comm,ip,sym,symoff,dso";
    let text = perf::perf(&["script", "--no-itrace", "-G", "-F", fields], file);
    of_load(text.lines().map(str::to_owned))
}

/// Lines of the load, one blank between words: names of C++ functions have some.
fn of_load(lines: impl Iterator<Item = String>) -> Vec<String> {
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| PROGRAMS.contains(&line.split(' ').next().unwrap_or_default()))
        .collect()
}

#[test]
fn samples_and_symbols_of_this_machine_are_perfs() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("live.data");
    let both = "minor-faults/period=7/,cpu-clock/period=500009/";
    let mut wrong = Vec::new();
    for args in [
        &["-a", "-e", both, "-d", "--phys-data"][..],
        &["-e", "cpu-clock", "-F", "1999", "-g"],
        &["-a", "-e", "minor-faults", "-c", "7", "-d", "-z"],
    ] {
        if !record(&file, args) || perf::dies(&file) {
            continue;
        }
        if let Some(found) = first_difference(&file) {
            wrong.push(format!("perf record {args:?}: {found}"));
        }
        let (ours, theirs) = (symbols(&file), perfs_symbols(&file));
        if let Some(found) = difference(&ours, &theirs) {
            wrong.push(format!("symbols, perf record {args:?}: {found}"));
        }
        assert!(
            ours.len() > 50,
            "perf record {args:?}: only {} samples",
            ours.len()
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Options that change what records hold or how files are written.
const UNUSUAL: [&[&str]; 5] = [
    &[
        "-e",
        "{cpu-clock,minor-faults}:S",
        "-d",
        "--switch-events",
        "-s",
    ],
    &[
        "-e",
        "minor-faults",
        "-c",
        "7",
        "-W",
        "-d",
        "--phys-data",
        "--data-page-size",
        "--code-page-size",
    ],
    &[
        "-e",
        "cpu-clock",
        "--all-cgroups",
        "--transaction",
        "--intr-regs=ip",
        "--user-regs=ip,sp",
    ],
    &[
        "-e",
        "sched:sched_switch",
        "-e",
        "minor-faults:u",
        "-c",
        "5",
        "-k",
        "CLOCK_MONOTONIC",
    ],
    &[
        "-e",
        "minor-faults,cpu-clock",
        "-d",
        "--aio",
        "--tail-synthesize",
        "--sample-identifier",
    ],
];

#[test]
fn samples_recorded_with_unusual_options_are_perfs() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("live.data");
    let mut wrong = Vec::new();
    for args in UNUSUAL {
        if !record(&file, args) || perf::dies(&file) {
            continue;
        }
        if let Some(found) = first_difference(&file) {
            wrong.push(format!("perf record {args:?}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_directory_that_perf_wrote_with_several_threads_is_read_as_perf_reads_it() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("live.dir");
    for more in [&[][..], &["-z"]] {
        let args = [
            &["--threads", "-e", "minor-faults,cpu-clock", "-d"][..],
            more,
        ]
        .concat();
        if !record(&directory, &args) || perf::dies(&directory) {
            continue;
        }
        let (ours, theirs) = (symbols(&directory), perfs_symbols(&directory));
        assert_eq!(difference(&ours, &theirs), None, "perf record {args:?}");
        assert!(ours.len() > 50, "only {} samples", ours.len());
    }
}
