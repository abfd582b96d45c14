//! Names of addresses equal perf's, sample by sample, on files recorded here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test"
)]

use memwide_decoder::Mode;
use memwide_decoder::edge::FileSource;
use memwide_decoder::local::{LocalSample, LocalSession, Named};
use memwide_perf_abi::PerfFile;
use memwide_perf_abi::sample;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Runs perf; `None` with a loud word where it is not here or may not do that.
fn perf(arguments: &[&str]) -> Option<String> {
    let output = match Command::new("perf").args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: perf cannot be started: {error}");
            return None;
        }
    };
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        eprintln!("skipped: perf {} failed: {why}", arguments.join(" "));
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn write_named(out: &mut String, named: &Named<'_>) {
    match &named.symbol {
        Some(symbol) => write!(out, " {symbol}+{:#x}", named.symbol_offset).unwrap(),
        None => out.push_str(" [unknown]"),
    }
    write!(out, " ({})", named.dso).unwrap();
}

/// One line a sample and one a frame, as perf 6.1 has them, blanks squeezed.
fn ours(path: &Path) -> Vec<String> {
    let mut file = PerfFile::open(std::fs::File::open(path).unwrap()).unwrap();
    let source = FileSource::default();
    let mut session = LocalSession::new(file.events().clone(), file.features(), source);
    let mut lines = Vec::new();
    let mut records = file.sorted().unwrap();
    while let Some(record) = records.next().unwrap() {
        session.push(&record.record, record.event, |sample| {
            if sample.mode != Mode::Guest {
                put(&mut lines, sample);
            }
        });
    }
    lines
}

fn put(lines: &mut Vec<String>, sample: &LocalSample<'_>) {
    let time_us = sample.time_ns().unwrap_or(0) / 1000;
    let (seconds, micros) = (time_us / 1_000_000, time_us % 1_000_000);
    let (pid, tid) = (sample.pid().unwrap(), sample.tid().unwrap());
    let mut line = format!(
        "{} {}/{} {seconds}.{micros:06}: {}:",
        sample.comm,
        pid.cast_signed(),
        tid.cast_signed(),
        sample.event.name
    );
    if sample.event.attr.samples(sample::CALLCHAIN) {
        lines.push(line);
        for frame in sample.callchain() {
            let is_kernel = frame.ip > u64::MAX / 2;
            let ip = if is_kernel {
                frame.ip
            } else {
                frame.named.shown_address
            };
            let mut line = format!("{ip:x}");
            write_named(&mut line, &frame.named);
            lines.push(line);
        }
    } else {
        write!(line, " {:x}", sample.ip().unwrap()).unwrap();
        write_named(&mut line, &sample.code());
        lines.push(line);
    }
}

/// perf's lines with blanks squeezed; the id of a process is all that a name with blanks has in common.
fn squeezed(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

fn both(path: &Path) -> Option<(Vec<String>, Vec<String>)> {
    let name = path.to_str().unwrap();
    let fields = "comm,pid,tid,time,event,ip,sym,symoff,dso";
    let theirs = perf(&["script", "-i", name, "--no-inline", "-F", fields])?;
    let ours = ours(path);
    let ours = ours.iter().flat_map(|line| squeezed(line)).collect();
    Some((squeezed(&theirs), ours))
}

fn compare(path: &Path) {
    let Some((theirs, ours)) = both(path) else {
        return;
    };
    let differing: Vec<_> = theirs.iter().zip(&ours).filter(|(a, b)| a != b).collect();
    let shown: Vec<_> = differing.iter().take(10).collect();
    assert!(
        differing.is_empty() && theirs.len() == ours.len(),
        "{} of {} lines differ, {} of ours; perf's and ours: {shown:#?}",
        differing.len(),
        theirs.len(),
        ours.len()
    );
    assert!(theirs.len() > 50, "only {} lines to compare", theirs.len());
}

fn recorded(arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let file = path.to_str().unwrap();
    // Short-lived processes, and one that works in a library.
    let load = "for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; ls -lR /usr/lib >/dev/null 2>&1; sort -R /etc/services >/dev/null 2>&1; true";
    let mut all = vec!["record", "-q", "-o", file];
    all.extend(arguments);
    all.extend(["--", "/bin/sh", "-c", load]);
    if perf(&all).is_some() {
        compare(&path);
    }
}

#[test]
fn samples_are_named_as_perf_names_them() {
    recorded(&["-e", "cpu-clock", "-F", "2000"]);
}

#[test]
fn frames_of_callchains_are_named_as_perf_names_them() {
    recorded(&["-g", "-e", "cpu-clock", "-F", "2000"]);
}

#[test]
fn page_faults_are_named_as_perf_names_them() {
    recorded(&["-d", "-e", "minor-faults", "-c", "1"]);
}
