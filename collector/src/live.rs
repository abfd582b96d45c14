//! The collector of this machine.

use memwide_proto::v1::Capability;
use memwide_service::CancellationToken;

use crate::{Config, Reporter};

/// What this machine can collect with this configuration, in which tier, and why not better. Starts nothing.
pub fn probe(_config: &Config) -> Vec<Capability> {
    Vec::new()
}

/// Collects on this machine until `stop` is cancelled.
pub async fn run(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    let (reporter, _status) = Reporter::new();
    run_reporting(config, reporter, stop).await
}

/// As [`run`], telling what it does: `let (reporter, status) = Reporter::new()`.
pub async fn run_reporting(
    _config: Config,
    reporter: Reporter,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    reporter.update(|status| status.connected = false);
    stop.cancelled().await;
    Ok(())
}
