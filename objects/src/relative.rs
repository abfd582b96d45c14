//! The kernel's symbols as distances from its start, which are the same at each boot (KASLR) and on each host.

use crate::loads::address_of_symbol;
use crate::places::Places;
use crate::{Flags, KernelFileError, Limits, ObjectId, SymbolTable, Symbols, SymbolsBuilder};

/// Symbols that stand where the kernel's code begins, the better one first.
pub const KERNEL_STARTS: [&str; 2] = ["_text", "_stext"];

/// Set in every address of a 64-bit kernel.
const KERNEL_BIT: u64 = 1 << 63;

/// Shortest build id, in bytes.
const BUILD_ID_MIN: usize = 16;

/// A linked kernel (`vmlinux`), by what its file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedKernel {
    /// Address that it is linked to begin at.
    start: u64,
}

impl LinkedKernel {
    /// Of a file, or of what [`crate::read_image`] read of it. With a build id the file must have it; what is shorter than
    /// one stands for a release, which files do not tell.
    pub fn of(file: &[u8], build_id: Option<&[u8]>) -> Result<Self, KernelFileError> {
        // Every alias counts: of `_text` and what else begins there a table keeps one.
        let start = address_of_symbol(file, &KERNEL_STARTS).filter(|start| *start >= KERNEL_BIT);
        let start = start.ok_or(KernelFileError::NoStart)?;
        let is_other = |id: &&[u8]| ObjectId::of_elf(file).is_none_or(|own| own.as_bytes() != *id);
        let id = build_id.filter(|id| id.len() >= BUILD_ID_MIN);
        if id.as_ref().is_some_and(is_other) {
            return Err(KernelFileError::OtherBuild);
        }
        Ok(Self { start })
    }

    /// Address that it is linked to begin at: `_text`, else `_stext`.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Its symbols as distances from there.
    pub fn table(&self, file: &[u8], limits: &Limits) -> Result<SymbolTable, KernelFileError> {
        let table = SymbolTable::from_elf(file, limits)?;
        Ok(table.relative_to(self.start))
    }
}

impl SymbolTable {
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
