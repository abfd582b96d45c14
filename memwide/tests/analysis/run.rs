//! Runs the binary.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// `memwide COMMAND -i FILE ARGS…`, which must end well: what it prints. `COLUMNS` is the width.
#[track_caller]
pub(crate) fn text(command: &str, file: &Path, args: &[&str], columns: usize) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
        .arg(command)
        .arg("-i")
        .arg(file)
        .args(args)
        .env("COLUMNS", columns.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same as JSON.
#[track_caller]
pub(crate) fn json(command: &str, file: &Path, args: &[&str]) -> Value {
    let text = text(command, file, &[args, &["--format", "json"]].concat(), 200);
    serde_json::from_str(&text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"))
}

/// No line is wider than the terminal.
#[track_caller]
pub(crate) fn check_width(text: &str, columns: usize) {
    for line in text.lines() {
        assert!(
            line.chars().count() <= columns,
            "wider than {columns}: {line}"
        );
    }
}
