//! Texts that repeat, once each.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Most different texts kept; the last place stands for all beyond.
const NAMES_MAX: usize = 1 << 20;

/// Place of a text in [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NameIx(pub(crate) u32);

/// Texts by place.
#[derive(Debug, Default)]
pub struct Names {
    texts: Vec<Arc<str>>,
    places: FxHashMap<Arc<str>, NameIx>,
}

impl Names {
    /// The place of a text, which is entered if it is new.
    pub fn intern(&mut self, text: &str) -> NameIx {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        if self.texts.len() >= NAMES_MAX {
            return NameIx(u32::MAX);
        }
        let place = NameIx(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.places.insert(text, place);
        place
    }

    /// The text at a place.
    pub fn get(&self, place: NameIx) -> &str {
        self.texts
            .get(place.0 as usize)
            .map_or("[too many names]", |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_place() {
        let mut names = Names::default();
        let (one, two) = (names.intern("a"), names.intern("b"));
        assert_ne!(one, two);
        assert_eq!(names.intern("a"), one);
        assert_eq!((names.get(one), names.get(two)), ("a", "b"));
        assert_eq!(names.get(NameIx(u32::MAX)), "[too many names]");
    }
}
