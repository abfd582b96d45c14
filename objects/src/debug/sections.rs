//! The sections of a file that debug information is made of, unpacked; and where else some may be.

use super::links::{self, DebugLink};
use super::{Bytes, DebugError};
use crate::elf::Image;
use crate::module::{self, Layout, relocations};
use crate::{ObjectId, image};
use gimli::{Dwarf, DwarfPackage, EndianSlice, RunTimeEndian, SectionId};
use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader};
use std::io::{self, Read, Seek, SeekFrom};

/// Most bytes of debug information read of one file, unpacked: browsers have about 2 GiB.
const BYTES_MAX: u64 = 3 << 30;

/// Most bytes a packed byte may stand for. Debug information packs to a fifth; zeros pack to a thousandth.
pub(super) const UNPACKED_OF_A_BYTE: u64 = 64;

/// Bytes any packed section may unpack to.
pub(super) const UNPACKED_ALWAYS: u64 = 1 << 20;

/// Longest of the sections that name another file.
const LINK_MAX: u64 = 8 << 10;

/// What is read, by number of the section.
const WANTED: [SectionId; 12] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugCuIndex,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTuIndex,
    SectionId::DebugTypes,
];

/// Sections of a file.
#[derive(Debug)]
pub struct DebugSections {
    endian: RunTimeEndian,
    sections: [Vec<u8>; WANTED.len()],
    build_id: Option<ObjectId>,
    link: Option<DebugLink>,
    shared: Option<DebugLink>,
    /// What its addresses begin at, of a kernel module: where that is loaded no file says.
    base: u64,
}

impl DebugSections {
    /// Reads a file of `len` bytes: only its headers and what it has of debug information.
    pub fn read<R: Read + Seek>(file: &mut R, len: u64) -> Result<Self, DebugError> {
        Self::read_kind(file, len, Kind::Whole)
    }

    /// Reads what was split off into a file (`.dwo`), left in an object file, or packed together (`.dwp`).
    pub fn read_split<R: Read + Seek>(file: &mut R, len: u64) -> Result<Self, DebugError> {
        Self::read_kind(file, len, Kind::Split)
    }

    fn read_kind<R: Read + Seek>(file: &mut R, len: u64, kind: Kind) -> Result<Self, DebugError> {
        let unreadable = |error: io::Error| DebugError::Unreadable { kind: error.kind() };
        let size = usize::try_from(len).map_err(|_| DebugError::Sections { len })?;
        let image = image::read_image(file, size).map_err(unreadable)?;
        match image.get(4).map(|class| elf::FileClass(*class)) {
            Some(elf::ELFCLASS32) => read::<FileHeader32<Endianness>, R>(file, &image, kind),
            Some(elf::ELFCLASS64) => read::<FileHeader64<Endianness>, R>(file, &image, kind),
            _ => Err(DebugError::Sections { len }),
        }
    }

    /// The build id of the file.
    pub fn build_id(&self) -> Option<ObjectId> {
        self.build_id
    }

    /// Whether there are units, which all begins with.
    pub fn has_units(&self) -> bool {
        !self.section(SectionId::DebugInfo).is_empty()
    }

    /// The file that has the debug information of this one (`.gnu_debuglink`).
    pub fn link(&self) -> Option<&DebugLink> {
        self.link.as_ref()
    }

    /// The file that has what several debug files share (`.gnu_debugaltlink`).
    pub fn shared(&self) -> Option<&DebugLink> {
        self.shared.as_ref()
    }

    /// What addresses asked for are distances from.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of all sections.
    pub(super) fn len(&self) -> usize {
        self.sections.iter().map(Vec::len).sum()
    }

    /// Bytes of the longer table of units of a package.
    pub(super) fn index_len(&self) -> usize {
        let units = self.section(SectionId::DebugCuIndex).len();
        units.max(self.section(SectionId::DebugTuIndex).len())
    }

