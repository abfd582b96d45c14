//! The sections of a file that say how to unwind its functions.

use super::DebugError;
use super::sections::{Packed, Place, content};
use crate::image;
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader};
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::sync::Arc;

/// Most bytes read of one file; browsers have some 20 MiB.
const BYTES_MAX: u64 = 256 << 20;

/// What says how to unwind, of a 64-bit little-endian program. Ranges are of ELF virtual addresses.
#[derive(Debug, Clone, Default)]
pub struct FrameSections {
    /// `.eh_frame`.
    pub eh_frame: Option<(Range<u64>, Arc<[u8]>)>,
    /// `.eh_frame_hdr`, its index.
    pub eh_frame_hdr: Option<(Range<u64>, Arc<[u8]>)>,
    /// `.debug_frame`.
    pub debug_frame: Option<Arc<[u8]>>,
    /// Where `.text` lies.
    pub text: Option<Range<u64>>,
    /// Where `.got` lies.
    pub got: Option<Range<u64>>,
}

impl FrameSections {
    /// Reads a file of `len` bytes: only its headers and these sections.
    pub fn read<R: Read + Seek>(file: &mut R, len: u64) -> Result<Self, DebugError> {
        let unreadable = |error: io::Error| DebugError::Unreadable { kind: error.kind() };
        let broken = || DebugError::Sections { len };
        let size = usize::try_from(len).map_err(|_| broken())?;
        let image = image::read_image(file, size).map_err(unreadable)?;
        let header = FileHeader64::<Endianness>::parse(&*image).map_err(|_| broken())?;
        let endian = header.endian().map_err(|_| broken())?;
        if endian != Endianness::Little {
            return Err(broken());
        }
        let headers = header
            .section_headers(endian, &*image)
            .map_err(|_| broken())?;
        let names = header
            .section_strings(endian, &*image, headers)
            .map_err(|_| broken())?;
        let mut found = Self::default();
        let mut budget = BYTES_MAX;
        for section in headers {
            let Ok(name) = section.name(endian, names) else {
                continue;
            };
            let (start, size) = (section.sh_addr(endian), section.sh_size(endian));
            let range = start..start.saturating_add(size);
            match name {
                b".text" => found.text = Some(range),
                b".got" => found.got = Some(range),
                b".eh_frame" | b".eh_frame_hdr" | b".debug_frame" => {
                    let offset = section.sh_offset(endian);
                    if section.sh_type(endian) == elf::SHT_NOBITS || offset >= len {
                        continue;
                    }
                    let is_packed = section.sh_flags(endian).0 & elf::SHF_COMPRESSED.0 != 0;
                    let place = Place {
                        offset,
                        size: size.min(len - offset),
                        packed: if is_packed {
                            Packed::Header { wide: true }
                        } else {
                            Packed::No
                        },
                    };
                    let bytes = content(file, place, budget, "frames", endian)?;
                    budget = budget.saturating_sub(bytes.len() as u64);
                    let bytes: Arc<[u8]> = bytes.into();
                    match name {
                        b".eh_frame" => found.eh_frame = Some((range, bytes)),
                        b".eh_frame_hdr" => found.eh_frame_hdr = Some((range, bytes)),
                        _ => found.debug_frame = Some(bytes),
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Bytes of all sections.
    pub fn len(&self) -> usize {
        let ranged = [&self.eh_frame, &self.eh_frame_hdr];
        let ranged = ranged.iter().filter_map(|section| section.as_ref());
        let ranged: usize = ranged.map(|(_, bytes)| bytes.len()).sum();
        ranged + self.debug_frame.as_ref().map_or(0, |bytes| bytes.len())
    }

    /// Whether nothing says how to unwind.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn the_running_program_says_how_to_unwind_it() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let found = FrameSections::read(&mut Cursor::new(&whole), whole.len() as u64).unwrap();
        let (range, bytes) = found.eh_frame.as_ref().unwrap();
        assert_eq!(range.end - range.start, bytes.len() as u64);
        assert!(!found.is_empty() && found.text.is_some());
    }

    #[test]
    fn what_is_cut_or_no_program_is_refused_or_has_less() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for len in [0, 10, 64, 5000, whole.len() / 2, whole.len() - 1] {
            let cut = &whole[..len];
            if let Ok(found) = FrameSections::read(&mut Cursor::new(cut), len as u64) {
                assert!(found.len() <= len);
            }
        }
    }
}
