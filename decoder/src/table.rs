//! A symbol table ready for lookups: indexes, ids of its functions, what its entry points say of context.

use crate::context::entry_context;
use crate::identity::Kind;
use memwide_model::{Context, FunctionId, MappingId};
use memwide_objects::{Access, Index, Symbol, SymbolRef, SymbolTable, Symbols, demangle};
use memwide_proto::v1;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::OnceLock;

/// Kernel addresses lie above this on every 64-bit machine; addresses relative to the kernel's start lie below.
pub(crate) const KERNEL_HALF: u64 = 1 << 46;

/// Bytes a symbol takes besides its name, about: 32 of its entry, 64 and more of the index, 32 of id and shown name.
const SYMBOL_BYTES: usize = 136;

/// The symbols of one mapping identity, shared by all sessions that use it.
#[derive(Debug)]
pub struct Loaded {
    table: SymbolTable,
    mapping: MappingId,
    functions: Index,
    // What not everybody asks for is made for the first who does.
    objects: OnceLock<Index>,
    /// Ids of the functions, by place.
    function_ids: OnceLock<Box<[FunctionId]>>,
    /// Functions that tell the context they are the entry of.
    entries: OnceLock<FxHashMap<u32, Context>>,
    is_kernel: bool,
    /// Addresses are used again for other functions.
    is_generated: bool,
    demangles: bool,
    rank: u8,
    /// Demangled names of functions and of variables; filled by whoever first shows one, for all sessions.
    shown: [ShownNames; 2],
}

/// By place of the symbol; `None` inside where the linked name is shown as it stands.
type ShownNames = OnceLock<Box<[OnceLock<Option<Box<str>>>]>>;

impl Loaded {
    /// Indexes a table of `mapping`. Kernel and module tables must be relative, see [`relative`].
    pub fn new(table: SymbolTable, mapping: MappingId, kind: Kind) -> Self {
        Self {
            mapping,
            functions: Index::build(table.functions()),
            objects: OnceLock::new(),
            function_ids: OnceLock::new(),
            entries: OnceLock::new(),
            is_kernel: kind == Kind::Kernel,
            is_generated: kind == Kind::Jit,
            rank: table.rank(),
            demangles: !matches!(kind, Kind::Kernel | Kind::Module | Kind::Bpf),
            shown: [OnceLock::new(), OnceLock::new()],
            table,
        }
    }

    /// The same under another id.
    pub(crate) fn called(&self, mapping: MappingId) -> Self {
        Self {
            is_kernel: self.is_kernel,
            is_generated: self.is_generated,
            demangles: self.demangles,
            ..Self::new(self.table.clone(), mapping, Kind::Unknown)
        }
    }

    /// Bytes of memory it takes, about, with the indexes and ids that are made when somebody asks.
    pub(crate) fn bytes(&self) -> usize {
        let [functions, objects] = [self.table.functions(), self.table.objects()];
        let symbols = functions.len() + objects.len();
        functions.name_bytes() + objects.name_bytes() + symbols * SYMBOL_BYTES
    }

    /// The table itself.
    pub fn table(&self) -> &SymbolTable {
        &self.table
    }

    /// Rank of its best name, see [`SymbolTable::rank`].
    pub fn rank(&self) -> u8 {
        self.rank
    }

    /// A function's or variable's name as shown: programs' are demangled, the kernel's stand as they are. Empty if there is no
    /// such symbol.
    pub fn shown_name(&self, symbol: SymbolRef, variable: bool) -> &str {
        let symbols = if variable {
            self.table.objects()
        } else {
            self.table.functions()
        };
        let linked = symbols.get(symbol.index()).map_or("", |found| found.name);
        if !self.demangles {
            return linked;
        }
        let [functions, variables] = &self.shown;
        let names = if variable { variables } else { functions };
        let names = names.get_or_init(|| symbols.iter().map(|_| OnceLock::new()).collect());
        let Some(name) = names.get(symbol.index()) else {
            return linked;
        };
        let shown = name.get_or_init(|| match demangle(linked) {
            Cow::Owned(shown) => Some(shown.into()),
            Cow::Borrowed(_) => None,
        });
        shown.as_deref().unwrap_or(linked)
    }

    /// ELF virtual address of the byte `into` a mapping that begins at `map_offset` of the file; for tables without segments
    /// its offset in the file.
    pub fn address_of(&self, map_offset: u64, into: u64, access: Access) -> u64 {
        let offset = map_offset.wrapping_add(into);
        let segments = self.table.segments();
        if segments.as_slice().is_empty() {
            return offset;
        }
        let address = segments.vaddr_of_offset(map_offset, into, access);
        address.unwrap_or(offset)
    }

    /// Where an ELF virtual address lies in the file, plus 1; 0 if that is not known.
    fn file_offset(&self, address: u64) -> u64 {
        let offset = self.table.segments().offset_of_vaddr(address);
        offset.map_or(0, |offset| offset.saturating_add(1))
    }

    /// The function that holds an address.
    pub fn function_at(&self, address: u64) -> Option<SymbolRef> {
        self.functions.lookup(address)
    }

    /// The variable that holds an address.
    pub fn object_at(&self, address: u64) -> Option<SymbolRef> {
        let objects = || Index::build(self.table.objects());
        self.objects.get_or_init(objects).lookup(address)
    }

