//! Reads ELF files of either class and byte order, as far as they can be trusted.

use std::borrow::Cow;

use object::elf::{self, FileHeader32, FileHeader64};
use object::pod;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endian, Endianness, StringTable};

use crate::aliases::{Candidate, Origin, settle};
use crate::module::Layout;
use crate::pclntab::Pclntab;
use crate::table::{Gap, Gaps};
use crate::{
    Flags, Limits, ObjectError, ObjectId, Segment, Segments, Source, Symbol, SymbolTable,
    SymbolsBuilder,
};
use crate::{image, plt};

/// Most bytes of names kept for each byte of the files. Symbols may share a name, so that a small file could fill memory with
/// copies of one; in real programs all names together are shorter than the files.
const NAME_BYTES_OF_A_BYTE: usize = 8;

/// Reads `file`, with the symbol table of `debug` where that has one.
pub(crate) fn read(
    file: &[u8],
    debug: Option<&[u8]>,
    limits: &Limits,
) -> Result<SymbolTable, ObjectError> {
    match class_of(file) {
        Some(elf::ELFCLASS32) => read_class::<FileHeader32<Endianness>>(file, debug, limits),
        Some(elf::ELFCLASS64) => read_class::<FileHeader64<Endianness>>(file, debug, limits),
        _ => Err(ObjectError::NotElf { len: file.len() }),
    }
}

pub(crate) fn class_of(file: &[u8]) -> Option<elf::FileClass> {
    file.get(4).map(|class| elf::FileClass(*class))
}

fn read_class<E: FileHeader<Endian = Endianness>>(
    file: &[u8],
    debug: Option<&[u8]>,
    limits: &Limits,
) -> Result<SymbolTable, ObjectError> {
    let mut image = Image::<E>::open(file)?;
    if image.header.e_type(image.endian) == elf::ET_REL {
        image.layout = Some(Layout::of(&image)?);
    }
    let bytes = file.len().saturating_add(debug.map_or(0, <[u8]>::len));
    let limits = &Limits {
        name_bytes: limits
            .name_bytes
            .min(bytes.saturating_mul(NAME_BYTES_OF_A_BYTE)),
        ..*limits
    };
    let mut found = Found::new(limits, image.gaps);
    let segments = image.segments(limits, &mut found.gaps)?;
    let debug = debug.and_then(|debug| Image::<E>::open(debug).ok());
    let debug = debug.filter(|_| image.layout.is_none());
    match debug.as_ref().filter(|debug| debug.has(elf::SHT_SYMTAB)) {
        Some(debug) => found.take_table(debug, elf::SHT_SYMTAB, Source::DebugSymTab),
        None => found.take_table(&image, elf::SHT_SYMTAB, Source::SymTab),
    }
    // As perf does: what ends and survives in the one table meets the other's symbols afterwards.
    settle(&mut found.candidates, Origin::File);
    found.take_table(&image, elf::SHT_DYNSYM, Source::DynSym);
    settle(&mut found.candidates, Origin::File);
    settle(&mut found.thread_locals, Origin::File);
    if !image.has(elf::SHT_SYMTAB) && debug.is_none() {
        found.take_go(&image);
        settle(&mut found.candidates, Origin::File);
    }
    plt::add_stubs(&image, &mut found);

    let Found {
        candidates,
        thread_locals,
        gaps,
        malformed,
        ..
    } = found;
    let mut table = split(candidates, segments);
    table.thread_locals = split(thread_locals, Segments::default()).objects;
    table.gaps = gaps;
    table.malformed = malformed;
    Ok(table)
}

