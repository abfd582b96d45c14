//! Where the bytes of an ELF file are loaded, from its headers alone: cores of a kernel have no sections, and say they are
//! longer than any disk.

use std::io::{Read, Seek, SeekFrom};

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::{Endianness, pod};

use crate::elf::{Image, class_of};
use crate::{ObjectError, Segment, Segments};

/// Longest header of a file, in bytes.
const HEADER: u64 = 64;

/// Most program headers read: cores of kernels have one for each module and stretch of memory.
const HEADERS_MAX: usize = 8192;

/// What an ELF file says of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loads {
    /// What machine it is for, its `e_machine`.
    pub machine: u16,
    /// Where its bytes are loaded. Nothing says that the file has them.
    pub segments: Segments,
}

impl Loads {
    /// Reads header and program headers, nothing else.
    pub fn read<R: Read + Seek>(file: &mut R) -> Result<Self, ObjectError> {
        let head = part(file, 0, HEADER);
        match class_of(&head) {
            Some(elf::ELFCLASS32) => read_class::<FileHeader32<Endianness>, R>(file, &head),
            Some(elf::ELFCLASS64) => read_class::<FileHeader64<Endianness>, R>(file, &head),
            _ => Err(ObjectError::NotElf { len: head.len() }),
        }
    }
}

fn read_class<E: FileHeader<Endian = Endianness>, R: Read + Seek>(
    file: &mut R,
    head: &[u8],
) -> Result<Loads, ObjectError> {
    let not_elf = |_| ObjectError::NotElf { len: head.len() };
    let header = E::parse(head).map_err(not_elf)?;
    let endian = header.endian().map_err(not_elf)?;
    let unreadable = ObjectError::ProgramHeaders { len: head.len() };
    let entry = size_of::<E::ProgramHeader>();
    let count = usize::from(header.e_phnum(endian));
    if count > HEADERS_MAX || (count > 0 && usize::from(header.e_phentsize(endian)) != entry) {
        return Err(unreadable);
    }
    let bytes = part(file, header.e_phoff(endian).into(), (count * entry) as u64);
    let headers = pod::slice_from_bytes::<E::ProgramHeader>(&bytes, count);
    let (headers, _) = headers.map_err(|()| unreadable)?;
    let loads = headers
        .iter()
        .filter(|header| header.p_type(endian) == elf::PT_LOAD)
        .map(|header| Segment {
            vaddr: header.p_vaddr(endian).into(),
            offset: header.p_offset(endian).into(),
            file_size: header.p_filesz(endian).into(),
            mem_size: header.p_memsz(endian).into(),
            flags: header.p_flags(endian).0,
        });
    Ok(Loads {
        machine: header.e_machine(endian).0,
        segments: Segments::new(loads.collect()),
    })
}

/// At most so many bytes from a place; fewer where there are no more.
fn part<R: Read + Seek>(file: &mut R, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if file.seek(SeekFrom::Start(at)).is_ok() {
        // What was read before an error is what there is.
        let _ = file.take(len).read_to_end(&mut bytes);
    }
    bytes
}

/// The address of the first of these symbols that a file's symbol table has. Unlike in a [`crate::SymbolTable`] every alias
/// counts.
pub(crate) fn address_of_symbol(file: &[u8], names: &[&str]) -> Option<u64> {
    match class_of(file)? {
        elf::ELFCLASS32 => address::<FileHeader32<Endianness>>(file, names),
        elf::ELFCLASS64 => address::<FileHeader64<Endianness>>(file, names),
        _ => None,
    }
}

fn address<E: FileHeader<Endian = Endianness>>(file: &[u8], names: &[&str]) -> Option<u64> {
    let image = Image::<E>::open(file).ok()?;
    let endian = image.endian;
    let section = image.first(elf::SHT_SYMTAB)?;
    let (symbols, _) = image.entries::<E::Sym>(section);
    let strings = image.strings_of(section);
    let is = |symbol: &E::Sym, name: &str| {
        let at = strings.get(symbol.st_name(endian) as usize..);
        let rest = at.and_then(|at| at.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    };
    let mut found = names.iter().filter_map(|name| {
        let symbol = symbols.iter().find(|symbol| is(symbol, name))?;
        Some(symbol.st_value(endian).into())
    });
    found.next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, SymbolTable};
    use std::io::Cursor;

    #[test]
    fn the_headers_alone_say_what_the_whole_file_does() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let table = SymbolTable::from_elf(&whole, &Limits::default()).unwrap();
        let loads = Loads::read(&mut Cursor::new(&whole)).unwrap();
        assert_eq!(&loads.segments, table.segments());
        let main = table.functions().iter().find(|one| one.name == "main");
        let main = main.expect("a program has one").start;
        assert_eq!(address_of_symbol(&whole, &["no such", "main"]), Some(main));
        assert_eq!(address_of_symbol(&whole, &["mai"]), None);
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let read = |bytes: &[u8]| Loads::read(&mut Cursor::new(bytes));
        for len in [0, 4, 5, 63] {
            assert!(matches!(
                read(&whole[..len]),
                Err(ObjectError::NotElf { .. })
            ));
        }
        assert!(read(&whole[..64]).is_err(), "program headers are cut off");
        let changed = |at: usize, to: &[u8]| {
            let mut bytes = whole.clone();
            bytes[at..at + to.len()].copy_from_slice(to);
            read(&bytes)
        };
        assert!(changed(56, &[0xff, 0xff]).is_err(), "more headers than any");
        assert!(changed(54, &[1, 0]).is_err(), "headers of another size");
        assert!(changed(32, &[0xff; 8]).is_err(), "headers beyond the end");
    }
}
