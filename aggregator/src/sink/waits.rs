//! What partitions wait for, so that a person sees it: as conditions of `/readyz` and as a metric.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use memwide_service::admin::{Condition, Readiness};

use crate::metrics;

/// Whom a partition waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// The store is away or busy.
    Store,
    /// Somebody has to repair something.
    Somebody,
}

/// The waiting partitions of one sink; clones share them.
#[derive(Debug, Clone)]
pub(super) struct Waits {
    store: Condition,
    partitions: Condition,
    waiting: Arc<Mutex<BTreeMap<u16, (For, String)>>>,
}

impl Waits {
    /// Nobody has asked the store yet.
    pub(super) fn new(readiness: &Readiness) -> Self {
        let waits = Self {
            store: readiness.expect("store", "not asked yet"),
            partitions: readiness.expect("partitions", ""),
            waiting: Arc::default(),
        };
        waits.partitions.holds();
        waits
    }

    /// The store has taken what the partition had.
    pub(super) fn moves(&self, partition: u16) {
        self.change(|waiting| drop(waiting.remove(&partition)));
    }

    /// The partition stands still.
    pub(super) fn waits(&self, partition: u16, whom: For, why: String) {
        self.change(|waiting| drop(waiting.insert(partition, (whom, why))));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u16, (For, String)>)) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut waiting);
        for (condition, of) in [(&self.store, For::Store), (&self.partitions, For::Somebody)] {
            let texts: Vec<String> = waiting
                .iter()
                .filter(|(_, (whom, _))| *whom == of)
                .map(|(partition, (_, why))| format!("partition {partition} waits: {why}"))
                .collect();
            if texts.is_empty() {
                condition.holds();
            } else {
                condition.fails(texts.join("; "));
            }
            if of == For::Somebody {
                metrics::BLOCKED.set(texts.len() as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_stands_still_is_named_until_it_moves() {
        let readiness = Readiness::new();
        let waits = Waits::new(&readiness);
        assert_eq!(readiness.missing(), [("store", "not asked yet".to_owned())]);
        waits.moves(0);
        assert_eq!(readiness.missing(), []);
        waits.waits(3, For::Somebody, "no table".to_owned());
        waits.waits(5, For::Store, "away".to_owned());
        assert_eq!(
            readiness.missing(),
            [
                ("partitions", "partition 3 waits: no table".to_owned()),
                ("store", "partition 5 waits: away".to_owned())
            ]
        );
        waits.moves(3);
        waits.moves(5);
        assert_eq!(readiness.missing(), []);
    }
}
