//! `memwide flamegraph --folded` beside what `perf script` prints, collapsed here.

use crate::collection::folder;
use crate::perf::{self, NO_SYMBOLS, difference, memwide};
use crate::recorded::record;
use std::collections::BTreeMap;
use std::path::Path;

/// perf's samples as `comm;outermost;…;innermost count`, frames without a symbol as `[object]`.
fn collapsed(file: &Path, symbols: &[&str]) -> Vec<String> {
    let args = [
        "script",
        "--no-itrace",
        "--no-inline",
        "-F",
        "comm,ip,sym,dso",
    ];
    let text = perf::perf(&[&args[..], symbols].concat(), file);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for sample in text.split("\n\n") {
        let mut lines = sample.lines();
        let Some(comm) = lines.next().filter(|comm| !comm.trim().is_empty()) else {
            continue;
        };
        let mut frames: Vec<String> = lines.map(frame).collect();
        frames.push(comm.trim().replace(';', ":"));
        frames.reverse();
        *counts.entry(frames.join(";")).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(path, n)| format!("{path} {n}"))
        .collect()
}

fn frame(line: &str) -> String {
    let (_, rest) = line.trim().split_once(' ').unwrap();
    let (symbol, dso) = rest.rsplit_once(" (").unwrap();
    let dso = dso.trim_end_matches(')').rsplit('/').next().unwrap();
    match symbol {
        "[unknown]" if dso.starts_with('[') => dso.to_owned(),
        "[unknown]" => format!("[{dso}]"),
        symbol => symbol.replace(';', ":"),
    }
}

#[track_caller]
fn check(file: &Path, symbols: &[&str]) {
    let ours = memwide(
        &[&["flamegraph", "--folded", "--no-inline"], symbols].concat(),
        file,
    );
    let mut ours: Vec<String> = ours.lines().map(str::to_owned).collect();
    let mut theirs = collapsed(file, symbols);
    ours.sort_unstable();
    theirs.sort_unstable();
    assert!(theirs.len() > 5, "only {} paths", theirs.len());
    assert_eq!(difference(&ours, &theirs), None, "{}", file.display());
}

#[test]
fn folded_stacks_of_a_real_recording_are_perfs() {
    let Some(folder) = folder() else { return };
    if perf::exists() {
        check(&folder.join("big-callchain-48k-samples.data"), &NO_SYMBOLS);
    }
}

#[test]
fn folded_stacks_of_this_machine_are_perfs() {
    if !perf::exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("live.data");
    if record(&file, &["-e", "cpu-clock:k", "-F", "999", "-g"]) && !perf::dies(&file) {
        check(&file, &[]);
    }
}
