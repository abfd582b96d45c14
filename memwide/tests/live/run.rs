//! Builds programs, runs the binary and perf.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds a program; `None`, said loudly, where there is no compiler.
pub(crate) fn build(folder: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let (code, path) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&code, source).unwrap();
    let output = Command::new("cc")
        .args(["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"])
        .arg(&path)
        .arg(&code)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no C compiler");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(path)
}

/// `memwide ARGS…`.
pub(crate) fn memwide(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_memwide"))
        .args(args)
        .env("COLUMNS", "200")
        .output()
        .unwrap()
}

/// Whether software events can be counted here; said loudly where not.
pub(crate) fn can_count() -> bool {
    let output = memwide(&["stat", "-x", ",", "-e", "page-faults", "--", "true"]);
    let said = text(&output.stderr);
    let can = output.status.success() && !said.contains("<not");
    if !can {
        eprintln!("skipped: no software events here: {said}");
    }
    can
}

/// Runs perf, if it is installed.
pub(crate) fn perf(args: &[&str]) -> Option<Output> {
    let output = Command::new("perf").args(args).output().ok();
    if output.is_none() {
        eprintln!("skipped: perf is not installed");
    }
    output
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
