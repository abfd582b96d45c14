//! Whether a module's file tells where its code lies: kallsyms knows, where it is there.

use std::collections::BTreeMap;

use crate::{SymbolTable, Symbols};

/// Of so many functions one may lie elsewhere: names of two files may be one.
const ONE_OF: usize = 20;

impl SymbolTable {
    /// Whether the functions of a module lie as in a table of the loaded one. Names that occur twice tell nothing.
    pub fn is_laid_out_as(&self, loaded: &Self) -> bool {
        let known = once(&loaded.functions);
        let own = once(&self.functions);
        let both = own.iter().filter_map(|(name, start)| {
            let known = known.get(name)?.as_ref()?;
            Some((*start)? == *known)
        });
        let (mut same, mut all) = (0, 0);
        for is_same in both {
            all += 1;
            same += usize::from(is_same);
        }
        (all - same) * ONE_OF <= all
    }

    /// The same code with the data of another table.
    #[must_use]
    pub fn with_objects_of(self, other: &Self) -> Self {
        Self {
            objects: other.objects.clone(),
            ..self
        }
    }
}

/// Starts by name; `None` where the name occurs more than once.
fn once(symbols: &Symbols) -> BTreeMap<&str, Option<u64>> {
    let mut found = BTreeMap::new();
    for symbol in symbols.iter() {
        let entry = found.entry(symbol.name);
        entry
            .and_modify(|start| *start = None)
            .or_insert(Some(symbol.start));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, Segments, Source, Symbol, SymbolsBuilder};

    fn table(functions: &[(&str, u64)]) -> SymbolTable {
        let mut builder = SymbolsBuilder::default();
        for (name, start) in functions {
            builder.push(Symbol {
                start: *start,
                size: 16,
                name,
                source: Source::SymTab,
                flags: Flags::NONE,
            });
        }
        SymbolTable::from_parts(Segments::default(), builder.finish(), Symbols::default())
    }

    #[test]
    fn names_that_occur_once_tell_whether_the_layout_is_right() {
        let file = table(&[
            ("one", 0),
            ("two", 16),
            ("twice", 32),
            ("twice", 48),
            ("new", 64),
        ]);
        let check = |loaded: &[(&str, u64)]| file.is_laid_out_as(&table(loaded));
        assert!(check(&[
            ("one", 0),
            ("two", 16),
            ("twice", 96),
            ("other", 112)
        ]));
        assert!(!check(&[("one", 0), ("two", 32)]));
        assert!(check(&[]), "nothing is known against it");
        let many: Vec<String> = (0..40).map(|at| format!("f{at}")).collect();
        let laid = |moved: usize| {
            let starts = (0..40_u64).map(|at| at * 16 + u64::from(at >= 40 - moved as u64));
            let all: Vec<_> = many.iter().map(String::as_str).zip(starts).collect();
            table(&all)
        };
        assert!(laid(0).is_laid_out_as(&laid(2)));
        assert!(!laid(0).is_laid_out_as(&laid(3)));
    }
}
