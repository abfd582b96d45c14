//! Texts that are written again and again, kept as they were written first.

use super::Line;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::ops::Range;

/// Most bytes kept; what comes beyond is written anew each time. Hostile files must not fill memory.
const BYTES_MAX: usize = 64 << 20;

/// Texts by what they are of.
#[derive(Debug)]
pub(super) struct Texts<K> {
    bytes: Vec<u8>,
    places: FxHashMap<K, Range<usize>>,
}

impl<K> Default for Texts<K> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            places: FxHashMap::default(),
        }
    }
}

impl<K: Hash + Eq> Texts<K> {
    /// Appends the text of a key: as it was written before, or as `write` does.
    pub(super) fn write(&mut self, line: &mut Line, key: Option<K>, write: impl FnOnce(&mut Line)) {
        let known = key.as_ref().and_then(|key| self.places.get(key));
        if let Some(known) = known.and_then(|place| self.bytes.get(place.clone())) {
            line.bytes_of(known);
            return;
        }
        let before = line.bytes().len();
        write(line);
        let text = line.bytes().get(before..).unwrap_or_default();
        let start = self.bytes.len();
        if let Some(key) = key
            && start + text.len() <= BYTES_MAX
        {
            self.bytes.extend_from_slice(text);
            self.places.insert(key, start..self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_once_and_kept() {
        let (mut texts, mut line) = (Texts::default(), Line::default());
        texts.write(&mut line, Some(1), |line| line.raw("one "));
        texts.write(&mut line, Some(2), |line| line.raw("two "));
        texts.write(&mut line, Some(1), |line| line.raw("other "));
        texts.write(&mut line, None, |line| line.raw("none"));
        assert_eq!(line.bytes(), b"one two one none");
    }

    #[test]
    fn what_is_too_much_is_written_each_time() {
        let (mut texts, mut line) = (Texts::default(), Line::default());
        let long = "a".repeat(BYTES_MAX);
        texts.write(&mut line, Some(1), |line| line.raw(&long));
        line.clear();
        texts.write(&mut line, Some(2), |line| line.raw("first "));
        texts.write(&mut line, Some(2), |line| line.raw("second"));
        assert_eq!(line.bytes(), b"first second");
    }
}
