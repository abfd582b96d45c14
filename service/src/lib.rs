//! What every process does alike: config, logs, metrics, admin endpoints, shutdown.
//!
//! Nothing in here knows what a sample is. A service brings its configuration type, its metric
//! declarations and its tasks; this package resolves the first, exposes the second and runs and
//! stops the third, so that every process fails, drains and reports in the same way.
//!
//! | module | is for |
//! |---|---|
//! | [`config`] | default < file < environment < flags, unknown keys refused by name |
//! | [`telemetry`] | `tracing` to stderr, and printing an error with its causes |
//! | [`metrics`] | counters, gauges and histograms with units, in Prometheus text |
//! | [`run`] | named tasks, one stop token, draining with a deadline |
//! | [`queue`] | channels bounded in bytes |
//! | [`retry`] | backoff with jitter, and what an error says about trying again |
//! | [`admin`] | `/healthz /readyz /metrics /config /version`, and binding a port |
//! | [`grpc`] | the gRPC server |
//! | [`random`] | secrets that live as long as the process |
//! | [`child`] | processes that die with this one and are restarted when they die first |
//! | [`machine`] | how large this machine is |
//! | [`single`] | one process of a kind, by a lock file |
//! | [`rooted`] | files of a process as it sees them |
//! | [`spelling`] | which known word somebody may have meant |
//! | [`pattern`] | names by patterns, as people write them in rules |
//! | [`tls`] | whom to believe over HTTPS |
//! | [`clock`] | the only place that asks what time it is |
//! | [`exit`] | exit codes |
//! | [`build_info`] | what was built, from which commit |

pub mod admin;
pub mod build_info;
pub mod child;
pub mod clock;
pub mod config;
pub mod exit;
pub mod grpc;
pub mod machine;
pub mod metrics;
pub mod pattern;
pub mod queue;
pub mod random;
pub mod retry;
pub mod rooted;
pub mod run;
pub mod single;
pub mod spelling;
pub mod telemetry;
pub mod tls;

/// Cancelled when the process is to stop; clones share the state.
pub use tokio_util::sync::CancellationToken;
