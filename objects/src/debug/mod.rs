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
mod content;
mod error;
mod frames;
mod functions;
mod lines;
mod links;
mod members;
mod names;
mod sections;
mod split;
mod types;
mod units;
mod variables;

pub use error::DebugError;
pub use frames::FrameSections;
pub use lines::LineRow;
pub use links::{DebugLink, LinkSections, crc32};
pub use members::DataMember;
pub use sections::DebugSections;
pub use split::{SplitFiles, SplitName};

use budget::Budget;
use content::{Content, Part, Place};
use functions::Functions;
use gimli::{EndianSlice, RunTimeEndian};
use lines::Lines;
use split::AllUnits;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{Source, Types};
use units::Units;
use variables::Variables;

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
    /// Where the functions are.
    body: Option<(Part, usize)>,
}

/// Debug information of one file.
#[derive(Debug)]
pub struct DebugInfo {
    content: Content,
    units: AllUnits,
    split_files: Option<Box<dyn SplitFiles>>,
    tables: BTreeMap<usize, Result<Arc<Tables>, DebugError>>,
    tables_bytes: usize,
    /// Names by entry: each is paid for once, however many addresses are asked for.
    names: BTreeMap<Place, Option<Arc<str>>>,
    variables: Option<Result<Arc<Variables>, DebugError>>,
    types: Types,
    budget: Budget,
    /// What addresses asked for are distances from.
    start: u64,
}

impl DebugInfo {
    /// Finds the units of a file's sections. `shared` is the file its `.gnu_debugaltlink` names, if it has one.
    pub fn new(sections: DebugSections, shared: Option<DebugSections>) -> Result<Self, DebugError> {
        Self::with_package(sections, shared, None)
    }

    /// The same; `package` has what was split off (`.dwp`), read by [`DebugSections::read_split`].
    pub fn with_package(
        sections: DebugSections,
        shared: Option<DebugSections>,
        package: Option<DebugSections>,
    ) -> Result<Self, DebugError> {
        if !sections.has_units() {
            return Err(DebugError::None);
        }
        let start = sections.base();
        let content = Content {
            own: sections,
            shared,
            package,
            splits: Vec::new(),
        };
        let mut budget = Budget::of(content.len());
        let mut units = AllUnits::default();
        units.own = Units::find(&content.dwarf(Part::Own)?, None, &mut budget)?;
        if content.shared.is_some() {
            units.shared = Units::find(&content.dwarf(Part::Shared)?, None, &mut budget)?;
        }
        Ok(Self {
            content,
            units,
            split_files: None,
            tables: BTreeMap::new(),
            tables_bytes: 0,
            names: BTreeMap::new(),
            variables: None,
            types: Types::default(),
            budget,
            start,
        })
    }

    /// Takes split files (`.dwo`) from here, each when it is first needed.
    #[must_use]
    pub fn with_split_files(mut self, files: Box<dyn SplitFiles>) -> Self {
        self.split_files = Some(files);
        self
    }

    /// Takes addresses as distances from `start` instead, as those of the kernel are, see [`SymbolTable::relative_to`].
    ///
    /// [`SymbolTable::relative_to`]: crate::SymbolTable::relative_to
    #[must_use]
    pub fn from_start(mut self, start: u64) -> Self {
        self.start = start;
        self
    }

    /// Split files that were needed and not found, or not believed, each with the reason; and how many more there are.
    pub fn split_refusals(&self) -> (&[String], usize) {
        self.units.refusals()
    }

    /// The functions at an ELF virtual address with their places in the source, innermost first; empty where nothing is
    /// known. The address is of this file: debug files have the addresses of the file they belong to.
    pub fn frames(&mut self, address: u64) -> Result<Vec<SourceFrame>, DebugError> {
        let address = address.wrapping_add(self.start);
        let Some(unit) = self.units.own.at(address) else {
            return Ok(Vec::new());
        };
        let tables = self.tables(unit)?;
        let row = tables.lines.at(address);
        let mut place = row.map(|row| (tables.lines.file(row.file), row.line, row.column));
        let mut frames = Vec::new();
        if let Some((part, unit)) = tables.body {
            for node in tables.functions.chain(address) {
                let entry = node.entry;
                let function = self.name(Place { part, unit, entry })?;
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
        let Some(unit) = self.units.own.at(start) else {
            return Ok(Vec::new());
        };
        Ok(self.tables(unit)?.lines.within(start, end))
    }

    /// The variable at an ELF virtual address, and its member there. Reads all units when first asked.
    pub fn member(&mut self, address: u64) -> Result<Option<DataMember>, DebugError> {
        let address = address.wrapping_add(self.start);
        let found = self.variables()?.before(address);
        let mut found = self.member_of(found, address)?;
        if let Some(found) = &mut found {
            found.start = found.start.wrapping_sub(self.start);
        }
        Ok(found)
    }

    fn member_of(
        &mut self,
        found: Option<(u64, Place)>,
        address: u64,
    ) -> Result<Option<DataMember>, DebugError> {
        let Some((start, variable)) = found else {
            return Ok(None);
        };
        let mut source = Source {
            content: &mut self.content,
            units: &mut self.units,
            budget: &mut self.budget,
        };
        let kind = self.types.of_variable(&mut source, variable)?;
        let Some(kind) = kind else { return Ok(None) };
        let path = members::path(&mut self.types, &mut source, kind, address - start)?;
        let Some((path, rest)) = path else {
            return Ok(None);
        };
        Ok(Some(DataMember {
            variable: self.name(variable)?,
            start,
            path,
            rest,
        }))
    }

    fn variables(&mut self) -> Result<Arc<Variables>, DebugError> {
        if let Some(known) = &self.variables {
            return known.clone();
        }
        let (content, units) = (&mut self.content, &mut self.units);
        let files = self.split_files.as_deref_mut();
        let read = Variables::read(content, units, files, &mut self.budget).map(Arc::new);
        self.variables = Some(read.clone());
        read
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
        let files = self.split_files.as_deref_mut();
        let (content, budget) = (&mut self.content, &mut self.budget);
        let mut body = self.units.body(content, files, unit, budget)?;
        let functions = match self.functions(body) {
            Err(wrong) => {
                let files = self.split_files.as_deref_mut();
                let (content, budget) = (&mut self.content, &mut self.budget);
                let units = &mut self.units;
                body = units.body_beside_package(content, files, unit, wrong, budget)?;
                self.functions(body)?
            }
            Ok(functions) => functions,
        };
        let dwarf = self.content.dwarf(Part::Own)?;
        let opened = self.units.own.open(&dwarf, unit, &mut self.budget)?;
        let lines = Lines::read(&dwarf, &opened, &mut self.budget)?;
        Ok(Tables {
            lines,
            functions,
            body,
        })
    }

    fn functions(&mut self, body: Option<(Part, usize)>) -> Result<Functions, DebugError> {
        let Some((part, unit)) = body else {
            return Ok(Functions::default());
        };
        let dwarf = self.content.dwarf(part)?;
        let opened = self.units.of(part).open(&dwarf, unit, &mut self.budget)?;
        Functions::read(&dwarf, &opened.unit, &mut self.budget)
    }

    fn name(&mut self, place: Place) -> Result<Option<Arc<str>>, DebugError> {
        if let Some(known) = self.names.get(&place) {
            return Ok(known.clone());
        }
        let name = names::of(&self.content, &mut self.units, place, &mut self.budget)?;
        self.names.insert(place, name.clone());
        Ok(name)
    }
}
