//! Asks `memwide` about a file.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// `memwide COMMAND -i FILE ARGS…`, which must end well: what it prints on a terminal of so many columns. No server is asked
/// for symbols.
#[track_caller]
pub fn text(command: &str, file: &Path, args: &[&str], columns: usize) -> String {
    let output = Command::new(crate::memwide())
        .arg(command)
        .arg("-i")
        .arg(file)
        .args(args)
        .env("COLUMNS", columns.to_string())
        .env("DEBUGINFOD_URLS", "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same as JSON.
#[track_caller]
pub fn json(command: &str, file: &Path, args: &[&str]) -> Value {
    let text = text(command, file, &[args, &["--format", "json"]].concat(), 200);
    serde_json::from_str(&text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"))
}
