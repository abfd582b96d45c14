//! What goes on for long is told at its begin, once a minute, and at its end.

use std::time::{Duration, Instant};

use crate::spool::SpoolError;
use crate::status::Reporter;
use crate::uplink::chain;

const TELL_EVERY: Duration = Duration::from_mins(1);
/// A decoder that starts beside the collector comes within this time.
const DECODER_WITHIN: Duration = Duration::from_secs(10);

/// When it was told last; `None`: not since it began.
#[derive(Debug, Default)]
struct Told(Option<Instant>);

impl Told {
    /// Whether it is to be told now.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|at| now.duration_since(at) >= TELL_EVERY);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }

    /// It is over; whether it had been told.
    fn ends(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// A batch that the spool does not take.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    told: Told,
}

impl Unwritten {
    /// It was tried, in vain.
    pub(super) fn failed(&mut self, error: &SpoolError, reporter: &Reporter) {
        if self.told.is_due(Instant::now()) {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "batch not written; it is tried again, and meanwhile the kernel drops what the rings have no room for, counted as lost"
            );
        }
        reporter.update(|status| status.unwritten = chain(error));
    }

    /// It was taken. The status says so with all else that it says of a batch.
    pub(super) fn written(&mut self) {
        if self.told.ends() {
            tracing::info!("batches are written again");
        }
    }
}

/// A decoder that does not take batches.
#[derive(Debug, Default)]
pub(super) struct NoDecoder {
    since: Option<Instant>,
    told: Told,
}

impl NoDecoder {
    /// It was tried, in vain.
    pub(super) fn failed(&mut self, why: &str) {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let is_long = now.duration_since(since) >= DECODER_WITHIN;
        if is_long && self.told.is_due(now) {
            tracing::warn!(
                why,
                "no decoder takes batches; they wait in the spool, and beyond its bound the oldest samples are given up and counted"
            );
        }
    }

    /// It takes them.
    pub(super) fn connected(&mut self) {
        self.since = None;
        if self.told.ends() {
            tracing::info!("a decoder takes batches again");
        }
    }
}
