//! By how much counters grew.

use std::collections::HashMap;

/// Counters as last read, by who has them and their name.
#[derive(Debug, Default)]
pub(super) struct Changes {
    before: HashMap<(String, String), u64>,
    now: HashMap<(String, String), u64>,
}

impl Changes {
    pub(super) fn begin(&mut self) {
        self.now.clear();
    }

    /// The change since the last round. `None`: there was none to compare with, or the counter began anew.
    pub(super) fn of(&mut self, whose: &str, name: &str, value: u64) -> Option<u64> {
        let key = (whose.to_owned(), name.to_owned());
        let before = self.before.get(&key).copied();
        self.now.insert(key, value);
        value.checked_sub(before?)
    }

    /// What was not read is forgotten.
    pub(super) fn end(&mut self) {
        std::mem::swap(&mut self.before, &mut self.now);
    }
}
