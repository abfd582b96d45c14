//! A recording of this machine under a small load: samples and symbols, of programs and the kernel.

use crate::perf::{self, difference, memwide};
use crate::script::first_difference;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A load with user and kernel work, short-lived processes and page faults.
const LOAD: &str = "for i in 1 2 3 4 5 6; do ls -lR /usr/lib > /dev/null 2>&1; head -c 20000000 /dev/zero | gzip -1 > /dev/null; done";

/// Records with perf itself; `false` if this machine does not let it.
fn record(to: &Path, args: &[&str]) -> bool {
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

/// `ip symbol+offset (dso)`, as perf prints it.
fn symbols(file: &Path) -> Vec<String> {
    let text = memwide(&["script", "--format", "ndjson"], file);
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let ip = line["ip"]
            .as_str()
            .unwrap()
            .trim_start_matches("0x")
            .to_owned();
        let dso = line["dso"].as_str().unwrap_or("[unknown]");
        match (line["symbol"].as_str(), &line["symbol_offset"]) {
            (Some(symbol), offset) => {
                format!("{ip} {symbol}+{:#x} ({dso})", offset.as_u64().unwrap())
            }
            (None, _) => format!("{ip} [unknown] ({dso})"),
        }
    };
    text.lines().map(|text| squeezed(&line(text))).collect()
}

/// One blank between words: names of C++ functions have some.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn perfs_symbols(file: &Path) -> Vec<String> {
    let text = perf::perf(
        &["script", "--no-itrace", "-G", "-F", "ip,sym,symoff,dso"],
        file,
    );
    text.lines().map(squeezed).collect()
}

#[test]
fn samples_and_symbols_of_this_machine_are_perfs() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("live.data");
    let mut wrong = Vec::new();
    for args in [
        &[
            "-a",
            "-e",
            "minor-faults,cpu-clock",
            "-c",
            "101",
            "-d",
            "--phys-data",
        ][..],
        &["-e", "cpu-clock", "-F", "1999", "-g"],
        &["-a", "-e", "minor-faults", "-c", "7", "-d", "-z"],
    ] {
        if !record(&file, args) {
            continue;
        }
        if let Some(found) = first_difference(&file) {
            wrong.push(format!("perf record {args:?}: {found}"));
        }
        let (ours, theirs) = (symbols(&file), perfs_symbols(&file));
        if let Some(found) = difference(&ours, &theirs) {
            wrong.push(format!("symbols, perf record {args:?}: {found}"));
        }
        assert!(ours.len() > 50, "only {} samples", ours.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
