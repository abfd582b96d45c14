//! Runs the binary, and perf beside it.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// `memwide COMMAND -i FILE ARGS…`, which must end well: what it prints.
#[track_caller]
pub(crate) fn text(command: &str, file: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
        .arg(command)
        .arg("-i")
        .arg(file)
        .args(args)
        .env("COLUMNS", "200")
        .env("DEBUGINFOD_URLS", "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same as JSON.
#[track_caller]
pub(crate) fn json(command: &str, file: &Path, args: &[&str]) -> Value {
    let text = text(command, file, &[args, &["--format", "json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"))
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