/// Parts functions from objects.
pub(crate) fn split(candidates: Vec<Candidate<'_>>, segments: Segments) -> SymbolTable {
    // Names of large programs are 100 MB and more: a block that grows would be twice as large as it need be.
    let [mut functions, mut objects] = [false, true].map(|data| {
        let of_kind = candidates
            .iter()
            .filter(|one| one.flags.has(Flags::OBJECT) == data);
        let count = of_kind.clone().count();
        SymbolsBuilder::with_room(count, of_kind.map(|one| one.name.len()).sum())
    });
    for candidate in candidates {
        let to = if candidate.flags.has(Flags::OBJECT) {
            &mut objects
        } else {
            &mut functions
        };
        to.push(Symbol {
            start: candidate.start,
            size: candidate.size,
            name: &candidate.name,
            source: candidate.source,
            flags: candidate.flags,
        });
    }
    SymbolTable::from_parts(segments, functions.finish(), objects.finish())
}

/// An ELF file whose header, and as much of the rest as possible, was found in place.
pub(crate) struct Image<'a, E: FileHeader> {
    pub(crate) data: &'a [u8],
    pub(crate) header: &'a E,
    pub(crate) endian: E::Endian,
    pub(crate) sections: &'a [E::SectionHeader],
    section_names: StringTable<'a>,
    gaps: Gaps,
    /// Of a kernel module: where its sections will be.
    layout: Option<Layout>,
}

impl<'a, E: FileHeader<Endian = Endianness>> Image<'a, E> {
    pub(crate) fn open(data: &'a [u8]) -> Result<Self, ObjectError> {
        let not_elf = |_| ObjectError::NotElf { len: data.len() };
        let header = E::parse(data).map_err(not_elf)?;
        let endian = header.endian().map_err(not_elf)?;
        let mut gaps = Gaps::default();
        let sections = header.section_headers(endian, data).unwrap_or_else(|_| {
            gaps.add(Gap::NoSections);
            &[]
        });
        let section_names = header
            .section_strings(endian, data, sections)
            .unwrap_or_default();
        Ok(Self {
            data,
            header,
            endian,
            sections,
            section_names,
            gaps,
            layout: None,
        })
    }

    fn segments(&self, limits: &Limits, gaps: &mut Gaps) -> Result<Segments, ObjectError> {
        let unreadable = |_| ObjectError::ProgramHeaders {
            len: self.data.len(),
        };
        let headers = self
            .header
            .program_headers(self.endian, self.data)
            .map_err(unreadable)?;
        let mut loads = headers
            .iter()
            .filter(|header| header.p_type(self.endian) == elf::PT_LOAD);
        let kept = loads.by_ref().take(limits.segments).map(|header| Segment {
            vaddr: header.p_vaddr(self.endian).into(),
            offset: header.p_offset(self.endian).into(),
            file_size: header.p_filesz(self.endian).into(),
            mem_size: header.p_memsz(self.endian).into(),
            flags: header.p_flags(self.endian).0,
        });
        let segments = Segments::new(kept.collect());
        if loads.next().is_some() {
            gaps.add(Gap::TooManySegments);
        }
        Ok(segments)
    }

    fn has(&self, kind: elf::SectionType) -> bool {
        self.first(kind).is_some()
    }