    fn section(&self, id: SectionId) -> &[u8] {
        let at = WANTED.iter().position(|wanted| *wanted == id);
        at.and_then(|at| self.sections.get(at))
            .map_or(&[], Vec::as_slice)
    }

    pub(super) fn dwarf(&self) -> Dwarf<Bytes<'_>> {
        let view = |id| Ok::<_, gimli::Error>(EndianSlice::new(self.section(id), self.endian));
        // Lending cannot fail.
        Dwarf::load(view).unwrap_or_default()
    }

    /// The same of a package of split files.
    pub(super) fn package(&self) -> Result<DwarfPackage<Bytes<'_>>, DebugError> {
        let view = |id| Ok::<_, gimli::Error>(EndianSlice::new(self.section(id), self.endian));
        Ok(DwarfPackage::load(
            view,
            EndianSlice::new(&[], self.endian),
        )?)
    }
}

/// Which sections of a file are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    /// Those named `….dwo`.
    Split,
}

impl Kind {
    fn name(self, id: SectionId) -> Option<&'static str> {
        match self {
            Self::Whole => Some(id.name()),
            Self::Split => id.dwo_name(),
        }
    }
}

/// A section in the file.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) packed: Packed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Packed {
    No,
    /// With a header of the ELF class in front.
    Header {
        wide: bool,
    },
    /// `ZLIB` and the size, as older tools did in sections named `.zdebug_…`.
    Old,
}

fn read<E: FileHeader<Endian = Endianness>, R: Read + Seek>(
    file: &mut R,
    image: &[u8],
    kind: Kind,
) -> Result<DebugSections, DebugError> {
    let len = image.len() as u64;
    let broken = |_| DebugError::Sections { len };
    let header = E::parse(image).map_err(broken)?;
    let endian = header.endian().map_err(broken)?;
    let headers = header.section_headers(endian, image).map_err(broken)?;
    let names = header
        .section_strings(endian, image, headers)
        .map_err(broken)?;
    let mut found = DebugSections {
        endian: match endian {
            Endianness::Little => RunTimeEndian::Little,
            Endianness::Big => RunTimeEndian::Big,
        },
        sections: Default::default(),
        build_id: ObjectId::of_elf(image),
        link: None,
        shared: None,
        base: 0,
    };
    let mut budget = BYTES_MAX;
    let mut places = Vec::new();
    for (number, section) in headers.iter().enumerate() {
        let (size, offset): (u64, u64) = (
            section.sh_size(endian).into(),
            section.sh_offset(endian).into(),
        );
        let Ok(name) = section.name(endian, names) else {
            continue;
        };
        if section.sh_type(endian) == elf::SHT_NOBITS || offset >= len {
            continue;
        }
        let flags: u64 = section.sh_flags(endian).0;
        let mut place = Place {
            offset,
            size: size.min(len - offset),
            packed: Packed::No,
        };
        if flags & elf::SHF_COMPRESSED.0 != 0 {
            let wide = header.is_class_64();
            place.packed = Packed::Header { wide };
        }
        match name {
            b".gnu_debuglink" => {
                let bytes = content(file, place, LINK_MAX, "link", endian)?;
                found.link = links::link(&bytes, endian);
            }
            b".gnu_debugaltlink" => {
                let bytes = content(file, place, LINK_MAX, "altlink", endian)?;
                found.shared = links::shared(&bytes);
            }
            _ => {
                let old = name.strip_prefix(b".z").map(|rest| [b".", rest].concat());
                if old.is_some() {
                    place.packed = Packed::Old;
                }
                let name = old.as_deref().unwrap_or(name);
                let is_it =
                    |id: &SectionId| kind.name(*id).is_some_and(|one| one.as_bytes() == name);
                let at = WANTED.iter().position(is_it);
                let Some((at, id)) = at.and_then(|at| Some((at, WANTED.get(at)?))) else {
                    continue;
                };
                let bytes = content(file, place, budget, id.name(), endian)?;
                budget = budget.saturating_sub(bytes.len() as u64);
                // A split file has a section for each unit of a type.
                let several = kind == Kind::Split
                    && matches!(id, SectionId::DebugInfo | SectionId::DebugTypes);
                if let Some(to) = found.sections.get_mut(at) {
                    if to.is_empty() {
                        *to = bytes;
                        places.push((number, at));
                    } else if several {
                        to.extend(bytes);
                    }
                }
            }
        }
    }
    if header.e_type(endian) == elf::ET_REL && kind == Kind::Whole {
        relocate::<E>(image, &places, &mut found);
    }
    Ok(found)
}

