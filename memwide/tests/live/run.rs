//! Builds programs, runs the binary and perf.

use memwide_tests::programs::{Builder, C};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds a program; `None`, said loudly, where there is no compiler.
pub(crate) fn build(folder: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let code = format!("{name}.c");
    let args = ["-O1", "-g", "-fno-omit-frame-pointer"];
    Builder::within(folder, &[(&code, source)]).compile(C, &code, name, &args)
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
