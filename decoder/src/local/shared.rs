//! Symbol tables that several sessions have in common: each is read once, whoever asks first.

use crate::symbols::TableState;
use memwide_model::MappingId;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Tables by mapping. Clones are the same tables.
#[derive(Debug, Clone, Default)]
pub struct SharedTables(Arc<Mutex<FxHashMap<MappingId, Slot>>>);

/// Filled by the first who asks; others wait for it.
type Slot = Arc<OnceLock<TableState>>;

impl SharedTables {
    /// Where the table of a mapping stands; `load` finds it out if nobody has.
    pub(super) fn get(&self, mapping: MappingId, load: impl FnOnce() -> TableState) -> TableState {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(slots.entry(mapping).or_default());
        drop(slots); // others may load other tables meanwhile
        slot.get_or_init(load).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_loaded_once_for_all() {
        let (tables, mut loads) = (SharedTables::default(), 0);
        let same = tables.clone();
        for tables in [&tables, &same, &tables] {
            let state = tables.get(MappingId(7), || {
                loads += 1;
                TableState::Unavailable("not here".into())
            });
            assert!(matches!(state, TableState::Unavailable(_)));
        }
        assert_eq!(loads, 1);
    }
}