    /// The first section of a kind.
    pub(crate) fn first(&self, kind: elf::SectionType) -> Option<&'a E::SectionHeader> {
        let mut sections = self.sections.iter();
        sections.find(|section| section.sh_type(self.endian) == kind)
    }

    /// Place and header of the first section of this name.
    pub(crate) fn named(&self, name: &str) -> Option<(usize, &'a E::SectionHeader)> {
        self.sections.iter().enumerate().find(|(_, section)| {
            section
                .name(self.endian, self.section_names)
                .is_ok_and(|got| got == name.as_bytes())
        })
    }

    pub(crate) fn name_of(&self, section: &E::SectionHeader) -> &'a [u8] {
        let name = section.name(self.endian, self.section_names);
        name.unwrap_or_default()
    }

    /// Where a symbol is; `None` for what of a module lies where its file does not tell.
    fn address_of(&self, symbol: &E::Sym) -> Option<u64> {
        let value: u64 = symbol.st_value(self.endian).into();
        let Some(layout) = &self.layout else {
            return Some(value);
        };
        let start = layout.start(usize::from(symbol.st_shndx(self.endian).0))?;
        start.checked_add(value)
    }

    /// Content of a section, or as much of it as the file holds.
    pub(crate) fn content(&self, section: &E::SectionHeader) -> &'a [u8] {
        if section.sh_type(self.endian) == elf::SHT_NOBITS {
            return &[];
        }
        let size = usize::try_from(section.sh_size(self.endian).into()).unwrap_or(usize::MAX);
        let rest = usize::try_from(section.sh_offset(self.endian).into())
            .ok()
            .and_then(|offset| self.data.get(offset..))
            .unwrap_or_default();
        rest.get(..size).unwrap_or(rest)
    }

    /// The whole entries of a section, and whether that is all of them.
    pub(crate) fn entries<T: pod::Pod>(&self, section: &E::SectionHeader) -> (&'a [T], bool) {
        let bytes = self.content(section);
        let count = bytes.len().checked_div(size_of::<T>()).unwrap_or(0);
        let entries = pod::slice_from_bytes(bytes, count).map_or(&[][..], |(entries, _)| entries);
        let whole = size_of_val(entries) as u64 == section.sh_size(self.endian).into();
        (entries, whole)
    }

    pub(crate) fn strings_of(&self, section: &E::SectionHeader) -> &'a [u8] {
        let strings = self.sections.get(section.sh_link(self.endian) as usize);
        strings.map_or(&[], |strings| self.content(strings))
    }

    pub(crate) fn machine(&self) -> elf::Machine {
        self.header.e_machine(self.endian)
    }

    /// perf passes over the symbols that only tell code from data.
    fn has_mapping_symbols(&self) -> bool {
        matches!(
            self.machine(),
            elf::EM_ARM | elf::EM_AARCH64 | elf::EM_RISCV
        )
    }
}

/// What was found so far, within limits.
pub(crate) struct Found<'a, 'l> {
    pub(crate) candidates: Vec<Candidate<'a>>,
    thread_locals: Vec<Candidate<'a>>,
    pub(crate) gaps: Gaps,
    malformed: u32,
    limits: &'l Limits,
    taken: usize,
    name_bytes: usize,
}

impl<'a, 'l> Found<'a, 'l> {
    fn new(limits: &'l Limits, gaps: Gaps) -> Self {
        let (candidates, thread_locals) = (Vec::new(), Vec::new());
        Self {
            candidates,
            thread_locals,
            gaps,
            malformed: 0,
            limits,
            taken: 0,
            name_bytes: 0,
        }
    }

    fn take_table<E: FileHeader<Endian = Endianness>>(
        &mut self,
        image: &Image<'a, E>,
        kind: elf::SectionType,
        source: Source,
    ) {
        let endian = image.endian;
        let Some(section) = image.first(kind) else {
            return;
        };
        let (symbols, whole) = image.entries::<E::Sym>(section);
        let strings = image.strings_of(section);
        if !whole || (strings.is_empty() && !symbols.is_empty()) {
            self.gaps.add(Gap::SymbolsUnreadable);
        }
        for symbol in symbols {
            let Some(class) = classify(image, symbol) else {
                continue;
            };
            let class = match class {
                Class::Malformed => {
                    self.pass_over();
                    continue;
                }
                Class::Symbol(flags) => flags,
            };
            let Some(name) = self.name(strings, symbol.st_name(endian)) else {
                self.pass_over();
                continue;
            };
            if image.has_mapping_symbols() && is_mapping_symbol(&name) {
                continue;
            }
            let Some(mut start) = image.address_of(symbol) else {
                continue;
            };
            if image.machine() == elf::EM_ARM && symbol.st_type() == elf::STT_FUNC {
                start &= !1; // the mark of thumb code
            }
            if !self.room_for(&name) {
                return;
            }
            let size = symbol.st_size(endian).into();
            let candidate = Candidate {
                start,
                size,
                name,
                source,
                flags: class,
                module: "",
            };
            if class.has(Flags::TLS) {
                self.thread_locals.push(candidate);
            } else {
                self.candidates.push(candidate);
            }
        }
    }

