//! How the service and what stands behind it are.

use memwide_service::build_info::BUILD;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What the process around the query service knows; it arrives through a watch channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusDetail {
    /// Address collectors and imports send to, as `127.0.0.1:7071`; empty: not known here.
    pub ingest_address: String,
    /// The services and child processes beside this one.
    pub services: Vec<ServiceState>,
    /// What is collected here, in which tier, and why not better; one line each.
    pub collects: Vec<String>,
}

/// One service or child process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceState {
    /// Name, as `sink`.
    pub name: String,
    /// `starting`, `running`, `waiting`, `restarting`, `stopped`, `failed`.
    pub state: String,
    /// Why, or what it waits for, as which partition of the sink for what; may be empty.
    pub detail: String,
}

/// The answer to `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// From the process around.
    pub detail: StatusDetail,
    /// Whether the store answers, else why not.
    pub store: Result<(), String>,
    /// Whether there is at least one row to be asked for.
    pub rows: bool,
}

impl Status {
    /// Rows can be queried.
    pub fn ready(&self) -> bool {
        self.store.is_ok() && self.rows
    }

    /// As JSON.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "ready": self.ready(),
            "version": BUILD.version,
            "commit": BUILD.commit,
            "ingest_address": self.detail.ingest_address,
            "store": { "reachable": self.store.is_ok(), "rows": self.rows, "problem": self.store.as_ref().err() },
            "services": self.detail.services,
            "collects": self.detail.collects,
        })
    }
}
