//! Signals that end a measurement, and the exit code it ends with.

use crate::failure::Failure;
use anyhow::Context as _;
use memwide_service::CancellationToken;
use memwide_service::run::stop_on_signal;
use tokio::runtime::{Builder, Runtime};

/// Signals, as long as this is kept.
pub(super) struct Signals {
    runtime: Runtime,
    /// Cancelled by the first one.
    pub(super) stop: CancellationToken,
}

impl Signals {
    /// Watches for them; to be called before anything is made that one of them would leave behind.
    pub(super) fn watch() -> Result<Self, Failure> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let stop = runtime
            .block_on(async { stop_on_signal() })
            .context("cannot watch for signals")?;
        Ok(Self { runtime, stop })
    }

    /// Ends this program as the measured command ended, if that has a code and no signal stopped everything.
    pub(super) fn end_with(self, code: Option<i32>) -> Result<(), Failure> {
        match code {
            Some(code) if !self.stop.is_cancelled() => {
                drop(self.runtime);
                std::process::exit(code)
            }
            _ => Ok(()),
        }
    }
}