    /// The functions that Go's runtime knows, of a program without symbols.
    fn take_go<E: FileHeader<Endian = Endianness>>(&mut self, image: &Image<'a, E>) {
        let mut sections = image::GO_TABLES.iter();
        let Some((_, section)) = sections.find_map(|name| image.named(name)) else {
            return;
        };
        let text = image.named(".text");
        let text = text.map_or(0, |(_, text)| text.sh_addr(image.endian).into());
        let Some(table) = Pclntab::parse(image.content(section), text) else {
            return;
        };
        for function in table.functions() {
            let Some(name) = self.name(table.names, function.name) else {
                self.pass_over();
                continue;
            };
            if !self.room_for(&name) {
                return;
            }
            self.candidates.push(Candidate {
                start: function.start,
                size: function.size,
                name,
                source: Source::SymTab,
                flags: Flags::NONE,
                module: "",
            });
        }
    }

    /// Counts a symbol that makes no sense; the others do.
    fn pass_over(&mut self) {
        self.gaps.add(Gap::SymbolsMalformed);
        self.malformed = self.malformed.saturating_add(1);
    }

    /// The name that starts here, cut to the limit. `None` if it is empty, outside or has no end.
    pub(crate) fn name(&mut self, strings: &'a [u8], at: u32) -> Option<Cow<'a, str>> {
        let rest = strings.get(at as usize..)?;
        let seen = rest.get(..=self.limits.name_len).unwrap_or(rest);
        let name = match seen.iter().position(|byte| *byte == 0) {
            Some(0) => return None,
            Some(end) => seen.get(..end)?,
            None if seen.len() > self.limits.name_len => {
                self.gaps.add(Gap::NamesCut);
                let mut end = self.limits.name_len;
                // Bytes of the form 10xxxxxx continue a character.
                while end > 0 && seen.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                    end -= 1;
                }
                seen.get(..end)?
            }
            None => return None,
        };
        Some(lossy(name))
    }

    /// Whether one more symbol of this name may be kept; counts it.
    pub(crate) fn room_for(&mut self, name: &str) -> bool {
        if self.taken >= self.limits.symbols {
            self.gaps.add(Gap::TooManySymbols);
            return false;
        }
        if self.name_bytes.saturating_add(name.len()) > self.limits.name_bytes {
            self.gaps.add(Gap::TooManyNames);
            return false;
        }
        self.taken += 1;
        self.name_bytes += name.len();
        true
    }
}

enum Class {
    Symbol(Flags),
    Malformed,
}

/// What kind of thing a symbol names; `None` for what has no place in a table.
fn classify<E: FileHeader<Endian = Endianness>>(
    image: &Image<'_, E>,
    symbol: &E::Sym,
) -> Option<Class> {
    let endian = image.endian;
    let index = symbol.st_shndx(endian);
    let absent = index == elf::SHN_UNDEF || index == elf::SHN_ABS || index == elf::SHN_COMMON;
    if symbol.st_name(endian) == 0 || absent {
        return None;
    }
    let section = image.sections.get(usize::from(index.0));
    if section.is_none() && index != elf::SHN_XINDEX {
        return Some(Class::Malformed);
    }
    if section.is_some_and(|section| section.sh_flags(endian).0 & elf::SHF_ALLOC.0 == 0) {
        return None; // not in memory, so its addresses mean nothing
    }
    let kind = match symbol.st_type() {
        elf::STT_FUNC => Flags::NONE,
        elf::STT_GNU_IFUNC => Flags::IFUNC,
        elf::STT_OBJECT => Flags::OBJECT,
        elf::STT_TLS => Flags::OBJECT.with(Flags::TLS),
        elf::STT_NOTYPE => {
            let visibility = symbol.st_visibility();
            if visibility == elf::STV_HIDDEN || visibility == elf::STV_INTERNAL {
                return None;
            }
            let section = section?;
            let name = section
                .name(endian, image.section_names)
                .unwrap_or_default();
            if !is_text_or_data(name) {
                return None;
            }
            let code = section.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 != 0;
            Flags::LABEL.with(if code { Flags::NONE } else { Flags::OBJECT })
        }
        _ => return None,
    };
    let binding = match symbol.st_bind() {
        elf::STB_GLOBAL => Flags::GLOBAL,
        elf::STB_WEAK => Flags::WEAK,
        _ => Flags::NONE,
    };
    Some(Class::Symbol(kind.with(binding)))
}

