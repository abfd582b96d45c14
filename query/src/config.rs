//! Configuration of the query service.

use memwide_service::config::Secret;
use serde::{Deserialize, Serialize};

/// Where the store is, and what a question may cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// URL of the store, password included, as `http://reader:password@host:8123/database`. The user should be one that
    /// may only read; the settings named in [`Limits`] must be changeable for it.
    pub store: Secret,
    /// Bounds.
    pub limits: Limits,
}

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
    /// Memory of one statement in the store, in bytes (`max_memory_usage`). 0: the store's own bound; the embedded
    /// engine takes no other from a reader and gives a statement a half of its memory.
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
            memory_bytes: 0,
            at_once: 8,
        }
    }
}
