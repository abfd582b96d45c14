//! Where functions begin that no table of symbols names: what unwinders must know of them, a stripped program still says.

use crate::{Flags, FrameSections, Limits, Source, Symbol, SymbolTable, Symbols, SymbolsBuilder};
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection as _};

/// Start and size, in bytes, of a function.
type Extent = (u64, u64);

impl SymbolTable {
    /// Adds the functions that `frames` tells of and that no symbol covers: with a start, a size and no name.
    ///
    /// So a function has its id before anybody knows its name, and a better table names what was stored meanwhile. Only for
    /// files without a full table of symbols; names stay those that perf shows.
    pub fn add_starts(&mut self, frames: &FrameSections, limits: &Limits) {
        let room = limits.symbols.saturating_sub(self.functions.len());
        let mut extents = extents(frames, room);
        extents.sort_unstable();
        extents.dedup_by_key(|(start, _)| *start);
        if !extents.is_empty() {
            self.functions = merged(&self.functions, &extents);
        }
    }
}

/// Of every entry of `.eh_frame` up to the first that makes no sense.
fn extents(frames: &FrameSections, room: usize) -> Vec<Extent> {
    let Some((range, bytes)) = &frames.eh_frame else {
        return Vec::new();
    };
    let mut bases = BaseAddresses::default().set_eh_frame(range.start);
    if let Some(text) = &frames.text {
        bases = bases.set_text(text.start);
    }
    if let Some(got) = &frames.got {
        bases = bases.set_got(got.start);
    }
    let section = EhFrame::new(bytes, LittleEndian);
    let mut found = Vec::new();
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if found.len() >= room {
            break;
        }
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        let (start, size) = (fde.initial_address(), fde.len());
        if start != 0 && size != 0 && start.checked_add(size).is_some() {
            found.push((start, size));
        }
    }
    found
}

/// Symbols and those extents that begin in none of them. A symbol whose size was guessed gives way.
fn merged(symbols: &Symbols, extents: &[Extent]) -> Symbols {
    let mut builder = SymbolsBuilder::with_capacity(symbols.len() + extents.len());
    let mut known = symbols.iter().peekable();
    let (mut covered, mut last) = (0, None);
    for (start, size) in extents {
        while let Some(symbol) = known.next_if(|symbol| symbol.start <= *start) {
            if !symbol.flags.has(Flags::SIZE_GUESSED) {
                covered = covered.max(symbol.end());
            }
            last = Some(symbol.start);
        }
        if last != Some(*start) && *start >= covered {
            builder.push(Symbol {
                start: *start,
                size: *size,
                name: "",
                source: Source::None,
                flags: Flags::NONE,
            });
        }
    }
    for symbol in symbols.iter() {
        builder.push(symbol);
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Segments;
    use std::io::Cursor;

    fn symbols(of: &[(u64, u64, &str, Flags)]) -> Symbols {
        let mut builder = SymbolsBuilder::default();
        for (start, size, name, flags) in of {
            builder.push(Symbol {
                start: *start,
                size: *size,
                name,
                source: Source::DynSym,
                flags: *flags,
            });
        }
        builder.finish()
    }

    #[test]
    fn starts_in_a_symbol_are_known_already() {
        let known = symbols(&[
            (0x100, 0x40, "sized", Flags::NONE),
            (0x200, 0x100, "guessed", Flags::SIZE_GUESSED),
        ]);
        let all = merged(
            &known,
            &[
                (0x80, 0x10),
                (0x100, 0x40),
                (0x120, 8),
                (0x200, 0x10),
                (0x240, 0x20),
            ],
        );
        let found: Vec<_> = all.iter().map(|one| (one.start, one.name)).collect();
        assert_eq!(
            found,
            [
                (0x80, ""),
                (0x100, "sized"),
                (0x200, "guessed"),
                (0x240, "")
            ]
        );
    }

    #[test]
    fn the_running_program_has_its_functions_starts_without_a_table_of_symbols() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let named = SymbolTable::from_elf(&whole, &Limits::default()).unwrap();
        let frames = FrameSections::read(&mut Cursor::new(&whole), whole.len() as u64).unwrap();
        let mut bare =
            SymbolTable::from_parts(Segments::default(), Symbols::default(), Symbols::default());
        bare.add_starts(&frames, &Limits::default());
        let starts = bare.functions();
        let sized = named
            .functions()
            .iter()
            .filter(|symbol| !symbol.flags.has(Flags::SIZE_GUESSED) && symbol.size > 0);
        let (mut all, mut same) = (0, 0);
        for symbol in sized {
            all += 1;
            same += u32::from(starts.starting_at(symbol.start).is_some());
        }
        assert!(all > 100 && same * 10 > all * 9, "{same} of {all}");
        let few = Limits {
            symbols: 10,
            ..Limits::default()
        };
        let mut bounded = SymbolTable::default();
        bounded.add_starts(&frames, &few);
        assert_eq!(bounded.functions().len(), 10);
    }

    #[test]
    fn damaged_frames_give_what_came_before_the_damage() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut frames = FrameSections::read(&mut Cursor::new(&whole), whole.len() as u64).unwrap();
        let (range, bytes) = frames.eh_frame.clone().unwrap();
        let before = extents(&frames, usize::MAX).len();
        for step in [3, 64, 1_000] {
            let mut damaged = bytes.to_vec();
            damaged
                .iter_mut()
                .skip(bytes.len() / 2)
                .step_by(step)
                .for_each(|byte| *byte ^= 0x5a);
            frames.eh_frame = Some((range.clone(), damaged.into()));
            let mut table = SymbolTable::default();
            table.add_starts(&frames, &Limits::default());
            assert!(table.functions().len() <= 2 * before);
        }
    }
}
