//! Numbers of symbols by their place: two looks into arrays, as this is asked for every sample.

use memwide_decoder::ObjectIx;
use memwide_objects::SymbolRef;

/// Numbers by object and symbol.
#[derive(Debug, Default)]
pub(super) struct SymbolNumbers {
    /// By object: by symbol the number and 1; 0 where there is none yet.
    objects: Vec<Vec<u32>>,
}

impl SymbolNumbers {
    /// The number of a symbol.
    #[inline]
    pub(super) fn get(&self, object: ObjectIx, symbol: SymbolRef) -> Option<u64> {
        let number = *self.objects.get(object.index())?.get(symbol.index())?;
        number.checked_sub(1).map(u64::from)
    }

    /// Sets it.
    pub(super) fn set(&mut self, object: ObjectIx, symbol: SymbolRef, number: u64) {
        let next = number.checked_add(1).and_then(|n| u32::try_from(n).ok());
        let Some(entry) = next else {
            return; // asked for anew each time
        };
        if self.objects.len() <= object.index() {
            self.objects.resize_with(object.index() + 1, Vec::new);
        }
        let Some(symbols) = self.objects.get_mut(object.index()) else {
            return;
        };
        let at = symbol.index();
        if symbols.len() <= at {
            symbols.resize((at + 1).next_power_of_two(), 0);
        }
        if let Some(place) = symbols.get_mut(at) {
            *place = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_decoder::Objects;
    use memwide_decoder::{Identity, Kind, What};
    use memwide_objects::{Flags, Index, Source, Symbol, SymbolsBuilder};

    #[test]
    fn numbers_are_kept_by_object_and_symbol() {
        let mut objects = Objects::default();
        let mut object = |id: u8| {
            let identity = Identity::new(Kind::BuildId, &[id; 20], "/bin/a");
            objects.intern(identity, What::File, 0).unwrap()
        };
        let (one, other) = (object(1), object(2));
        let mut symbols = SymbolsBuilder::default();
        for start in [0, 16, 32] {
            let (name, source, flags) = ("f", Source::SymTab, Flags::NONE);
            let size = 16;
            symbols.push(Symbol {
                start,
                size,
                name,
                source,
                flags,
            });
        }
        let index = Index::build(&symbols.finish());
        let (first, last) = (index.lookup(0).unwrap(), index.lookup(40).unwrap());
        let mut numbers = SymbolNumbers::default();
        numbers.set(other, last, 0);
        numbers.set(other, first, 7);
        assert_eq!(numbers.get(other, last), Some(0));
        assert_eq!(numbers.get(other, first), Some(7));
        assert_eq!(numbers.get(one, last), None);
        numbers.set(one, first, u64::MAX);
        assert_eq!(numbers.get(one, first), None);
    }
}
