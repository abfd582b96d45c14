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
pub fn until_some<T>(what: &str, limit: Duration, look: impl FnMut() -> Option<T>) -> T {
    found_within(limit, look).unwrap_or_else(|| panic!("waited {limit:?} in vain: {what}"))
}

/// Waits until `condition` holds; false where that is in vain.
pub fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    found_within(limit, || condition().then_some(())).is_some()
}

fn found_within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