/// perf takes labels only of sections that are called so, which leaves out unwind tables.
fn is_text_or_data(section_name: &[u8]) -> bool {
    section_name
        .windows(4)
        .any(|part| part == b"text" || part == b"data")
}

fn is_mapping_symbol(name: &str) -> bool {
    matches!(name.as_bytes(), [b'$', b'a' | b'd' | b't' | b'x', rest @ ..]
        if rest.first().is_none_or(|byte| *byte == b'.'))
}

/// The GNU build id of a file.
pub(crate) fn build_id(file: &[u8]) -> Option<ObjectId> {
    match class_of(file)? {
        elf::ELFCLASS32 => build_id_class::<FileHeader32<Endianness>>(file),
        elf::ELFCLASS64 => build_id_class::<FileHeader64<Endianness>>(file),
        _ => None,
    }
}

fn build_id_class<E: FileHeader<Endian = Endianness>>(file: &[u8]) -> Option<ObjectId> {
    let image = Image::<E>::open(file).ok()?;
    let endian = image.endian;
    let in_sections = || {
        let mut notes = image
            .sections
            .iter()
            .filter(|s| s.sh_type(endian) == elf::SHT_NOTE);
        notes.find_map(|section| find_build_id(image.content(section), endian))
    };
    let in_segments = || {
        let headers = image
            .header
            .program_headers(endian, file)
            .unwrap_or_default();
        let mut notes = headers
            .iter()
            .filter(|header| header.p_type(endian) == elf::PT_NOTE);
        notes.find_map(|header| find_build_id(header.data(endian, file).ok()?, endian))
    };
    in_sections().or_else(in_segments)
}

/// The GNU build id in little-endian notes.
pub(crate) fn build_id_in_notes(notes: &[u8]) -> Option<ObjectId> {
    find_build_id(notes, Endianness::Little)
}

/// Note: u32 name size, u32 content size, u32 type; name and content each padded to 4 bytes.
fn find_build_id(mut notes: &[u8], endian: Endianness) -> Option<ObjectId> {
    loop {
        let (head, rest) = notes.split_at_checked(12)?;
        let word = |at: usize| {
            let bytes = *head.get(at..)?.first_chunk::<4>()?;
            Some(endian.read_u32(bytes))
        };
        let (name_len, content_len, kind) = (word(0)?, word(4)?, word(8)?);
        let padded = |len: u32| (len as usize).checked_next_multiple_of(4);
        let (name, rest) = rest.split_at_checked(padded(name_len)?)?;
        if kind == elf::NT_GNU_BUILD_ID.0 && name_len == 4 && name == b"GNU\0" {
            return ObjectId::gnu(rest.get(..content_len as usize)?);
        }
        notes = rest.get(padded(content_len)?..)?;
    }
}

/// `String::from_utf8_lossy`, which is slower for what is right already, as nearly all names are.
pub(crate) fn lossy(name: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(name).map_or_else(|_| String::from_utf8_lossy(name), Cow::Borrowed)
}
