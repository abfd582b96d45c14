//! Generated code of a real runtime (node), named by its map and by its dump.

use crate::perf::{self, memwide};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "function hotLoop(a, n) { let s = 0; for (let i = 0; i < n; i++) s += a[i & 1023] * 3; return s; }\n\
                       const a = new Float64Array(1024).fill(2); let t = 0;\n\
                       for (let k = 0; k < 200; k++) t += hotLoop(a, 1000000);\n";

/// A recording of the program, or `None` (said loudly).
fn recorded(folder: &Path, option: &str) -> Option<PathBuf> {
    std::fs::write(folder.join("hot.js"), PROGRAM).unwrap();
    if !perf::exists() {
        return None;
    }
    if !Command::new("node")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        eprintln!("skipped: there is no node to run");
        return None;
    }
    let file = folder.join("js.data");
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-e", "cpu-clock:u", "-c", "1000000", "-o"]);
    let output = record
        .arg(&file)
        .args(["--", "node", option, "hot.js"])
        .current_dir(folder)
        .output();
    if !output.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: perf cannot record here");
        return None;
    }
    Some(file)
}

/// Share of the samples that are in the hot function, and the name of the object it is in.
fn hot(file: &Path) -> (f64, String) {
    let text = memwide(
        &["report", "--format", "json", "--sort", "symbol,dso"],
        file,
    );
    let document: Value = serde_json::from_str(&text).unwrap();
    let rows = document["rows"].as_array().unwrap().iter();
    let is_hot = |row: &&Value| row["symbol"].as_str().unwrap().contains("hotLoop");
    let rows: Vec<_> = rows.filter(is_hot).collect();
    let share = rows
        .iter()
        .map(|row| row["overhead"].as_f64().unwrap())
        .sum();
    let dso = rows.first().map_or("", |row| row["dso"].as_str().unwrap());
    (share, dso.to_owned())
}

#[test]
fn generated_code_is_named_by_the_map_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = recorded(folder.path(), "--perf-basic-prof") else {
        return;
    };
    let (share, dso) = hot(&file);
    let theirs = perf::perf(
        &["report", "--stdio", "--sort", "sym", "-F", "overhead,sym"],
        &file,
    );
    // Only here it is known which file the runtime left.
    let _ = std::fs::remove_file(Path::new("/tmp").join(&dso));
    assert!(share > 0.4, "{share} in {dso}");
    let percent = theirs.lines().filter(|line| line.contains("hotLoop"));
    let percent = percent.filter_map(|line| line.trim().split('%').next()?.parse::<f64>().ok());
    let percent: f64 = percent.sum();
    assert!(
        (percent - 100.0 * share).abs() < 0.1,
        "{percent} against {share}"
    );
}

#[test]
fn generated_code_is_named_by_the_dump_that_its_process_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = recorded(folder.path(), "--perf-prof") else {
        return;
    };
    let (share, dso) = hot(&file);
    assert!(share > 0.4, "{share} in {dso}");
    // The dump has the code too.
    let text = memwide(&["annotate", "--format", "json", "--limit", "1"], &file);
    let document: Value = serde_json::from_str(&text).unwrap();
    let function = &document["functions"][0];
    assert!(function["symbol"].as_str().unwrap().contains("hotLoop"));
    let all = function["instructions"].as_array().unwrap().iter();
    let sampled = all.filter(|one| one["samples"].as_u64() > Some(0));
    let texts: Vec<_> = sampled.map(|one| one["instruction"].as_str()).collect();
    let is_real = |text: Option<&str>| text.is_some_and(|text| text != "(bad)");
    let all_real = !texts.is_empty() && texts.iter().copied().all(is_real);
    assert!(all_real, "{function:#}");
}
