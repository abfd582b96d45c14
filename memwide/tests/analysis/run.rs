//! Runs the binary.

pub(crate) use memwide_tests::ask::{json, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Records a program that stands in its folder, every event of it; `None`, said loudly, where that cannot be.
pub(crate) fn recorded(program: &Path, args: &[&str]) -> Option<PathBuf> {
    let file = program.with_extension("data");
    let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
        .args(["record", "-g", "-c", "1", "-o"])
        .arg(&file)
        .args(args)
        .arg("--")
        .arg(program)
        .output()
        .unwrap();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        eprintln!("skipped: memwide record {args:?}: {said}");
        return None;
    }
    Some(file)
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
