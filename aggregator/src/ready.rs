//! When an aggregator can take batches of every source.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// Which partitions' flushes the stream does not take, and why; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Flushes {
    condition: Condition,
    held: Arc<Mutex<BTreeMap<u16, String>>>,
}

impl Flushes {
    /// Nothing is held back.
    pub(crate) fn new(readiness: &Readiness) -> Self {
        let condition = readiness.expect("flushes", "");
        condition.holds();
        Self {
            condition,
            held: Arc::default(),
        }
    }

    /// The stream has taken the partition's flush.
    pub(crate) fn taken(&self, partition: u16) {
        self.change(|held| drop(held.remove(&partition)));
    }

    /// It has refused it more than once, or not answered.
    pub(crate) fn held(&self, partition: u16, why: String) {
        self.change(|held| drop(held.insert(partition, why)));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u16, String>)) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut held);
        let Some((_, why)) = held.first_key_value() else {
            return self.condition.holds();
        };
        let partitions: Vec<String> = held.keys().map(u16::to_string).collect();
        self.condition.fails(format!(
            "the stream does not take what partitions {} have ({why}); look whether the disk of nats-server is full, \
             and at its log; sources wait meanwhile",
            partitions.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_that_is_not_taken_is_told_until_it_is() {
        let readiness = Readiness::new();
        let flushes = Flushes::new(&readiness);
        assert!(readiness.missing().is_empty());
        flushes.held(3, "no room".to_owned());
        flushes.held(1, "no room".to_owned());
        let [(name, why)] = &readiness.missing()[..] else {
            panic!("{:?}", readiness.missing());
        };
        assert!(*name == "flushes" && why.contains("1, 3") && why.contains("no room"));
        flushes.taken(3);
        flushes.taken(1);
        assert!(readiness.missing().is_empty());
    }

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
