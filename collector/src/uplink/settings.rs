//! What an uplink needs to hand on what the centre says of its collector.

use std::collections::HashMap;

use memwide_proto::v1::{ConfigReport, Configure};

/// Takes settings that a decoder pushes.
///
/// Called off the async threads, one at a time, after each welcome and whenever the centre has others: the same ones may come
/// again and again.
pub trait Settings: Send + Sync + 'static {
    /// Applies them or says why not. What was in force before stays then.
    fn configure(&self, pushed: &Configure) -> ConfigReport;

    /// Labels by which the centre chooses settings for this host.
    fn labels(&self) -> HashMap<String, String> {
        HashMap::new()
    }
}

/// Takes none: of a source that collects nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoSettings;

impl Settings for NoSettings {
    fn configure(&self, pushed: &Configure) -> ConfigReport {
        refused(pushed, "this source takes no settings".to_owned())
    }
}

/// The answer to settings that are not taken.
pub(crate) fn refused(pushed: &Configure, why: String) -> ConfigReport {
    ConfigReport {
        version: pushed.version,
        applied: false,
        message: why,
        boost: pushed.boost.as_ref().map_or(0, |boost| boost.id),
    }
}
