//! What a file says of other files that have its symbols and debug information, or of one inside of it.

use super::sections::{UNPACKED_ALWAYS, UNPACKED_OF_A_BYTE};
use lzma_rust2::XzReader;
use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader};
use std::io::Read as _;

/// Memory that unpacking `.gnu_debugdata` may take, in KiB: the packer's strongest setting needs 65 MiB.
const XZ_MEMORY_KIB: u32 = 80 << 10;

/// Another file that is named for the debug information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugLink {
    /// Name as written: a file's name, or a path.
    pub name: String,
    /// What the other file must have: a checksum ([`crc32`]) of all its bytes …
    pub crc: Option<u32>,
    /// … or this build id.
    pub build_id: Option<Vec<u8>>,
}

/// Where else the symbols of a file may be, read of its image (see [`crate::read_image`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkSections {
    /// It has a full table of symbols (`.symtab`) itself.
    pub has_symbols: bool,
    /// Another file has them (`.gnu_debuglink`).
    pub link: Option<DebugLink>,
    /// An ELF file inside of this one (`.gnu_debugdata`, unpacked), which has the symbols that were stripped.
    pub small_symbols: Option<Vec<u8>>,
    /// There is one and it does not unpack.
    pub small_refused: bool,
}

impl LinkSections {
    /// Of the bytes of a file; nothing, if they cannot be understood.
    pub fn of(file: &[u8]) -> Self {
        let found = match file.get(4).map(|class| elf::FileClass(*class)) {
            Some(elf::ELFCLASS32) => read::<FileHeader32<Endianness>>(file),
            Some(elf::ELFCLASS64) => read::<FileHeader64<Endianness>>(file),
            _ => None,
        };
        found.unwrap_or_default()
    }
}

fn read<E: FileHeader<Endian = Endianness>>(file: &[u8]) -> Option<LinkSections> {
    let header = E::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.section_headers(endian, file).ok()?;
    let names = header.section_strings(endian, file, headers).ok()?;
    let mut found = LinkSections::default();
    for section in headers {
        found.has_symbols |= section.sh_type(endian) == elf::SHT_SYMTAB;
        let content = || section.data(endian, file).ok();
        match section.name(endian, names) {
            Ok(b".gnu_debuglink") => found.link = content().and_then(|bytes| link(bytes, endian)),
            Ok(b".gnu_debugdata") => {
                found.small_symbols = content().and_then(unpack_xz);
                found.small_refused = found.small_symbols.is_none();
            }
            _ => {}
        }
    }
    Some(found)
}

/// A name, zeros up to a multiple of four, a checksum.
pub(super) fn link(bytes: &[u8], endian: Endianness) -> Option<DebugLink> {
    let len = bytes.iter().position(|byte| *byte == 0)?;
    let crc = bytes.get((len + 1).next_multiple_of(4)..)?.first_chunk()?;
    Some(DebugLink {
        name: String::from_utf8_lossy(bytes.get(..len)?).into_owned(),
        crc: Some(match endian {
            Endianness::Little => u32::from_le_bytes(*crc),
            Endianness::Big => u32::from_be_bytes(*crc),
        }),
        build_id: None,
    })
}

/// A path, a zero, a build id.
pub(super) fn shared(bytes: &[u8]) -> Option<DebugLink> {
    let len = bytes.iter().position(|byte| *byte == 0)?;
    Some(DebugLink {
        name: String::from_utf8_lossy(bytes.get(..len)?).into_owned(),
        crc: None,
        build_id: Some(bytes.get(len + 1..)?.to_vec()),
    })
}

fn unpack_xz(packed: &[u8]) -> Option<Vec<u8>> {
    let most =
        UNPACKED_ALWAYS.saturating_add(UNPACKED_OF_A_BYTE.saturating_mul(packed.len() as u64));
    let mut plain = Vec::new();
    let mut reader = XzReader::new_mem_limit(packed, true, XZ_MEMORY_KIB).take(most);
    reader.read_to_end(&mut plain).ok()?;
    plain.starts_with(b"\x7fELF").then_some(plain)
}

/// The checksum of `.gnu_debuglink` over more bytes, which starts with 0.
pub fn crc32(before: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let (mut at, mut start) = (0, 0);
        while at < 256 {
            let mut value = start;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 {
                    0xedb8_8320 ^ (value >> 1)
                } else {
                    value >> 1
                };
                bit += 1;
            }
            #[expect(clippy::indexing_slicing, reason = "both bounds are 256")]
            {
                table[at] = value;
            }
            (at, start) = (at + 1, start + 1);
        }
        table
    };
    let step = |value: u32, byte: &u8| {
        let at = usize::from(value.to_le_bytes().first().unwrap_or(&0) ^ byte);
        TABLE.get(at).unwrap_or(&0) ^ (value >> 8)
    };
    !bytes.iter().fold(!before, step)
}
