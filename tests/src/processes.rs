//! Processes of a test, found through `/proc`; only descendants of this test are ever touched.

use std::process::{Child, Command};

/// A process as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its command line, words joined by blanks.
    pub command: String,
}

/// A child that does not outlive the test.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Direct children of a process.
pub fn children_of(parent: u32) -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent))
        .map(|pid| Process {
            pid,
            command: command_of(pid),
        })
        .collect()
}

/// The child of `parent` whose command line contains `word`.
pub fn process_named(parent: u32, word: &str) -> Option<Process> {
    children_of(parent)
        .into_iter()
        .find(|process| process.command.contains(word))
}

/// Ends a process the hard way.
pub fn kill_9(pid: u32) {
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(
        killed.is_ok_and(|status| status.success()),
        "cannot kill {pid}"
    );
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold blanks: fields start behind the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

fn command_of(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line)
        .replace('\0', " ")
        .trim()
        .to_owned()
}
