//! What simulated hosts have sent, counted where it was made.

use memwide_model::Locality;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One row of the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TruthKey {
    /// Position of the host in its fleet.
    pub host: usize,
    /// Name of the function.
    pub function: &'static str,
    /// Name of the event.
    pub event: &'static str,
    /// Where the data was, as the hardware says.
    pub locality: Locality,
}

/// Samples sent, by host, function, event and locality. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Truth(Arc<Mutex<BTreeMap<TruthKey, u64>>>);

impl Truth {
    pub(crate) fn add(&self, counts: &BTreeMap<TruthKey, u64>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, samples) in counts {
            *all.entry(*key).or_default() += samples;
        }
    }

    /// Samples of all rows that `select` takes.
    pub fn samples(&self, select: impl Fn(&TruthKey) -> bool) -> u64 {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter(|(key, _)| select(key))
            .map(|(_, samples)| samples)
            .sum()
    }

    /// All rows.
    pub fn rows(&self) -> BTreeMap<TruthKey, u64> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
