//! Things by number, each once: what tables of profiles are made of.

use std::collections::BTreeMap;

/// Things in the order in which they were met.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    numbers: BTreeMap<T, usize>,
    all: Vec<T>,
}

impl<T: Ord + Clone> Numbered<T> {
    pub(super) const fn new() -> Self {
        Self {
            numbers: BTreeMap::new(),
            all: Vec::new(),
        }
    }

    /// With a thing that has the number 0.
    pub(super) fn of(first: &T) -> Self {
        let mut numbered = Self::new();
        numbered.number(first);
        numbered
    }

    /// The number of a thing; a new one gets the next.
    pub(super) fn number(&mut self, thing: &T) -> usize {
        if let Some(known) = self.numbers.get(thing) {
            return *known;
        }
        let number = self.all.len();
        self.all.push(thing.clone());
        self.numbers.insert(thing.clone(), number);
        number
    }

    pub(super) fn all(&self) -> &[T] {
        &self.all
    }
}

impl Numbered<String> {
    /// The number of a text, as fields of messages have it.
    pub(super) fn text(&mut self, text: &str) -> u64 {
        self.number(&text.to_owned()) as u64
    }
}
