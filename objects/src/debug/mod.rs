//! What a compiler tells of code: source lines and inlined functions, from DWARF.
//!
//! ```text
//! address ─▶ unit (by its ranges) ─▶ function tree ─▶ innermost function, whose callers are known
//!                                 └▶ line rows ────▶ file, line, column of the innermost
//! ```
//!
//! Units are read when an address first falls into them. Everything read, skipped or kept is paid for from a [`Budget`] that
//! grows with the file: damaged and hostile information is refused in bounded time and memory, see [`DebugError::Effort`].

mod budget;
mod error;
mod frames;
mod functions;
mod lines;
mod links;
mod names;
mod sections;
mod units;

pub use error::DebugError;
pub use frames::FrameSections;
pub use lines::LineRow;
pub use links::{DebugLink, LinkSections, crc32};
pub use sections::DebugSections;

use budget::Budget;
use functions::Functions;
use gimli::{Dwarf, EndianSlice, RunTimeEndian};
use lines::Lines;
use names::Files;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Units;

/// A view of bytes in the file's byte order.
type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

/// Bytes of tables kept at once; above, all are dropped and read again when asked for.
const TABLES_MAX: usize = 512 << 20;

/// One function of the chain that an address stands for, innermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFrame {
    /// Name as linked where there is one, else as written; not demangled. `None` if not known.
    pub function: Option<Arc<str>>,
    /// Path as compiled, made absolute where the compiler's folder is known. `None` if not known.
    pub file: Option<Arc<str>>,
    /// Line from 1; 0 if not known.
    pub line: u32,
    /// Column from 1; 0 if not known.
    pub column: u32,
}

/// What was read of one unit.
#[derive(Debug)]
struct Tables {
    lines: Lines,
    functions: Functions,
}

/// Debug information of one file.
#[derive(Debug)]
pub struct DebugInfo {
    sections: DebugSections,
    /// What several files share (`.gnu_debugaltlink`).
    shared: Option<DebugSections>,
    units: Units,
    shared_units: Units,
    tables: BTreeMap<usize, Result<Arc<Tables>, DebugError>>,
    tables_bytes: usize,
    /// Names by unit and entry: each is paid for once, however many addresses are asked for.
    names: BTreeMap<(usize, usize), Option<Arc<str>>>,
    budget: Budget,
}

impl DebugInfo {
    /// Finds the units of a file's sections. `shared` is the file its `.gnu_debugaltlink` names, if it has one.
    pub fn new(sections: DebugSections, shared: Option<DebugSections>) -> Result<Self, DebugError> {
        if !sections.has_units() {
            return Err(DebugError::None);
        }
        let bytes = sections.len() + shared.as_ref().map_or(0, DebugSections::len);
        let mut budget = Budget::of(bytes);
        let units = Units::find(&dwarf_of(&sections, shared.as_ref()), &mut budget)?;
        let shared_units = match &shared {
            Some(shared) => Units::find(&shared.dwarf(), &mut budget)?,
            None => Units::default(),
        };
        Ok(Self {
            shared_units,
            sections,
            shared,
            units,
            tables: BTreeMap::new(),
            tables_bytes: 0,
            names: BTreeMap::new(),
            budget,
        })
    }

    /// The functions at an ELF virtual address with their places in the source, innermost first; empty where nothing is
    /// known. The address is of this file: debug files have the addresses of the file they belong to.
    pub fn frames(&mut self, address: u64) -> Result<Vec<SourceFrame>, DebugError> {
        let Some(unit) = self.units.at(address) else {
            return Ok(Vec::new());
        };
        let tables = self.tables(unit)?;
        let row = tables.lines.at(address);
        let mut place = row.map(|row| (tables.lines.file(row.file), row.line, row.column));
        let mut frames = Vec::new();
        for node in tables.functions.chain(address) {
            let function = self.name(unit, node.entry)?;
            let (file, line, column) = place.take().unwrap_or((None, 0, 0));
            frames.push(SourceFrame {
                function,
                file,
                line,
                column,
            });
            place = Some((
                tables.lines.file(node.call_file),
                node.call_line,
                node.call_column,
            ));
        }
        if frames.is_empty()
            && let Some((file, line, column)) = place
        {
            frames.push(SourceFrame {
                function: None,
                file,
                line,
                column,
            });
        }
        Ok(frames)
    }

    /// The rows of the line table within `start..end`, in ascending order; the first may begin before `start`.
    pub fn rows(&mut self, start: u64, end: u64) -> Result<Vec<LineRow>, DebugError> {
        let Some(unit) = self.units.at(start) else {
            return Ok(Vec::new());
        };
        Ok(self.tables(unit)?.lines.within(start, end))
    }

    fn tables(&mut self, unit: usize) -> Result<Arc<Tables>, DebugError> {
        if let Some(known) = self.tables.get(&unit) {
            return known.clone();
        }
        if self.tables_bytes > TABLES_MAX {
            self.tables.clear();
            self.tables_bytes = 0;
        }
        let read = self.read(unit).map(Arc::new);
        if let Ok(tables) = &read {
            self.tables_bytes += tables.lines.bytes() + tables.functions.bytes();
        }
        self.tables.insert(unit, read.clone());
        read
    }

    fn read(&mut self, unit: usize) -> Result<Tables, DebugError> {
        let dwarf = dwarf_of(&self.sections, self.shared.as_ref());
        let budget = &mut self.budget;
        let opened = self.units.open(&dwarf, unit, budget)?;
        Ok(Tables {
            lines: Lines::read(&dwarf, &opened, budget)?,
            functions: Functions::read(&dwarf, &opened.unit, budget)?,
        })
    }

    fn name(&mut self, unit: usize, entry: usize) -> Result<Option<Arc<str>>, DebugError> {
        if let Some(known) = self.names.get(&(unit, entry)) {
            return Ok(known.clone());
        }
        let dwarf = dwarf_of(&self.sections, self.shared.as_ref());
        let mut files = Files {
            own: &mut self.units,
            shared: &mut self.shared_units,
        };
        let name = names::of(&dwarf, &mut files, unit, entry, &mut self.budget)?;
        self.names.insert((unit, entry), name.clone());
        Ok(name)
    }
}

/// The sections as gimli wants them; costs nothing.
fn dwarf_of<'a>(
    sections: &'a DebugSections,
    shared: Option<&'a DebugSections>,
) -> Dwarf<Bytes<'a>> {
    let mut dwarf = sections.dwarf();
    if let Some(shared) = shared {
        dwarf.set_sup(shared.dwarf());
    }
    dwarf
}
