//! Texts with a number each.

use rustc_hash::FxHashMap;

/// Most different texts kept; what comes beyond shares one number. Hostile files must not fill memory.
const NAMES_MAX: usize = 1 << 22;

/// Texts by number, numbers by text.
#[derive(Debug, Default)]
pub struct Names {
    texts: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, NameId>,
}

/// The number of a text within one [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(u32);

impl Names {
    /// The number of a text.
    pub fn intern(&mut self, text: &str) -> NameId {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let (text, is_full) = if self.texts.len() < NAMES_MAX {
            (text, false)
        } else {
            ("[other]", true)
        };
        if is_full && let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let number = NameId(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// The text of a number.
    pub fn get(&self, name: NameId) -> &str {
        self.texts.get(name.0 as usize).map_or("", |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number() {
        let mut names = Names::default();
        let (one, other) = (names.intern("read"), names.intern("write"));
        assert_ne!(one, other);
        assert_eq!(names.intern("read"), one);
        assert_eq!((names.get(one), names.get(other)), ("read", "write"));
    }
}
