//! Runs the binary, and perf beside it.

pub(crate) use memwide_tests::ask::json;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// `memwide COMMAND -i FILE ARGS…`, which must end well: what it prints.
#[track_caller]
pub(crate) fn text(command: &str, file: &Path, args: &[&str]) -> String {
    memwide_tests::ask::text(command, file, args, 200)
}

/// Rows of an answer.
#[track_caller]
pub(crate) fn rows(document: &Value) -> &[Value] {
    document["rows"].as_array().unwrap()
}

/// What `perf ARGS… -i FILE` prints; `None`, said loudly, without perf.
#[track_caller]
pub(crate) fn perf(args: &[&str], file: &Path) -> Option<String> {
    let output = Command::new("perf")
        .args(args)
        .arg("-i")
        .arg(file)
        .env("DEBUGINFOD_URLS", "")
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no perf to compare with");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "perf {args:?}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
