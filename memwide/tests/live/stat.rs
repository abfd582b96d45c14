//! `memwide stat` beside `perf stat`.

use crate::run::{build, can_count, memwide, perf, text};
use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// Touches 3,000 pages, 1,000 of them in a child, and sleeps 40 times.
const SOURCE: &str = r"
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void touch(long pages) {
  char *p = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(p, pages * 4096, MADV_NOHUGEPAGE);
  for (long i = 0; i < pages; i++) p[i * 4096] = 1;
}
int main(int argc, char **argv) {
  struct timespec t = {0, 200000};
  touch(2000);
  if (fork() == 0) { touch(1000); _exit(0); }
  wait(0);
  for (int i = 0; i < 40; i++) nanosleep(&t, 0);
  return argc > 1 ? 7 : 0;
}
";
const EVENTS: &str =
    "page-faults,minor-faults,major-faults,context-switches,cpu-migrations,task-clock";

/// Counts by event of lines as `perf stat -x,` writes them.
fn counts(lines: &str) -> Vec<(String, f64)> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Some((fields.get(2)?.to_string(), fields.first()?.parse().ok()?))
    };
    lines.lines().filter_map(parse).collect()
}

fn count(all: &[(String, f64)], event: &str) -> f64 {
    let found = all.iter().find(|(name, _)| name == event);
    found.unwrap_or_else(|| panic!("no {event} in {all:?}")).1
}

fn program(folder: &Path) -> Option<String> {
    let path = build(folder, "program", SOURCE)?;
    can_count().then(|| path.to_string_lossy().into_owned())
}

#[test]
fn software_events_are_counted_as_perf_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else {
        return;
    };
    let ours = memwide(&["stat", "-x", ",", "-e", EVENTS, "--", &program]);
    let ours = counts(&text(&ours.stderr));
    let faults = count(&ours, "page-faults");
    assert!((3000.0..3400.0).contains(&faults), "{ours:?}");
    assert!(count(&ours, "context-switches") >= 40.0, "{ours:?}");
    assert!(count(&ours, "task-clock") > 0.0, "{ours:?}");
    let Some(output) = perf(&["stat", "-x", ",", "-e", EVENTS, "--", &program]) else {
        return;
    };
    let theirs = counts(&text(&output.stderr));
    let names =
        |all: &[(String, f64)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&theirs));
    // Where the stack begins is chance; so is what is already mapped.
    for event in ["page-faults", "minor-faults"] {
        let (ours, theirs) = (count(&ours, event), count(&theirs, event));
        assert!(
            (ours - theirs).abs() <= 8.0,
            "{event}: {ours}, perf {theirs}"
        );
    }
    assert!(count(&theirs, "context-switches") >= 40.0, "{theirs:?}");
}

#[test]
fn user_and_kernel_add_up_and_what_is_missing_is_named_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else {
        return;
    };
    let events = "page-faults,page-faults:u,page-faults:k,no_such_pmu/event=1/";
    let output = memwide(&[
        "stat", "--format", "json", "-e", events, "--", &program, "x",
    ]);
    assert_eq!(output.status.code(), Some(7), "the command's exit code");
    let said = text(&output.stderr);
    let found: Value =
        serde_json::from_str(&said).unwrap_or_else(|wrong| panic!("{wrong}: {said}"));
    let row = |at: usize| &found["rows"][at];
    let n = |at: usize| row(at)["count"].as_u64().unwrap();
    assert_eq!(n(0), n(1) + n(2), "{said}");
    assert!(row(0)["rate_low"].as_f64() < row(0)["rate"].as_f64());
    assert!(row(0)["running_share"].as_f64() >= Some(1.0));
    let kernel = n(2) as f64 / n(0) as f64;
    assert!((row(2)["related"]["value"].as_f64().unwrap() - kernel).abs() < 1e-9);
    assert_eq!(row(3)["count"], Value::Null);
    assert!(!row(3)["reason"].as_str().unwrap().is_empty());
    assert_eq!(found["not_counted"][0], "no_such_pmu/event=1/");
}

