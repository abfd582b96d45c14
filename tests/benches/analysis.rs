//! `memwide report` and `memwide script` beside perf on the same generated files. Prints CPU seconds (user and system, all
//! threads of the process), the lowest of several runs taken in turn, and the ratio; pinned to one core.
//!
//! ```text
//! make bench                                        2 M samples, 1 M with 16 frames
//! MEMWIDE_BENCH_SAMPLES=200000 make bench           smaller files
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints what it measured, and stops at the first surprise"
)]

use memwide_tests::generated::{self, Generated};
use memwide_tests::memwide;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs of each program; the lowest counts, as noise only adds.
const RUNS: usize = 3;

/// Clock ticks of `/proc/self/stat` in a second: 100 on every Linux (`USER_HZ`).
const TICKS: f64 = 100.0;

struct Row {
    what: &'static str,
    file: PathBuf,
    samples: u64,
    ours: Vec<&'static str>,
    theirs: Vec<&'static str>,
    /// perf's seconds ÷ ours, at least.
    target: f64,
}

fn main() {
    let samples = std::env::var("MEMWIDE_BENCH_SAMPLES").ok();
    let samples: u64 = samples
        .and_then(|text| text.parse().ok())
        .unwrap_or(2_000_000);
    let has_perf = Command::new("perf").arg("--version").output().is_ok();
    if !has_perf {
        println!("there is no perf here to compare with: install it (Debian: linux-perf)");
    }
    let folder = tempfile::tempdir().unwrap();
    let flat = folder.path().join("flat.data");
    let stacked = folder.path().join("stacked.data");
    let wanted = Generated {
        samples,
        program: memwide(),
        processes: 16,
        symbols: 20_000,
        frames: 0,
        skewed: true,
    };
    generated::write(&flat, &wanted);
    let with_frames = Generated {
        samples: samples / 2,
        frames: 16,
        ..wanted
    };
    generated::write(&stacked, &with_frames);
    let rows = [
        Row {
            what: "report symbol,mem",
            file: flat.clone(),
            samples,
            ours: vec!["report", "--sort", "symbol,mem", "--limit", "100000"],
            theirs: vec!["mem", "report", "--sort=symbol,mem", "--stdio"],
            target: 10.0,
        },
        Row {
            what: "script, text",
            file: flat.clone(),
            samples,
            ours: vec!["script", "--format", "text"],
            theirs: vec!["script", "--no-itrace"],
            target: 4.0,
        },
        Row {
            what: "script, ndjson",
            file: flat,
            samples,
            ours: vec!["script", "--format", "ndjson"],
            theirs: vec!["script", "--no-itrace"],
            target: 4.0,
        },
        Row {
            what: "script, ndjson, 16 frames",
            file: stacked.clone(),
            samples: samples / 2,
            ours: vec!["script", "--format", "ndjson"],
            theirs: vec!["script", "--no-itrace"],
            target: 4.0,
        },
        Row {
            what: "report, trees of 16 frames",
            file: stacked,
            samples: samples / 2,
            ours: vec![
                "report", "--sort", "symbol", "--by", "period", "-g", "--limit", "100000",
            ],
            theirs: vec!["report", "--no-children", "--sort=symbol", "--stdio"],
            target: 12.0,
        },
    ];
    println!(
        "{:<26} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8}",
        "one core, CPU seconds", "memwide", "perf", "M/s", "MiB", "ratio", "target"
    );
    for row in rows {
        measure(&row, has_perf);
    }
}

fn measure(row: &Row, has_perf: bool) {
    let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
    let mut peak = 0;
    for _ in 0..RUNS {
        let (seconds, memory) = run(&memwide(), &row.ours, &row.file);
        ours = ours.min(seconds);
        peak = peak.max(memory);
        if has_perf {
            theirs = theirs.min(run(Path::new("perf"), &row.theirs, &row.file).0);
        }
    }
    let rate = row.samples as f64 / ours / 1e6;
    let ratio = theirs / ours;
    let miss = if ratio < row.target { " missed" } else { "" };
    println!(
        "{:<26} {ours:>10.2} {theirs:>10.2} {rate:>10.2} {peak:>8} {ratio:>8.1} {:>8.0}{miss}",
        row.what, row.target
    );
}

/// CPU seconds of a program that reads a file, and the most memory it had (MiB, resident).
fn run(program: &Path, arguments: &[&str], file: &Path) -> (f64, u64) {
    let before = waited_for();
    let mut child = Command::new("taskset")
        .args(["-c", "0"])
        .arg(program)
        .args(arguments)
        .arg("-i")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        peak = peak.max(status.ok().and_then(|text| high_water(&text)).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(
                status.success(),
                "{} {arguments:?}: {status}",
                program.display()
            );
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    (waited_for() - before, peak / 1024)
}

/// `VmHWM` in KiB.
fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// CPU seconds of all children waited for (`cutime` and `cstime` of `/proc/self/stat`).
fn waited_for() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    // The state is field 3 and the first here.
    let ticks = |number: usize| fields[number - 3].parse::<f64>().unwrap();
    (ticks(16) + ticks(17)) / TICKS
}
