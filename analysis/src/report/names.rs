//! Texts of keys, each with a number; looking one up allocates nothing.

use super::reader::FILE_BITS;
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::{Hash as _, Hasher as _};

/// Most different texts; what comes beyond shares the last number. Hostile files must not fill memory.
const NAMES_MAX: usize = 1 << FILE_BITS;

#[derive(Debug)]
struct Entry {
    hash: u64,
    place: Place,
    level: char,
    text: Box<str>,
    /// The chunk of the file where it was met first.
    chunk: u64,
}

/// What else tells texts apart.
pub(super) type Place = [u64; 3];

/// Texts by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    entries: Vec<Entry>,
    numbers: HashTable<u32>,
    /// The chunk of the file that new texts are of.
    pub(super) chunk: u64,
}

impl Names {
    /// The number of a text.
    pub(super) fn text(&mut self, text: &str) -> u64 {
        let mut hasher = FxHasher::default();
        text.hash(&mut hasher);
        let is_same = |entry: &Entry| *entry.text == *text;
        self.number(hasher.finish(), is_same, || Entry {
            hash: 0,
            place: [0; 3],
            level: ' ',
            text: text.into(),
            chunk: 0,
        })
    }

    /// The number of a text at a place: equal texts at different places are different. `level` is kept of the first. Not to be
    /// mixed with the others in one instance.
    pub(super) fn placed(&mut self, text: &str, place: Place, level: char) -> u64 {
        let mut hasher = FxHasher::default();
        place.hash(&mut hasher);
        text.hash(&mut hasher); // functions inlined into those of one file have one place
        let is_same = |entry: &Entry| entry.place == place && *entry.text == *text;
        self.number(hasher.finish(), is_same, || Entry {
            hash: 0,
            place,
            level,
            text: text.into(),
            chunk: 0,
        })
    }

    /// The number of a place alone; text and level are kept of the first. Not to be mixed with the others in one instance.
    pub(super) fn first(
        &mut self,
        place: Place,
        level: char,
        text: impl FnOnce() -> Box<str>,
    ) -> u64 {
        let mut hasher = FxHasher::default();
        place.hash(&mut hasher);
        let is_same = |entry: &Entry| entry.place == place;
        self.number(hasher.finish(), is_same, || Entry {
            hash: 0,
            place,
            level,
            text: text(),
            chunk: 0,
        })
    }

    /// The number here of a text that others know.
    pub(super) fn take_text(&mut self, number: u64, other: &Self) -> u64 {
        self.text(other.get(number).0)
    }

    /// The number here of what others know: a text at a place, or a place alone (`first`). What is kept of the first is of the one
    /// met in the earlier chunk.
    pub(super) fn take(&mut self, number: u64, other: &Self, place: Place, alone: bool) -> u64 {
        let at = usize::try_from(number).ok();
        let Some(entry) = at.and_then(|at| other.entries.get(at)) else {
            return number; // it means nothing there either
        };
        self.chunk = entry.chunk;
        let here = if alone {
            self.first(place, entry.level, || entry.text.clone())
        } else {
            self.placed(&entry.text, place, entry.level)
        };
        let known = usize::try_from(here).ok();
        if let Some(known) = known.and_then(|at| self.entries.get_mut(at))
            && entry.chunk < known.chunk
        {
            (known.level, known.chunk) = (entry.level, entry.chunk);
            known.text.clone_from(&entry.text);
        }
        here
    }

    fn number(
        &mut self,
        hash: u64,
        is_same: impl Fn(&Entry) -> bool,
        new: impl FnOnce() -> Entry,
    ) -> u64 {
        let entries = &self.entries;
        let same = |number: &u32| entries.get(*number as usize).is_some_and(&is_same);
        if let Some(number) = self.numbers.find(hash, same) {
            return u64::from(*number);
        }
        if self.entries.len() >= NAMES_MAX {
            return NAMES_MAX as u64 - 1;
        }
        let number = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let chunk = self.chunk;
        self.entries.push(Entry {
            hash,
            chunk,
            ..new()
        });
        let entries = &self.entries;
        let hash_of = |number: &u32| entries.get(*number as usize).map_or(0, |entry| entry.hash);
        self.numbers.insert_unique(hash, number, hash_of);
        u64::from(number)
    }

    /// Text, place and level of a number.
    pub(super) fn get(&self, number: u64) -> (&str, Place, char) {
        let entry = usize::try_from(number)
            .ok()
            .and_then(|at| self.entries.get(at));
        entry.map_or(("", [0; 3], ' '), |entry| {
            (&entry.text, entry.place, entry.level)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_at_a_place_has_one_number() {
        let mut names = Names::default();
        let main = names.placed("main", [1, 2, 0], '.');
        assert_eq!(names.placed("main", [1, 2, 0], 'k'), main);
        assert_ne!(names.placed("main", [1, 3, 0], '.'), main);
        assert_ne!(names.placed("main2", [1, 2, 0], '.'), main);
        assert_eq!(names.get(main), ("main", [1, 2, 0], '.'));
        assert_eq!(names.get(99).0, "");
    }

    #[test]
    fn a_place_keeps_its_first_text() {
        let mut names = Names::default();
        let one = names.first([7, 0, 0], 'k', || "a".into());
        assert_eq!(names.first([7, 0, 0], '.', || "b".into()), one);
        assert_ne!(names.first([8, 0, 0], '.', || "a".into()), one);
        assert_eq!(names.get(one), ("a", [7, 0, 0], 'k'));
    }

    #[test]
    fn thousands_of_texts_keep_their_numbers() {
        let mut names = Names::default();
        let numbers: Vec<u64> = (0..5000).map(|n| names.text(&format!("f{n}"))).collect();
        for (n, number) in numbers.iter().enumerate() {
            assert_eq!(names.get(*number).0, format!("f{n}"));
            assert_eq!(names.text(&format!("f{n}")), *number);
        }
    }
}
