//! `memwide report` and `memwide script` beside perf on the same generated files. Prints CPU seconds (user and system, all
//! threads of the process) pinned to one core, the lowest of several runs taken in turn, and the ratio; the most memory
//! resident; and the seconds by the clock on all cores, which perf uses one of.
//!
//! ```text
//! make bench                                        2 M samples, 1 M with 16 frames
//! MEMWIDE_BENCH_SAMPLES=200000 make bench           smaller files
//! MEMWIDE_BENCH_GB=10 make bench                    a file of 10 GB too, in the folder for temporary files (TMPDIR)
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints what it measured, and stops at the first surprise"
)]

use memwide_tests::generated::{self, Generated};
use memwide_tests::measured::measure;
use memwide_tests::memwide;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs of each program; the lowest counts, as noise only adds.
const RUNS: usize = 3;

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
        ..wanted.clone()
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
    print_head();
    for row in rows {
        measure_row(&row, has_perf, RUNS);
    }
    let gigabytes = std::env::var("MEMWIDE_BENCH_GB").ok();
    if let Some(gigabytes) = gigabytes.and_then(|text| text.parse::<u64>().ok()) {
        measure_large(folder.path(), &wanted, gigabytes, has_perf);
    }
}

/// A file of so many gigabytes: memory is what it is about.
fn measure_large(folder: &Path, wanted: &Generated, gigabytes: u64, has_perf: bool) {
    let probe = folder.join("probe.data");
    let short = Generated {
        samples: 100_000,
        ..wanted.clone()
    };
    generated::write(&probe, &short);
    let bytes = std::fs::metadata(&probe).unwrap().len();
    let samples = gigabytes * 1_000_000_000 / bytes * short.samples;
    let large = folder.join("large.data");
    let long = Generated {
        samples,
        ..wanted.clone()
    };
    generated::write(&large, &long);
    let row = Row {
        what: "report symbol,mem, large",
        file: large,
        samples,
        ours: vec!["report", "--sort", "symbol,mem", "--limit", "100000"],
        theirs: vec!["mem", "report", "--sort=symbol,mem", "--stdio"],
        target: 10.0,
    };
    measure_row(&row, has_perf, 1);
}

fn print_head() {
    println!(
        "{:<26} {:>8} {:>8} {:>8} {:>6} {:>6} | {:>7} {:>7} | {:>8} {:>8}",
        "", "one core", "CPU s", "M/s", "", "", "memory", "MiB", "all", "cores"
    );
    println!(
        "{:<26} {:>8} {:>8} {:>8} {:>6} {:>6} | {:>7} {:>7} | {:>8} {:>8}",
        "", "memwide", "perf", "memwide", "ratio", "target", "memwide", "perf", "memwide", "ratio"
    );
}

fn measure_row(row: &Row, has_perf: bool, runs: usize) {
    let (mut ours, mut theirs, mut wall) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    let (mut peak, mut their_peak) = (0, 0);
    for _ in 0..runs {
        let one = measure(&memwide(), &row.ours, &row.file, Some("0"));
        ours = ours.min(one.cpu);
        peak = peak.max(one.peak);
        wall = wall.min(measure(&memwide(), &row.ours, &row.file, None).wall);
        if has_perf {
            let perf = measure(Path::new("perf"), &row.theirs, &row.file, Some("0"));
            theirs = theirs.min(perf.cpu);
            their_peak = their_peak.max(perf.peak);
        }
    }
    let rate = row.samples as f64 / ours / 1e6;
    let (ratio, on_all) = (theirs / ours, theirs / wall);
    let miss = if ratio < row.target { " missed" } else { "" };
    println!(
        "{:<26} {ours:>8.2} {theirs:>8.2} {rate:>8.2} {ratio:>6.1} {:>6.0} | {peak:>7} {their_peak:>7} | {wall:>8.2} \
         {on_all:>8.1}{miss}",
        row.what, row.target
    );
}
