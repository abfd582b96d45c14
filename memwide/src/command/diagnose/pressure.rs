//! The kernel's pressure accounting: for how long some task waited for memory.

use std::time::Instant;

pub(super) const FILE: &str = "/proc/pressure/memory";

/// A reading of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pressure {
    at: Instant,
    some_us: u64,
}

impl Pressure {
    /// Reads it; why not, where the kernel does not keep it.
    pub(super) fn read() -> Result<Self, String> {
        let text = std::fs::read_to_string(FILE)
            .map_err(|error| format!("{FILE} cannot be read ({error})"))?;
        let some_us = some_total(&text).ok_or_else(|| format!("{FILE} is not as expected"))?;
        Ok(Self {
            at: Instant::now(),
            some_us,
        })
    }

    /// Share of the time since then that some task waited.
    pub(super) fn share_since(self) -> Option<f64> {
        let now = Self::read().ok()?;
        let elapsed_us = now.at.duration_since(self.at).as_secs_f64() * 1e6;
        let waited = now.some_us.saturating_sub(self.some_us) as f64;
        (elapsed_us > 0.0).then(|| (waited / elapsed_us).min(1.0))
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`.
fn some_total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_some_tasks_is_read() {
        let text = "some avg10=1.53 avg60=0.87 avg300=0.20 total=1205933\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(some_total(text), Some(1_205_933));
        assert_eq!(some_total("full avg10=0.00 total=7\n"), None);
        assert_eq!(some_total("some avg10=x total=y\n"), None);
    }
}