/// Writes into the sections of a kernel module what its loader would. Those of other relocatable files stay as they are:
/// split files have nothing to write, and what an object file says of addresses is of no use.
fn relocate<E: FileHeader<Endian = Endianness>>(
    image: &[u8],
    places: &[(usize, usize)],
    found: &mut DebugSections,
) {
    let Ok(image) = Image::<E>::open(image) else {
        return;
    };
    let Ok(layout) = Layout::of(&image) else {
        return;
    };
    found.base = module::BASE;
    for (number, at) in places {
        let Some(bytes) = found.sections.get_mut(*at) else {
            continue;
        };
        for relocation in relocations::of_section(&image, *number) {
            let target = relocation.target(&image, &layout);
            if let Some(target) = target.filter(|_| !relocation.is_relative) {
                relocation.write(bytes, 0, target, image.endian);
            }
        }
    }
}

pub(super) fn content<R: Read + Seek>(
    file: &mut R,
    place: Place,
    limit: u64,
    name: &'static str,
    endian: Endianness,
) -> Result<Vec<u8>, DebugError> {
    let too_large = |bytes| DebugError::TooLarge { bytes, limit };
    if place.size > limit {
        return Err(too_large(place.size));
    }
    let mut bytes = Vec::new();
    let read = file
        .seek(SeekFrom::Start(place.offset))
        .and_then(|_| file.by_ref().take(place.size).read_to_end(&mut bytes));
    read.map_err(|error| DebugError::Unreadable { kind: error.kind() })?;
    let broken = || DebugError::Compressed { name };
    let (zstd, size, packed) = match place.packed {
        Packed::No => return Ok(bytes),
        Packed::Old => {
            let (size, packed) = old_header(&bytes).ok_or_else(broken)?;
            (false, size, packed)
        }
        Packed::Header { wide } => header_of(&bytes, wide, endian).ok_or_else(broken)?,
    };
    let most = UNPACKED_ALWAYS.saturating_add(UNPACKED_OF_A_BYTE.saturating_mul(place.size));
    if size > limit.min(most) {
        return Err(too_large(size));
    }
    let size = usize::try_from(size).map_err(|_| broken())?;
    let plain = if zstd {
        zstd::bulk::decompress(packed, size).ok()
    } else {
        miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, size).ok()
    };
    plain.filter(|plain| plain.len() == size).ok_or_else(broken)
}

/// Kind (zstd or zlib), unpacked size and packed bytes, behind the header that ELF gives packed sections.
fn header_of(bytes: &[u8], wide: bool, endian: Endianness) -> Option<(bool, u64, &[u8])> {
    let word = |at: usize, len: usize| {
        let bytes = bytes.get(at..at.checked_add(len)?)?;
        let add = |value: u64, byte: &u8| (value << 8) | u64::from(*byte);
        Some(match endian {
            Endianness::Little => bytes.iter().rev().fold(0, add),
            Endianness::Big => bytes.iter().fold(0, add),
        })
    };
    let (size, header) = if wide {
        (word(8, 8)?, 24)
    } else {
        (word(4, 4)?, 12)
    };
    let zstd = match word(0, 4)? {
        1 => false,
        2 => true,
        _ => return None,
    };
    Some((zstd, size, bytes.get(header..)?))
}

fn old_header(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (size, packed) = bytes.strip_prefix(b"ZLIB")?.split_first_chunk()?;
    Some((u64::from_be_bytes(*size), packed))
}
