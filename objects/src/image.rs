//! Reads of a file what tells of symbols, and leaves its code, data and debug information where they are: often nine tenths.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

/// Bytes read at once at the start: header, program headers, often the notes.
const HEAD: usize = 4096;

/// Sections that tell of symbols although they are of the kind that code and data are of: always read.
const ALWAYS: [&str; 1] = [".gnu_debugdata"];

/// Likewise, where there is no table of symbols: what Go's runtime knows of its functions.
pub(crate) const GO_TABLES: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// Where the loader puts addresses: tens of MB in large libraries, of another kind than code and data, and naming no symbol.
const LEFT_OUT: [&str; 2] = [".rela.dyn", ".rel.dyn"];

/// Longest sections of code, data or debug information that are read all the same.
const LEFT_OUT_ABOVE: u64 = 64 << 10;

/// A file of `len` bytes for [`crate::SymbolTable::from_elf`]: what says nothing of symbols reads as zeros and takes no memory.
/// What is no ELF file, or has no table of sections, is read whole.
///
/// Not for [`crate::ObjectId::of_file`], which may hash all of it.
pub fn read_image<R: Read + Seek>(file: &mut R, len: usize) -> io::Result<Vec<u8>> {
    let mut image = vec![0; len]; // untouched pages of zeros take no memory
    read(file, &mut image, 0..HEAD.min(len))?;
    let ranges = match image.get(4).map(|class| elf::FileClass(*class)) {
        Some(elf::ELFCLASS32) => ranges::<FileHeader32<Endianness>, R>(file, &mut image)?,
        Some(elf::ELFCLASS64) => ranges::<FileHeader64<Endianness>, R>(file, &mut image)?,
        _ => None,
    };
    match ranges {
        Some(ranges) => {
            for range in ranges {
                read(file, &mut image, range)?;
            }
        }
        None => read(file, &mut image, 0..len)?,
    }
    Ok(image)
}

/// The part of a range that the file has, read to its place.
fn read<R: Read + Seek>(file: &mut R, image: &mut [u8], range: Range<usize>) -> io::Result<()> {
    let end = range.end.min(image.len());
    let Some(place) = image.get_mut(range.start..end) else {
        return Ok(()); // beyond the end: whoever looks there says so
    };
    file.seek(SeekFrom::Start(range.start as u64))?;
    match file.read_exact(place) {
        // It became shorter meanwhile: the rest stays zeros.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        done => done,
    }
}

/// What is to be read of an ELF file, once its table of sections is; `None` for all of it.
fn ranges<E: FileHeader<Endian = Endianness>, R: Read + Seek>(
    file: &mut R,
    image: &mut [u8],
) -> io::Result<Option<Vec<Range<usize>>>> {
    let Some(table) = section_table::<E>(image) else {
        return Ok(None);
    };
    // The table may have more entries than the header can say: its first entry tells.
    read(file, image, table.start..table.start.saturating_add(HEAD))?;
    let Some(table) = section_table::<E>(image) else {
        return Ok(None);
    };
    read(file, image, table)?;
    if let Some(names) = section_names::<E>(image) {
        read(file, image, names)?;
    }
    if let Some(segments) = segment_table::<E>(image) {
        read(file, image, segments)?;
    }
    Ok(kept::<E>(image))
}

/// Program headers: tools that rewrite programs (BOLT, patchelf) put them behind everything else.
fn segment_table<E: FileHeader<Endian = Endianness>>(image: &[u8]) -> Option<Range<usize>> {
    let header = E::parse(image).ok()?;
    let endian = header.endian().ok()?;
    let start: u64 = header.e_phoff(endian).into();
    let start = usize::try_from(start).ok().filter(|start| *start > 0)?;
    let count = header.phnum(endian, image).ok()? as usize;
    let bytes = usize::from(header.e_phentsize(endian)).checked_mul(count)?;
    Some(start..start.checked_add(bytes)?)
}

fn section_table<E: FileHeader<Endian = Endianness>>(image: &[u8]) -> Option<Range<usize>> {
    let header = E::parse(image).ok()?;
    let endian = header.endian().ok()?;
    let start: u64 = header.e_shoff(endian).into();
    let start = usize::try_from(start).ok().filter(|start| *start > 0)?;
    let count = header.shnum(endian, image).unwrap_or(0).max(1);
    let count = usize::try_from(count).ok()?;
    let bytes = usize::from(header.e_shentsize(endian)).checked_mul(count)?;
    Some(start..start.checked_add(bytes)?)
}

