//! Configuration of the query service.

use memwide_service::config::Secret;
use memwide_service::machine::memory_bytes;
use serde::{Deserialize, Serialize};

use crate::rules::Rule;

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
    /// Statements under way at once, each question taking one; the rest wait.
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
