//! A recording that went through the pipeline and out of it again says the same to perf as the recording itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a helper of a test fails the test, and says what it skips"
)]

use memwide_tests::programs::{Builder, C};
use memwide_tests::{Up, UpOptions, memwide, tools_missing, until};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const STORED_WITHIN: Duration = Duration::from_mins(2);

const PROGRAM: &str = r"
__attribute__((noinline)) long spin(long n) { volatile long x = 0; for (long i = 0; i < n; i++) x += i; return x; }
__attribute__((noinline)) long outer(long n) { return spin(n) + spin(n / 2); }
int main(void) { long x = 0; for (int i = 0; i < 200; i++) x += outer(400000); return x == 1; }
";

/// Lines of `perf report` without its header.
fn report(args: &[&str], file: &Path) -> Vec<String> {
    let output = Command::new("perf")
        .args(["report", "--stdio", "-g", "none"])
        .args(args)
        .arg("-f")
        .arg("-i")
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn perf_reports_the_same_of_a_recording_before_and_after_the_store() {
    let builder = Builder::new(&[("a.c", PROGRAM)]);
    let args = ["-O1", "-fno-omit-frame-pointer", "-Wl,--build-id"];
    if builder.compile(C, "a.c", "spins", &args).is_none() {
        return;
    }
    if Command::new("perf").arg("--version").output().is_err() {
        eprintln!("skipped: there is no perf to compare with");
        return;
    }
    if let Some(missing) = tools_missing() {
        eprintln!("skipped: {missing}");
        return;
    }
    let (recorded, exported) = (builder.path("before.data"), builder.path("after.data"));
    let run = Command::new(memwide())
        .args(["record", "-e", "cpu-clock", "-c", "1000003", "-g", "-o"])
        .arg(&recorded)
        .arg("--")
        .arg(builder.path("spins"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    if !run.status.success() {
        eprintln!("skipped: {said}");
        return;
    }
    let up = Up::start(&UpOptions {
        args: vec!["--no-collect".to_owned()],
        ..UpOptions::default()
    });
    let imported = Command::new(memwide())
        .args(["import", "--host", "recorded", "--server", &up.url])
        .arg(&recorded)
        .output()
        .unwrap();
    assert!(imported.status.success(), "{imported:?}");
    let lines = report(
        &["--no-children", "--sort", "comm", "-F", "sample,comm"],
        &recorded,
    );
    let counts = lines
        .iter()
        .filter_map(|line| line.split_whitespace().next());
    let samples: u64 = counts.map(|count| count.parse::<u64>().unwrap()).sum();
    assert!(samples > 50, "{samples} samples");
    let stored = "select count() from samples where host = 'recorded'";
    until("all samples are stored", STORED_WITHIN, || {
        up.try_number(stored).is_ok_and(|rows| rows == samples)
    });
    let url = format!("{}/api/v1/export/perf-data?host=recorded&since=-1h", up.url);
    let mut reply = ureq::get(&url).call().unwrap();
    std::fs::write(&exported, reply.body_mut().read_to_vec().unwrap()).unwrap();
    for args in [
        &["--no-children", "--sort", "sym,dso", "-F", "sample,sym,dso"][..],
        &[
            "--no-children",
            "--sort",
            "pid,comm",
            "-F",
            "sample,pid,comm",
        ],
    ] {
        assert_eq!(report(args, &exported), report(args, &recorded), "{args:?}");
    }
    // With all they call: functions of the program alone, whose callers are whole.
    let own = |file: &Path| -> Vec<String> {
        let args = [
            "--children",
            "--sort",
            "sym",
            "-F",
            "overhead_children,sym",
            "--dsos",
            "spins",
        ];
        let lines = report(&args, file).into_iter();
        lines
            .filter(|line| {
                ["spin", "outer", "main"]
                    .iter()
                    .any(|name| line.ends_with(&format!(" {name}")))
            })
            .collect()
    };
    assert!(own(&recorded).len() == 3, "{:?}", own(&recorded));
    assert_eq!(own(&exported), own(&recorded));
}
