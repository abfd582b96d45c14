//! When an aggregator can take batches of every source.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use memwide_service::admin::{Condition, Readiness};

/// Counts partitions whose cursor has been read; clones share the count.
#[derive(Debug, Clone)]
pub(crate) struct Cursors {
    condition: Condition,
    left: Arc<AtomicU16>,
}

impl Cursors {
    /// None is read yet.
    pub(crate) fn new(readiness: &Readiness, partitions: u16) -> Self {
        let text = format!("{partitions} partitions have not read their cursor");
        Self {
            condition: readiness.expect("cursors", text),
            left: Arc::new(AtomicU16::new(partitions)),
        }
    }

    /// One more partition knows where it stands.
    pub(crate) fn one_read(&self) {
        // ATOMICS: whoever takes the last one says so; nothing else is read by the number.
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.condition.holds();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_partitions_must_have_read_their_cursor() {
        let readiness = Readiness::new();
        let cursors = Cursors::new(&readiness, 2);
        cursors.one_read();
        assert_eq!(readiness.missing().len(), 1);
        cursors.clone().one_read();
        assert!(readiness.missing().is_empty());
    }
}