/// Where the names of sections are.
fn section_names<E: FileHeader<Endian = Endianness>>(image: &[u8]) -> Option<Range<usize>> {
    let header = E::parse(image).ok()?;
    let endian = header.endian().ok()?;
    let at = header.section_strings_index(endian, image).ok()?;
    let sections = header.section_headers(endian, image).ok()?;
    let names = sections.get(at.0)?;
    let start: u64 = names.sh_offset(endian).into();
    let size: u64 = names.sh_size(endian).into();
    let end = usize::try_from(start.checked_add(size)?).ok()?;
    Some(usize::try_from(start).ok()?..end)
}

fn kept<E: FileHeader<Endian = Endianness>>(image: &[u8]) -> Option<Vec<Range<usize>>> {
    let header = E::parse(image).ok()?;
    let endian = header.endian().ok()?;
    let range = |start: u64, size: u64| {
        let start = usize::try_from(start).ok()?;
        Some(start..start.checked_add(usize::try_from(size).ok()?)?)
    };
    let mut kept = Vec::new();
    let sections = header.section_headers(endian, image).ok()?;
    let names = header.section_strings(endian, image, sections);
    let names = names.unwrap_or_default();
    let mut types = sections.iter().map(|section| section.sh_type(endian));
    let has_symbols = types.any(|kind| kind == elf::SHT_SYMTAB);
    let is_one_of = |name: &[u8], names: &[&str]| names.iter().any(|one| one.as_bytes() == name);
    let tells =
        |name: &[u8]| is_one_of(name, &ALWAYS) || (!has_symbols && is_one_of(name, &GO_TABLES));
    for section in sections {
        let size: u64 = section.sh_size(endian).into();
        let is_content = size > LEFT_OUT_ABOVE
            && section.name(endian, names).is_ok_and(|name| {
                let is_plain = section.sh_type(endian) == elf::SHT_PROGBITS;
                is_one_of(name, &LEFT_OUT) || (is_plain && !tells(name))
            });
        if is_content || section.sh_type(endian) == elf::SHT_NOBITS {
            continue;
        }
        kept.push(range(section.sh_offset(endian).into(), size)?);
    }
    for segment in header.program_headers(endian, image).ok()? {
        if segment.p_type(endian) == elf::PT_NOTE {
            kept.push(range(
                segment.p_offset(endian).into(),
                segment.p_filesz(endian).into(),
            )?);
        }
    }
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, ObjectId, SymbolTable};
    use std::io::Cursor;

    #[test]
    fn the_symbols_of_an_image_are_those_of_the_whole_file() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let image = read_image(&mut Cursor::new(&whole), whole.len()).unwrap();
        assert!(image != whole, "code is left out");
        let table = |bytes: &[u8]| SymbolTable::from_elf(bytes, &Limits::default()).unwrap();
        assert_eq!(table(&image), table(&whole));
        assert_eq!(ObjectId::of_elf(&image), ObjectId::of_elf(&whole));
    }

    #[test]
    fn program_headers_far_behind_the_start_are_read_too() {
        let mut whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let header = FileHeader64::<Endianness>::parse(&*whole).unwrap();
        let endian = header.endian().unwrap();
        let start = usize::try_from(header.e_phoff(endian)).unwrap();
        let bytes = usize::from(header.e_phentsize(endian)) * usize::from(header.e_phnum(endian));
        let moved = whole[start..start + bytes].to_vec();
        whole[start..start + bytes].fill(0);
        whole.resize(whole.len().next_multiple_of(HEAD) + HEAD, 0);
        let place = whole.len() as u64;
        whole.extend(moved);
        whole[32..40].copy_from_slice(&place.to_ne_bytes());
        let image = read_image(&mut Cursor::new(&whole), whole.len()).unwrap();
        let table = |bytes: &[u8]| SymbolTable::from_elf(bytes, &Limits::default()).unwrap();
        assert!(!table(&whole).segments().as_slice().is_empty());
        assert!(table(&image) == table(&whole), "tables differ");
        assert_eq!(ObjectId::of_elf(&image), ObjectId::of_elf(&whole));
    }

    #[test]
    fn what_is_no_elf_file_is_read_whole() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(
            read_image(&mut Cursor::new(&text), text.len()).unwrap(),
            text
        );
        assert_eq!(read_image(&mut Cursor::new(&text), 0).unwrap(), []);
    }

    #[test]
    fn a_file_cut_anywhere_is_read_without_panic() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for len in [
            0,
            1,
            5,
            63,
            64,
            65,
            4095,
            4096,
            4097,
            whole.len() / 2,
            whole.len() - 1,
        ] {
            let cut = &whole[..len];
            let image = read_image(&mut Cursor::new(cut), len).unwrap();
            assert_eq!(image.len(), len);
        }
    }
}