    /// Id of a function.
    pub fn function_id(&self, function: SymbolRef) -> FunctionId {
        self.id_at(function.index())
    }

    fn id_at(&self, function: usize) -> FunctionId {
        let ids = self.function_ids.get_or_init(|| {
            let functions = self.table.functions().iter();
            functions
                .map(|symbol| {
                    if self.is_generated {
                        FunctionId::generated(self.mapping, symbol.start, symbol.name)
                    } else {
                        FunctionId::new(self.mapping, symbol.start)
                    }
                })
                .collect()
        });
        ids.get(function).copied().unwrap_or_default()
    }

    /// Rank of a function's name, see [`SymbolTable::rank_of`].
    pub fn rank_of(&self, function: SymbolRef) -> u8 {
        self.table.rank_of(function.index())
    }

    /// The function's symbol.
    pub fn function(&self, function: SymbolRef) -> Option<Symbol<'_>> {
        self.table.functions().get(function.index())
    }

    /// The variable's symbol.
    pub fn object(&self, object: SymbolRef) -> Option<Symbol<'_>> {
        self.table.objects().get(object.index())
    }

    /// The definition of the function at a place of the table, shown by this name.
    pub(crate) fn definition(&self, function: usize, shown: String) -> v1::FunctionDef {
        let symbol = self.table.functions().get(function);
        let (start, size) = symbol.map_or((0, 0), |symbol| (symbol.start, symbol.size));
        let (file, line) = self.table.source_of(function).unwrap_or_default();
        v1::FunctionDef {
            function_id: self.id_at(function).0,
            mapping_id: self.mapping.0,
            start,
            name: shown,
            linkage_name: symbol.map_or("", |symbol| symbol.name).to_owned(),
            rank: u32::from(self.table.rank_of(function)),
            size,
            file: file.to_owned(),
            line,
            file_offset: self.file_offset(start),
        }
    }

    /// The same for what was stored before the name was known: each is shown once, and its name not kept.
    pub(crate) fn told(&self, function: usize) -> v1::FunctionDef {
        let symbol = self.table.functions().get(function);
        let linked = symbol.map_or("", |symbol| symbol.name);
        let shown = if self.demangles {
            demangle(linked)
        } else {
            Cow::Borrowed(linked)
        };
        self.definition(function, shown.into_owned())
    }

    /// What a kernel function tells of the context, if it is an entry point.
    pub fn entry_context(&self, function: SymbolRef) -> Option<Context> {
        if !self.is_kernel {
            return None;
        }
        let entries = self.entries.get_or_init(|| {
            let numbered = (0_u32..).zip(self.table.functions().iter());
            numbered
                .filter_map(|(at, symbol)| Some((at, entry_context(symbol.name)?)))
                .collect()
        });
        let at = u32::try_from(function.index()).ok()?;
        entries.get(&at).copied()
    }
}

/// A kernel's or module's table relative to its start `base`. One that is relative already is returned as it is.
pub fn relative(table: SymbolTable, base: u64) -> SymbolTable {
    let is_absolute = |symbols: &Symbols| symbols.iter().any(|symbol| symbol.start >= KERNEL_HALF);
    if base < KERNEL_HALF || !(is_absolute(table.functions()) || is_absolute(table.objects())) {
        return table;
    }
    table.relative_to(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_objects::{Kallsyms, Limits};

    const TEXT: &[u8] = b"0000000000001000 D per_cpu\n\
        ffffffff81000000 T _text\n\
        ffffffff81000040 T asm_exc_page_fault\n\
        ffffffff81000100 t helper\n\
        ffffffff81000200 T _etext\n\
        ffffffff82000000 D jiffies\n";

    fn kernel() -> (SymbolTable, MappingId) {
        let all = Kallsyms::parse(TEXT, &Limits::default()).unwrap();
        let base = all.text().unwrap().start;
        (relative(all.into_tables().0, base), MappingId(7))
    }

    #[test]
    fn kernel_symbols_are_distances_from_the_start() {
        let (table, mapping) = kernel();
        let loaded = Loaded::new(table, mapping, Kind::Kernel);
        let helper = loaded.function_at(0x110).unwrap();
        assert_eq!(loaded.function(helper).unwrap().start, 0x100);
        assert_eq!(loaded.function_id(helper), FunctionId::new(mapping, 0x100));
        let jiffies = loaded.object_at(0x100_0000).unwrap();
        assert_eq!(loaded.object(jiffies).unwrap().name, "jiffies");
        assert!(loaded.object_at(0x1000).is_none(), "per-CPU offset");
    }

    #[test]
    fn a_relative_table_stays_as_it_is() {
        let (table, _) = kernel();
        assert_eq!(relative(table.clone(), 0xffff_ffff_8100_0000), table);
    }

    #[test]
    fn entry_points_tell_their_context() {
        let (table, mapping) = kernel();
        let loaded = Loaded::new(table, mapping, Kind::Kernel);
        let context = |address| loaded.entry_context(loaded.function_at(address).unwrap());
        assert_eq!(context(0x40), Some(Context::Fault));
        assert_eq!(context(0x100), None);
    }
}
