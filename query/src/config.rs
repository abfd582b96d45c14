//! Configuration of the query service.

use memwide_service::clock;
use memwide_service::config::{Secret, Wrong};
use memwide_service::machine::memory_bytes;
use serde::{Deserialize, Serialize};

use crate::rules::{Rule, Rules};

/// Where the store is, and what a question may cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// URL of the store, password included, as `http://reader:password@host:8123/database`. The user should be one that
    /// may only read; the settings named in [`Limits`] must be changeable for it.
    pub store: Secret,
    /// Bounds.
    pub limits: Limits,
    /// Standing rules.
    pub rules: Vec<Rule>,
}

impl Config {
    /// Refuses what only its meaning forbids.
    pub fn check(&self) -> Result<(), Wrong> {
        self.limits.check()?;
        Rules::new(self.rules.clone(), clock::unix_ns()).map(drop)?;
        Ok(())
    }
}

/// A statement gets no more than this by default, in bytes: 8 of them at once on a usual server.
const MEMORY_BYTES_MAX: u64 = 2 << 30;

/// Bounds of one question or statement. Beyond them it fails and says which bound it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Time, in seconds (`max_execution_time`).
    pub seconds: u32,
    /// Rows of an SQL answer (`max_result_rows`).
    pub rows: u64,
    /// Bytes of an answer.
    pub answer_bytes: usize,
    /// Memory of one statement in the store, in bytes (`max_memory_usage`): a quarter of this machine's or 2 GiB,
    /// whichever is less, unless said otherwise. 0: the store's own bound. The embedded engine gives a statement at most
    /// a half of its own memory, whatever is asked for.
    pub memory_bytes: u64,
    /// Statements under way at once, each question taking one; the rest wait, at most `seconds`. Statements of SQL take at most
    /// three quarters, so that questions find room beside them.
    pub at_once: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            seconds: 30,
            rows: 100_000,
            answer_bytes: 64 << 20,
            memory_bytes: (memory_bytes() / 4).min(MEMORY_BYTES_MAX),
            at_once: 8,
        }
    }
}

impl Limits {
    /// A bound of 0 would be none for the store.
    fn check(&self) -> Result<(), Wrong> {
        Wrong::unless_within("limits.seconds", self.seconds, (1, 86_400), "seconds")?;
        Wrong::unless_within("limits.rows", self.rows, (1, 1 << 32), "rows")?;
        let (bytes, most) = (self.answer_bytes as u64, 16 << 30);
        Wrong::unless_within("limits.answer_bytes", bytes, (64 << 10, most), "bytes")?;
        Wrong::unless_within("limits.at_once", self.at_once, (1, 1_000), "statements")?;
        if self.memory_bytes != 0 {
            let (key, most) = ("limits.memory_bytes", 1 << 50);
            Wrong::unless_within(key, self.memory_bytes, (16 << 20, most), "bytes").map_err(
                |wrong| {
                    Wrong::new(
                        key,
                        format!("{}, nor 0, the store's own bound", wrong.reason),
                    )
                },
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Limits);

    #[test]
    fn bounds_that_would_be_none_or_useless_are_refused_by_name() {
        assert_eq!(Config::default().check(), Ok(()));
        let rows: [(&str, Change); 8] = [
            ("limits.seconds", |limits| limits.seconds = 0),
            ("limits.seconds", |limits| limits.seconds = 86_401),
            ("limits.rows", |limits| limits.rows = 0),
            ("limits.answer_bytes", |limits| limits.answer_bytes = 64),
            ("limits.memory_bytes", |limits| limits.memory_bytes = 2),
            ("limits.memory_bytes", |limits| {
                limits.memory_bytes = 1 << 51;
            }),
            ("limits.at_once", |limits| limits.at_once = 0),
            ("limits.at_once", |limits| limits.at_once = 1_001),
        ];
        for (key, change) in rows {
            let mut config = Config::default();
            change(&mut config.limits);
            let wrong = config.check().unwrap_err();
            assert_eq!(wrong.key, key, "{}", wrong.reason);
            assert!(wrong.reason.contains(" is not from "), "{}", wrong.reason);
        }
        let mut config = Config::default();
        config.limits.memory_bytes = 0;
        assert_eq!(config.check(), Ok(()));
    }
}
