//! `memwide diff` and `memwide flamegraph` on made-up accesses of a program.

use crate::program::{Made, build, write};
use crate::run::{check_width, json, text};
use memwide_tests::programs::Program;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "
__attribute__((noinline)) int alpha(int x) { return x + 1; }
__attribute__((noinline)) int beta(int x) { return x + 2; }
__attribute__((noinline)) int gamma_(int x) { return x + 3; }
int main(int argc, char **argv) { return alpha(argc) + beta(argc) + gamma_(argc); }
";

fn file(folder: &Path, name: &str, program: &Program, counts: [usize; 3]) -> PathBuf {
    let mut all = Vec::new();
    for (function, count) in ["alpha", "beta", "gamma_"].into_iter().zip(counts) {
        let made = Made {
            ip: program.address(function),
            addr: 0x1000,
            tid: 100,
            word: 0x0508_0142,
        };
        all.extend(std::iter::repeat_n(made, count));
    }
    let path = folder.join(name);
    write(&path, program, &all);
    path
}

fn diff(before: &Path, after: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
        .arg("diff")
        .args([before, after])
        .args(args)
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[test]
fn what_changed_is_told_from_noise() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), SOURCE) else {
        return;
    };
    let before = file(folder.path(), "a.data", &program, [400, 300, 300]);
    let after = file(folder.path(), "b.data", &program, [410, 180, 410]);
    let (code, out) = diff(&before, &after, &["--by", "samples", "--format", "json"]);
    assert_eq!(code, Some(0));
    let document: Value = serde_json::from_str(&out).unwrap();
    let row = |symbol: &str| {
        let rows = document["rows"].as_array().unwrap();
        rows.iter().find(|row| row["symbol"] == symbol).unwrap()
    };
    assert_eq!(row("alpha")["verdict"], "within noise");
    assert_eq!(row("beta")["verdict"], "shrank");
    assert_eq!(row("gamma_")["verdict"], "grew");
    let delta = row("beta")["delta"].as_f64().unwrap();
    assert!((delta + 0.12).abs() < 1e-9, "{delta}");
    assert_eq!(row("beta")["ci_basis"], "sampling_only");
    let (code, table) = diff(&before, &after, &["--significant"]);
    assert_eq!(code, Some(0));
    check_width(&table, 80);
    assert!(
        table.contains("gamma_") && !table.contains("alpha"),
        "{table}"
    );
    let (_, same) = diff(&before, &before, &["--significant", "--format", "csv"]);
    assert_eq!(same.lines().count(), 1, "nothing changed: {same}");
}

#[test]
fn wrong_usage_and_bad_files_end_as_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.data");
    std::fs::write(&bad, "no perf.data").unwrap();
    assert_eq!(diff(&bad, &bad, &[]).0, Some(65));
    assert_eq!(diff(&bad, &bad, &["--sort", "cost"]).0, Some(64));
    assert_eq!(diff(&bad, &bad, &["--by", "cost"]).0, Some(64));
}

#[test]
fn flame_graphs_sum_by_the_estimator_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), SOURCE) else {
        return;
    };
    let file = file(folder.path(), "a.data", &program, [3, 2, 1]);
    let folded = text("flamegraph", &file, &["--folded"], 80);
    assert_eq!(
        folded,
        "program;alpha 3\nprogram;beta 2\nprogram;gamma_ 1\n"
    );
    let weighed = text("flamegraph", &file, &["--folded", "--by", "weight"], 80);
    assert!(weighed.contains("program;alpha 600\n"), "{weighed}");
    let reversed = text(
        "flamegraph",
        &file,
        &["--folded", "--reverse", "-F", "function=beta"],
        80,
    );
    assert_eq!(reversed, "beta;program 2\n");
    let svg = text("flamegraph", &file, &[], 80);
    assert!(svg.contains("by samples: 6 samples in 6 samples"), "{svg}");
    let tree = json("flamegraph", &file, &[]);
    assert_eq!(tree["tree"]["children"][0]["value"], 6);
}
