//! Waits are for a condition and bounded; what is waited for is named in the failure.

use std::time::{Duration, Instant};

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until `condition` holds, or panics naming `what`.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    until_some(what, limit, || condition().then_some(()));
}

/// Waits until `look` finds something, or panics naming `what`.
#[track_caller]
pub fn until_some<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}
