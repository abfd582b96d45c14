//! All that one file says about its addresses.

use crate::places::Places;
use crate::{Limits, ObjectError, Segments, Source, Symbols, elf};

/// Something a table had to leave out, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Gap {
    /// The section headers cannot be read: without them no symbol is found.
    NoSections = 0,
    /// A symbol table or its strings lie outside of the file.
    SymbolsUnreadable = 1,
    /// Symbols with a name outside of the strings, or in a section that does not exist.
    SymbolsMalformed = 2,
    /// More symbols than [`Limits::symbols`].
    TooManySymbols = 3,
    /// More bytes of names than [`Limits::name_bytes`].
    TooManyNames = 4,
    /// Names longer than [`Limits::name_len`] were cut.
    NamesCut = 5,
    /// The relocations of the procedure linkage table cannot be read.
    PltUnreadable = 6,
    /// More segments than [`Limits::segments`].
    TooManySegments = 7,
}

impl Gap {
    pub(crate) const ALL: [Self; 8] = [
        Self::NoSections,
        Self::SymbolsUnreadable,
        Self::SymbolsMalformed,
        Self::TooManySymbols,
        Self::TooManyNames,
        Self::NamesCut,
        Self::PltUnreadable,
        Self::TooManySegments,
    ];

    /// Names are missing because the file is damaged, not because there are too many.
    pub fn is_damage(self) -> bool {
        matches!(
            self,
            Self::NoSections
                | Self::SymbolsUnreadable
                | Self::SymbolsMalformed
                | Self::PltUnreadable
        )
    }

    /// One word, for a metric's label.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoSections => "no_sections",
            Self::SymbolsUnreadable => "symbols_unreadable",
            Self::SymbolsMalformed => "symbols_malformed",
            Self::TooManySymbols => "too_many_symbols",
            Self::TooManyNames => "too_many_names",
            Self::NamesCut => "names_cut",
            Self::PltUnreadable => "plt_unreadable",
            Self::TooManySegments => "too_many_segments",
        }
    }
}

/// Which [`Gap`]s there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Gaps(u32);

impl Gaps {
    pub(crate) fn add(&mut self, gap: Gap) {
        self.0 |= 1 << gap as u32;
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    fn has(self, gap: Gap) -> bool {
        self.0 & (1 << gap as u32) != 0
    }
}

/// Rank of a name with its place in the source: above every [`Source`].
pub const RANK_DWARF: u8 = 4;

/// Functions, objects, thread-locals and segments of one file.
///
/// Addresses are ELF virtual addresses (kernel virtual ones for kallsyms). Within an array no two
/// symbols share a start, stubs of the procedure linkage table aside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SymbolTable {
    pub(crate) segments: Segments,
    pub(crate) functions: Symbols,
    pub(crate) objects: Symbols,
    pub(crate) thread_locals: Symbols,
    pub(crate) gaps: Gaps,
    pub(crate) malformed: u32,
    pub(crate) places: Places,
}

impl SymbolTable {
    /// Reads an executable or shared library: `.symtab`, `.dynsym` and the linkage table's stubs. Of a kernel module
    /// ([`crate::is_module`]) the code, as distances from where it is loaded, and no segments.
    pub fn from_elf(file: &[u8], limits: &Limits) -> Result<Self, ObjectError> {
        elf::read(file, None, limits)
    }

    /// The same, with the `.symtab` of `debug`, the file's separate debug file.
    ///
    /// Whether the two belong together (same build id) is the caller's to check.
    pub fn from_elf_with_debug(
        file: &[u8],
        debug: &[u8],
        limits: &Limits,
    ) -> Result<Self, ObjectError> {
        elf::read(file, Some(debug), limits)
    }

    /// A table of known symbols.
    pub fn from_parts(segments: Segments, functions: Symbols, objects: Symbols) -> Self {
        Self {
            segments,
            functions,
            objects,
            ..Self::default()
        }
    }

    /// Code: functions, labels in executable sections, stubs.
    pub fn functions(&self) -> &Symbols {
        &self.functions
    }

    /// Data: globals, and labels in other sections.
    pub fn objects(&self) -> &Symbols {
        &self.objects
    }

    /// Thread-local variables; starts are offsets in a thread's block of this file.
    pub fn thread_locals(&self) -> &Symbols {
        &self.thread_locals
    }

    /// Rank of the best name in the table, 0 to 4: as [`Source`], and 4 where debug information tells lines too.
    pub fn rank(&self) -> u8 {
        let best = self.functions.iter().map(|symbol| symbol.source).max();
        if self.has_source() {
            RANK_DWARF
        } else {
            best.unwrap_or(Source::None) as u8
        }
    }

    /// Rank of the name of the function at a place, as [`SymbolTable::rank`].
    pub fn rank_of(&self, function: usize) -> u8 {
        if self.source_of(function).is_some() {
            return RANK_DWARF;
        }
        let found = self.functions.get(function);
        found.map_or(Source::None, |symbol| symbol.source) as u8
    }

    /// Whether it says where the file's code is loaded. A separate debug file has the addresses of symbols, not that.
    pub fn holds_code(&self) -> bool {
        let mut segments = self.segments.as_slice().iter();
        segments.any(|segment| segment.flags & 1 != 0 && segment.file_size > 0)
    }

    /// The same symbols in a file that is loaded so.
    #[must_use]
    pub fn with_segments(self, segments: Segments) -> Self {
        Self { segments, ..self }
    }

    /// Where the file's parts are loaded.
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Symbols passed over because they make no sense ([`Gap::SymbolsMalformed`]).
    pub fn malformed(&self) -> u32 {
        self.malformed
    }

    /// Symbols kept.
    pub fn symbols(&self) -> usize {
        self.functions.len() + self.objects.len() + self.thread_locals.len()
    }

    /// What had to be left out, empty for a whole table.
    pub fn gaps(&self) -> impl Iterator<Item = Gap> + '_ {
        Gap::ALL.into_iter().filter(|gap| self.gaps.has(*gap))
    }
}
