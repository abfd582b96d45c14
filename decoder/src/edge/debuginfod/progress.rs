//! Says on a terminal what is being waited for.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Between two lines.
const EVERY: Duration = Duration::from_millis(250);

/// One file that is on its way. What it showed is gone when it is dropped.
#[derive(Debug)]
pub(super) struct Progress {
    text: String,
    shown: Option<Instant>,
    is_wanted: bool,
}

impl Progress {
    /// Shows nothing unless standard error is a terminal.
    pub(super) fn start(server: &str, what: &str) -> Self {
        let mut progress = Self {
            text: format!("asking {server} for {what}"),
            shown: None,
            is_wanted: std::io::stderr().is_terminal(),
        };
        progress.line("");
        progress
    }

    /// So many bytes are here, of `all`.
    pub(super) fn show(&mut self, len: u64, all: Option<u64>) {
        if self.is_wanted && self.shown.is_none_or(|at| at.elapsed() >= EVERY) {
            self.line(&amount(len, all));
        }
    }

    fn line(&mut self, more: &str) {
        if self.is_wanted {
            self.shown = Some(Instant::now());
            // Nothing depends on it.
            let _ = write!(std::io::stderr(), "\r\x1b[K{}{more}", self.text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_wanted {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn amount(len: u64, all: Option<u64>) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    match all {
        Some(all) => format!(": {:.1} of {:.1} MiB", mib(len), mib(all)),
        None => format!(": {:.1} MiB", mib(len)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_in_mebibytes() {
        assert_eq!(amount(3 << 19, Some(3 << 20)), ": 1.5 of 3.0 MiB");
        assert_eq!(amount(0, None), ": 0.0 MiB");
    }
}
