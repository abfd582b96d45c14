//! The kernel's symbols as distances from its start, which are the same at each boot (KASLR) and on each host.

use crate::places::Places;
use crate::{Flags, SymbolTable, Symbols, SymbolsBuilder};

/// Symbols that stand where the kernel's code begins, the better one first.
pub const KERNEL_STARTS: [&str; 2] = ["_text", "_stext"];

/// Set in every address of a 64-bit kernel.
const KERNEL_BIT: u64 = 1 << 63;

impl SymbolTable {
    /// Where the code of a linked kernel (`vmlinux`) begins: `_text`, else `_stext`. `None` for every other file.
    pub fn kernel_start(&self) -> Option<u64> {
        let mut code = self.segments.as_slice().iter();
        let is_kernel = code.any(|segment| segment.flags & 1 != 0 && segment.vaddr >= KERNEL_BIT);
        let named = |name: &str| {
            let mut all = self.functions.iter().chain(self.objects.iter());
            all.find(|symbol| symbol.name == name)
                .map(|symbol| symbol.start)
                .filter(|start| *start >= KERNEL_BIT)
        };
        let start = || KERNEL_STARTS.iter().find_map(|name| named(name));
        is_kernel.then(start).flatten()
    }

    /// The same symbols as distances from `base`, without segments. What lies below is per-CPU: no place in memory.
    #[must_use]
    pub fn relative_to(&self, base: u64) -> Self {
        let place = |symbol: u64| symbol.checked_sub(base);
        let moved = |symbols: &Symbols| {
            let mut builder = SymbolsBuilder::with_capacity(symbols.len());
            for symbol in symbols.iter() {
                if let Some(start) = place(symbol.start)
                    && !symbol.flags.has(Flags::TLS)
                {
                    builder.push(crate::Symbol { start, ..symbol });
                }
            }
            builder.finish()
        };
        let kept = |at: &usize| {
            let symbol = self.functions.get(*at);
            symbol.is_some_and(|symbol| {
                place(symbol.start).is_some() && !symbol.flags.has(Flags::TLS)
            })
        };
        let of = self.places.of.iter().enumerate();
        let places = Places {
            files: self.places.files.clone(),
            of: of.filter(|(at, _)| kept(at)).map(|(_, of)| *of).collect(),
        };
        Self {
            segments: crate::Segments::default(),
            functions: moved(&self.functions),
            objects: moved(&self.objects),
            thread_locals: Symbols::default(),
            gaps: self.gaps,
            malformed: self.malformed,
            places,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Segment, Segments, Source, Symbol};

    const START: u64 = 0xffff_ffff_8100_0000;

    fn table(vaddr: u64) -> SymbolTable {
        let symbols = |all: &[(&str, u64)]| {
            let mut builder = SymbolsBuilder::default();
            for (name, start) in all {
                builder.push(Symbol {
                    start: *start,
                    size: 16,
                    name,
                    source: Source::SymTab,
                    flags: Flags::default(),
                });
            }
            builder.finish()
        };
        let code = Segment {
            vaddr,
            offset: 0x1000,
            file_size: 0x1000,
            mem_size: 0x1000,
            flags: 5,
        };
        let functions = [
            ("percpu_code", 0x10),
            ("_text", START),
            ("work", START + 0x40),
        ];
        let mut table = SymbolTable::from_parts(
            Segments::new(vec![code]),
            symbols(&functions),
            symbols(&[("jiffies", START + 0x100_0000)]),
        );
        table.places = Places {
            files: vec!["kernel/work.c".into()],
            of: vec![(1, 1), (0, 0), (1, 40)],
        };
        table
    }

    #[test]
    fn a_linked_kernel_is_known_by_where_its_code_lies() {
        assert_eq!(table(START).kernel_start(), Some(START));
        assert_eq!(table(0x40_0000).kernel_start(), None, "a program");
        let nameless = SymbolTable::default().with_segments(table(START).segments().clone());
        assert_eq!(nameless.kernel_start(), None);
    }

    #[test]
    fn symbols_keep_names_and_places_and_lose_what_lies_below() {
        let relative = table(START).relative_to(START);
        let starts = |symbols: &Symbols| {
            let all = symbols
                .iter()
                .map(|symbol| (symbol.name.to_owned(), symbol.start));
            all.collect::<Vec<_>>()
        };
        assert_eq!(
            starts(relative.functions()),
            [("_text".to_owned(), 0), ("work".to_owned(), 0x40)]
        );
        assert_eq!(
            starts(relative.objects()),
            [("jiffies".to_owned(), 0x100_0000)]
        );
        assert_eq!(relative.source_of(1), Some(("kernel/work.c", 40)));
        assert_eq!(relative.source_of(0), None);
        assert!(relative.segments().as_slice().is_empty());
    }
}
