//! How an engine process is set up.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// Options of the engine process. They travel as one JSON argument; secrets do not travel in them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineOptions {
    /// Path of `libchdb.so`; see [`crate::tools::engine_library`].
    pub library: PathBuf,
    /// Private folder of the engine: tables, its configuration, its working directory.
    pub data: PathBuf,
    /// Port on 127.0.0.1; 0 lets the system choose.
    pub port: u16,
    /// Databases that may be written; nothing else may.
    pub databases: Vec<String>,
    /// Bound of the engine's memory, in bytes. 0: half of the machine's.
    pub max_memory_bytes: u64,
    /// Bound of the cache of index marks, in bytes.
    pub mark_cache_bytes: u64,
    /// Threads that run queries; each runs one at a time.
    pub read_threads: usize,
    /// Threads that run inserts: apart, so that dashboards cannot starve ingest.
    pub insert_threads: usize,
    /// Requests that may wait for a thread, for each pool; one more is answered with 503.
    pub queue_requests: usize,
    /// Process that started the engine; when it is gone, the engine ends. 0: whoever is the parent at start.
    pub parent_pid: u32,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            library: PathBuf::new(),
            data: PathBuf::new(),
            port: 0,
            databases: vec![crate::DEFAULT_DATABASE.to_owned()],
            max_memory_bytes: 0,
            mark_cache_bytes: 128 << 20,
            read_threads: 4,
            insert_threads: 3,
            queue_requests: 64,
            parent_pid: 0,
        }
    }
}

impl EngineOptions {
    /// Reads the argument that [`EngineOptions::to_json`] wrote; keys may be left out.
    pub fn from_json(text: &str) -> Result<Self, StoreError> {
        let options: Self = serde_json::from_str(text).map_err(StoreError::EngineOptions)?;
        options.check()?;
        Ok(options)
    }

    /// The options as one argument of the hidden `store-engine` subcommand.
    pub fn to_json(&self) -> Result<String, StoreError> {
        serde_json::to_string(self).map_err(StoreError::EngineOptions)
    }

    /// Database names go into grants and statements, so they are plain identifiers.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        for name in &self.databases {
            crate::schema::check_name(name)?;
        }
        Ok(())
    }
}
