//! Runs the binary.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// What a run gave.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// One JSON document a line.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|wrong| panic!("{wrong}: {line}"))
        };
        self.out.lines().map(parse).collect()
    }

    /// The whole output as one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|wrong| panic!("{wrong}: {}{}", self.out, self.err))
    }
}

/// `memwide COMMAND -i FILE ARGS…`, with no symbols from this machine.
pub(crate) fn memwide(command: &str, file: &Path, args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_memwide"))
        .arg(command)
        .arg("-i")
        .arg(file)
        .args(args)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    Ran::of(output)
}

/// The same, and it must end well.
#[track_caller]
pub(crate) fn fine(command: &str, file: &Path, args: &[&str]) -> Ran {
    let ran = memwide(command, file, args);
    assert_eq!(ran.code, Some(0), "{command} {args:?}: {}", ran.err);
    ran
}
