//! What the kernel would write into a module's sections once it knows where they lie.

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};

use super::Layout;
use crate::elf::Image;

/// One place to write a number to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Relocation {
    /// Offset in the section.
    pub(crate) at: u64,
    /// Bytes of the number.
    pub(crate) width: usize,
    /// It is a distance from the place that it is written to.
    pub(crate) is_relative: bool,
    /// Section of what it names; `None` where that is in no section of the file.
    section: Option<usize>,
    /// Place of that in its section, with the addend.
    value: u64,
}

impl Relocation {
    /// What it names: an address as [`Layout::address`] gives them, or an offset in a section that is not loaded.
    pub(crate) fn target<E: FileHeader<Endian = Endianness>>(
        &self,
        image: &Image<'_, E>,
        layout: &Layout,
    ) -> Option<u64> {
        let section = self.section?;
        let header = image.sections.get(section)?;
        let is_loaded = header.sh_flags(image.endian).0 & elf::SHF_ALLOC.0 != 0;
        let start = if is_loaded {
            layout.address(section)
        } else {
            0
        };
        Some(start.wrapping_add(self.value))
    }

    /// Writes a number to its place, if that is within the bytes, which begin at `from` of the section.
    pub(crate) fn write(&self, bytes: &mut [u8], from: u64, number: u64, endian: Endianness) {
        let at = self.at.checked_sub(from).map(usize::try_from);
        let Some(Ok(at)) = at else { return };
        let end = at.saturating_add(self.width);
        let Some(place) = bytes.get_mut(at..end) else {
            return;
        };
        let (low, high) = (number.to_le_bytes(), number.to_be_bytes());
        match endian {
            Endianness::Little => place.copy_from_slice(low.get(..self.width).unwrap_or(&low)),
            Endianness::Big => {
                place.copy_from_slice(high.get(8 - self.width..).unwrap_or(&high));
            }
        }
    }
}

/// Those of one section, in the order of the file. Of kinds that are not known there are none.
pub(crate) fn of_section<'a, E: FileHeader<Endian = Endianness>>(
    image: &'a Image<'_, E>,
    section: usize,
) -> impl Iterator<Item = Relocation> + 'a {
    let endian = image.endian;
    let tables = image.sections.iter().filter(move |table| {
        table.sh_type(endian) == elf::SHT_RELA && table.sh_info(endian) as usize == section
    });
    tables.flat_map(move |table| {
        let symbols = image.sections.get(table.sh_link(endian) as usize);
        let symbols = symbols.map_or(&[][..], |symbols| image.entries::<E::Sym>(symbols).0);
        let (entries, _) = image.entries::<E::Rela>(table);
        entries.iter().filter_map(move |entry| {
            let kind = entry.r_type(endian, false).0;
            let (width, is_relative) = shape(image.machine(), kind)?;
            let symbol = symbols.get(entry.r_sym(endian, false) as usize)?;
            let addend: i64 = entry.r_addend(endian).into();
            let place: u64 = symbol.st_value(endian).into();
            let index = symbol.st_shndx(endian);
            let is_here = index != elf::SHN_UNDEF && index.0 < elf::SHN_LORESERVE;
            Some(Relocation {
                at: entry.r_offset(endian).into(),
                width,
                is_relative,
                section: is_here.then_some(usize::from(index.0)),
                value: place.wrapping_add_signed(addend),
            })
        })
    })
}

/// Bytes of a kind's number, and whether it is a distance.
fn shape(machine: elf::Machine, kind: u32) -> Option<(usize, bool)> {
    let kind = elf::RelocationType(kind);
    match (machine, kind) {
        (elf::EM_X86_64, elf::R_X86_64_64) | (elf::EM_AARCH64, elf::R_AARCH64_ABS64) => {
            Some((8, false))
        }
        (elf::EM_X86_64, elf::R_X86_64_32 | elf::R_X86_64_32S)
        | (elf::EM_AARCH64, elf::R_AARCH64_ABS32) => Some((4, false)),
        (elf::EM_X86_64, elf::R_X86_64_PC32 | elf::R_X86_64_PLT32) => Some((4, true)),
        _ => None,
    }
}