#[test]
fn a_misspelt_event_is_wrong_usage_and_those_like_it_are_named() {
    for (events, near) in [
        ("page-fautls", "`page-faults`"),
        ("page-faults,L1-dcache-load-miss", "`L1-dcache-load-misses`"),
        ("{page-faults,cylces}", "`cycles`"),
    ] {
        let output = memwide(&["stat", "-e", events, "--", "true"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(
            said.contains("no event is called") && said.contains(near),
            "{said}"
        );
    }
}

#[test]
fn what_tracefs_and_sysfs_do_not_know_is_misspelt() {
    let traced = Path::new("/sys/kernel/tracing/events/sched/sched_switch/id");
    let clock = Path::new("/sys/bus/event_source/devices/msr/events/tsc");
    for (there, event, near) in [
        (traced, "sched:sched_swich", "`sched:sched_switch`"),
        (traced, "shed:sched_switch:u", "`sched:sched_switch`"),
        (clock, "msr/tcs/", "`tsc`"),
        (clock, "msr/evnet=1/", "`event`"),
    ] {
        if std::fs::metadata(there).is_err() {
            eprintln!("skipped: {} is not here, or not for us", there.display());
            continue;
        }
        let output = memwide(&["stat", "-e", event, "--", "true"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{event}: {said}");
        assert!(
            said.contains("no event is called") && said.contains(near),
            "{event}: {said}"
        );
    }
    // What another CPU has is no mistake of whoever asks for it everywhere.
    for elsewhere in [
        "cpu/mem-loads,ldlat=30/P",
        "ibs_op//",
        "no_such_pmu/event=1/",
    ] {
        let output = memwide(&["stat", "-e", elsewhere, "--", "true"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{elsewhere}: {said}");
    }
}

#[test]
fn groups_count_what_perf_counts_with_groups() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else {
        return;
    };
    if !can_count() {
        return;
    }
    let events = "{page-faults,minor-faults}:u,task-clock";
    let output = memwide(&["stat", "--format", "json", "-e", events, "--", &program]);
    let said = text(&output.stderr);
    let found: Value =
        serde_json::from_str(&said).unwrap_or_else(|wrong| panic!("{wrong}: {said}"));
    let row = |at: usize| &found["rows"][at];
    assert_eq!(
        (&row(0)["group"], &row(1)["group"], &row(2)["group"]),
        (&1.into(), &1.into(), &Value::Null)
    );
    assert_eq!(row(0)["event"], "page-faults:u", "{said}");
    assert!(
        found["notes"].to_string().contains("counted together"),
        "{said}"
    );
    let own = row(1)["count"].as_f64().unwrap();
    let Some(output) = perf(&[
        "stat",
        "-x",
        ",",
        "-e",
        "{page-faults,minor-faults}:u",
        "--",
        &program,
    ]) else {
        return;
    };
    let said = text(&output.stderr);
    let line = said.lines().find(|line| line.contains("minor-faults"));
    let counted = line.and_then(|line| line.split(',').next()?.parse::<f64>().ok());
    let Some(counted) = counted else {
        eprintln!("skipped: perf counts no groups here: {said}");
        return;
    };
    // Pages of libraries that are in memory already differ from run to run.
    assert!(
        (own - counted).abs() <= 0.2 * counted + 40.0,
        "{own} here, {counted} there"
    );
}

#[test]
fn intervals_add_up_to_the_whole_and_runs_have_a_spread() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else {
        return;
    };
    let output = memwide(&[
        "stat",
        "-I",
        "5",
        "--format",
        "csv",
        "-e",
        "page-faults",
        "--",
        &program,
    ]);
    let said = text(&output.stderr);
    let mut lines = said.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("until_s,count,unit,event"),
        "{said}"
    );
    let values: Vec<f64> = lines
        .filter_map(|line| line.split(',').nth(1)?.parse().ok())
        .collect();
    let sum: f64 = values.iter().sum();
    assert!(
        values.len() > 1 && (3000.0..3400.0).contains(&sum),
        "{said}"
    );
    let output = memwide(&[
        "stat",
        "-r",
        "3",
        "--format",
        "json",
        "-e",
        "page-faults",
        "--",
        &program,
    ]);
    let found: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(found["runs"], 3);
    let row = &found["rows"][0];
    let mean = row["count"].as_f64().unwrap();
    assert!((3000.0..3400.0).contains(&mean), "{row}");
    assert!(row["count_low"].as_f64().unwrap() <= mean && row["relative_error"].is_number());
}

#[test]
fn files_of_perf_stat_record_are_read_as_perf_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else {
        return;
    };
    let file = folder.path().join("stat.data");
    let file = file.to_str().unwrap();
    for interval in [&["-I", "10"][..], &[]] {
        let events = ["-e", "page-faults,context-switches", "--", &program];
        let args = [&["stat", "record", "-o", file][..], interval, &events].concat();
        if perf(&args).is_none() {
            return;
        }
        let theirs = perf(&["stat", "report", "-i", file]).unwrap();
        let theirs = text(&theirs.stderr).replace(',', "");
        let ours = text(&memwide(&["stat", "-i", file, "-x", ","]).stdout);
        let words: Vec<Vec<&str>> = theirs
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let at = usize::from(!interval.is_empty());
        let theirs: Vec<(&str, &str)> = words
            .iter()
            .filter_map(|words| Some((*words.get(at)?, *words.get(at + 1)?)))
            .filter(|(_, event)| matches!(*event, "page-faults" | "context-switches"))
            .collect();
        let lines: Vec<Vec<&str>> = ours.lines().map(|line| line.split(',').collect()).collect();
        let ours: Vec<(&str, &str)> = lines
            .iter()
            .filter_map(|fields| Some((*fields.get(at)?, *fields.get(at + 2)?)))
            .map(|(count, event)| {
                (
                    count.trim_start_matches('<').split(' ').next().unwrap(),
                    event,
                )
            })
            .collect();
        // perf writes "<not counted>" in two words, which are not looked at here.
        let counted: Vec<_> = ours
            .iter()
            .filter(|(count, _)| *count != "not")
            .copied()
            .collect();
        assert!(!counted.is_empty(), "{ours:?}");
        assert_eq!(counted, theirs, "interval {interval:?}");
    }
}

#[test]
fn a_question_that_counts_nobody_is_refused_with_a_remedy() {
    let output = memwide(&["stat", "-e", "page-faults"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("name a command"));
    let output = memwide(&["stat", "-p", "2147483647"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no process 2147483647"));
    let output = memwide(&["stat", "-a", "-C", "5-2", "--timeout", "1"]);
    assert!(text(&output.stderr).contains("no list of CPUs"));
}

/// As a user without rights; `None`, said loudly, where that cannot be tried.
fn without_rights(args: &[&str]) -> Option<Output> {
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwide"));
        command.args(args).uid(65534).gid(65534).output()
    };
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let is_strict = paranoid.is_ok_and(|level| level.trim().parse().is_ok_and(|n: i32| n >= 2));
    if !is_strict || !run(&["--version"]).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: nobody here has fewer rights, or they cannot run the program");
        return None;
    }
    run(args).ok()
}

#[test]
fn without_rights_the_kernels_part_is_not_shown_as_nothing_and_no_part_twice() {
    let events = "page-faults,page-faults:u,page-faults:k,minor-faults";
    let args = ["stat", "--format", "json", "-e", events, "--", "true"];
    let Some(output) = without_rights(&args) else {
        return;
    };
    let said = text(&output.stderr);
    let found: Value = serde_json::from_str(&said).unwrap();
    let rows = found["rows"].as_array().unwrap();
    let counted: Vec<&str> = rows
        .iter()
        .filter(|row| !row["count"].is_null())
        .filter_map(|row| row["event"].as_str())
        .collect();
    assert_eq!(counted, ["page-faults:u", "minor-faults:u"], "{said}");
    let output = without_rights(&["stat", "-a", "-e", "page-faults", "--timeout", "50"]).unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("none of the events was counted"), "{said}");
}
