//! One sorted array of named address ranges.

/// Where a name came from; a better source re-names what a worse one named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Source {
    /// No name: a start found by other means.
    #[default]
    None = 0,
    /// The dynamic symbol table, or synthesized from its relocations.
    DynSym = 1,
    /// The file's own symbol table, or kallsyms.
    SymTab = 2,
    /// The symbol table of a separate debug file.
    DebugSymTab = 3,
}

impl Source {
    /// The source with this rank, as [`Source`] `as u8` gives it.
    pub fn from_rank(rank: u8) -> Option<Self> {
        Some(match rank {
            0 => Self::None,
            1 => Self::DynSym,
            2 => Self::SymTab,
            3 => Self::DebugSymTab,
            _ => return None,
        })
    }
}

/// What else is known of a symbol, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// Nothing special: a local symbol with a type and a size of its own.
    pub const NONE: Self = Self(0);
    /// Bound globally.
    pub const GLOBAL: Self = Self(1);
    /// Bound weakly.
    pub const WEAK: Self = Self(1 << 1);
    /// Without a type: a label of assembly code or of the linker.
    pub const LABEL: Self = Self(1 << 2);
    /// The resolver of an indirect function.
    pub const IFUNC: Self = Self(1 << 3);
    /// Synthesized stub of the procedure linkage table, named `name@plt`.
    pub const PLT: Self = Self(1 << 4);
    /// The file gives no size: the end is the next symbol's start.
    pub const SIZE_GUESSED: Self = Self(1 << 5);
    /// A data object, not a function.
    pub const OBJECT: Self = Self(1 << 6);
    /// A thread-local variable: the start is an offset in the thread's block.
    pub const TLS: Self = Self(1 << 7);

    /// The flags as bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Flags of these bits.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Whether all of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One symbol, its name borrowed from the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// First address: ELF virtual, kernel virtual for kallsyms, an offset for thread-locals.
    pub start: u64,
    /// Bytes; 0 only where nothing follows that could end it.
    pub size: u64,
    /// The name as linked, not demangled. Bytes that are not UTF-8 are replaced.
    pub name: &'a str,
    /// Where the name came from.
    pub source: Source,
    /// What else is known.
    pub flags: Flags,
}

impl Symbol<'_> {
    /// First address behind the symbol.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    start: u64,
    size: u64,
    name_at: u32,
    name_len: u32,
    source: Source,
    flags: Flags,
}

/// Symbols in ascending order of their starts, names in one block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Symbols {
    entries: Box<[Entry]>,
    names: Box<str>,
}

impl Symbols {
    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all names.
    pub fn name_bytes(&self) -> usize {
        self.names.len()
    }

    /// The symbol at this place in ascending order.
    pub fn get(&self, at: usize) -> Option<Symbol<'_>> {
        self.entries.get(at).map(|entry| self.view(entry))
    }

    /// All symbols in ascending order of their starts.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Symbol<'_>> + DoubleEndedIterator + Clone {
        self.entries.iter().map(|entry| self.view(entry))
    }

    /// The symbol that starts exactly here (the last of them, if several do).
    pub fn starting_at(&self, start: u64) -> Option<Symbol<'_>> {
        let behind = self.entries.partition_point(|entry| entry.start <= start);
        let entry = self.entries.get(behind.checked_sub(1)?)?;
        (entry.start == start).then(|| self.view(entry))
    }

    /// The first symbol of this name, found by walking all.
    pub fn named(&self, name: &str) -> Option<Symbol<'_>> {
        self.iter().find(|symbol| symbol.name == name)
    }

    fn view(&self, entry: &Entry) -> Symbol<'_> {
        let at = entry.name_at as usize;
        Symbol {
            start: entry.start,
            size: entry.size,
            name: self
                .names
                .get(at..at + entry.name_len as usize)
                .unwrap_or_default(),
            source: entry.source,
            flags: entry.flags,
        }
    }
}

/// Collects symbols in any order.
#[derive(Debug, Default)]
pub struct SymbolsBuilder {
    entries: Vec<Entry>,
    names: String,
}

impl SymbolsBuilder {
    /// Empty, with room for `symbols`.
    pub fn with_capacity(symbols: usize) -> Self {
        Self {
            entries: Vec::with_capacity(symbols),
            names: String::new(),
        }
    }

    /// Empty, with room for `symbols` whose names have `name_bytes` together.
    pub(crate) fn with_room(symbols: usize, name_bytes: usize) -> Self {
        Self {
            entries: Vec::with_capacity(symbols),
            names: String::with_capacity(name_bytes),
        }
    }

    /// Adds one symbol. `false`, and nothing is added, when the names would exceed 4 GiB.
    pub fn push(&mut self, symbol: Symbol<'_>) -> bool {
        let at = self.names.len();
        let (Ok(name_at), Ok(name_len)) = (u32::try_from(at), u32::try_from(symbol.name.len()))
        else {
            return false;
        };
        self.names.push_str(symbol.name);
        self.entries.push(Entry {
            start: symbol.start,
            size: symbol.size,
            name_at,
            name_len,
            source: symbol.source,
            flags: symbol.flags,
        });
        true
    }

    /// Puts the symbols in order; those with one start keep the order they were added in.
    pub fn finish(mut self) -> Symbols {
        if !self.entries.is_sorted_by_key(|entry| entry.start) {
            self.entries.sort_by_key(|entry| entry.start);
            self.order_names();
        }
        Symbols {
            entries: self.entries.into(),
            names: self.names.into(),
        }
    }

    /// Names in the order of their symbols: equal tables are equal to the byte, and neighbours
    /// share a cache line.
    fn order_names(&mut self) {
        let mut names = String::with_capacity(self.names.len());
        for entry in &mut self.entries {
            let at = entry.name_at as usize;
            let name = self.names.get(at..at + entry.name_len as usize);
            // Not longer than before, which was checked.
            entry.name_at = u32::try_from(names.len()).unwrap_or(u32::MAX);
            names.push_str(name.unwrap_or_default());
        }
        self.names = names;
    }
}
