//! What binaries say: bytes of ELF files, DWARF and kallsyms in; function starts, names, source lines out.
//!
//! The collector extracts a [`SymbolTable`] where the file is and ships [`SymbolTable::encode`]'s
//! bytes, the decoder receives them, builds an [`Index`] and asks it once a sample, the local
//! commands do both, the simulator makes tables up with a [`SymbolsBuilder`].
//!
//! # What it is for
//!
//! - Functions, data objects and thread-local variables of an ELF file, with the names, extents
//!   and choice among aliases that `perf` 6.1 has, so that both tools name an address alike.
//! - The same for the running kernel and its modules, from the text of `/proc/kallsyms`; and for a module from its file.
//! - What identifies a file: its GNU build id, else a hash of its content.
//! - Names as people read them: [`demangle`].
//! - Source lines, inlined functions and the members of variables, from DWARF: [`DebugInfo`].
//!
//! # What it is not for
//!
//! - Reading files: callers pass bytes or a memory map. There is no I/O, no clock, no cache.
//! - Address spaces: which file lies where in which process is the decoder's business. Here are
//!   only [`Segments::bias`] and [`Segments::vaddr_of_offset`], which turn an address of a mapping into an
//!   *ELF virtual address*, the only kind of address in a table.
//! - Unwinding.
//!
//! # What the caller owes it
//!
//! Nothing about the bytes: files are hostile. Every count and offset is checked, what is kept is
//! bounded by [`Limits`], and what had to be left out is named in [`SymbolTable::gaps`].
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod aliases;
mod build_id;
mod debug;
mod demangle;
mod elf;
mod error;
mod image;
mod index;
mod jit;
mod kallsyms;
mod limits;
mod loads;
mod module;
mod pclntab;
mod places;
mod plt;
mod relative;
mod segments;
mod spelling;
mod starts;
mod symbols;
mod table;
mod wire;

pub use build_id::{IdKind, ObjectId};
pub use debug::{
    DataMember, DebugError, DebugInfo, DebugLink, DebugSections, FrameSections, LineRow,
    LinkSections, SourceFrame, SplitFiles, SplitName, crc32,
};
pub use demangle::demangle;
pub use error::{JitError, KallsymsError, KernelFileError, ModulesError, ObjectError, WireError};
pub use image::read_image;
pub use index::{Index, SymbolRef};
pub use jit::{JitCode, JitSymbols, jitdump_code};
pub use kallsyms::{Kallsyms, ModuleSymbols};
pub use limits::Limits;
pub use loads::Loads;
pub use module::{LoadedModule, ModuleCode, module_in, module_name, parse_modules, unpack_module};
pub use relative::{KERNEL_STARTS, LinkedKernel};
pub use segments::{Access, Segment, Segments};
pub use symbols::{Flags, Source, Symbol, Symbols, SymbolsBuilder};
pub use table::{Gap, RANK_DWARF, SymbolTable};
