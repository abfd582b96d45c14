//! Code of a module from its file.

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader};

use super::layout::NOWHERE;
use super::{Layout, relocations};
use crate::ObjectError;
use crate::elf::{Image, class_of};

/// Code as the kernel loads it, as far as the file tells: calls within the module lead where they do, what names the rest of
/// the kernel or data is left as it is in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleCode {
    /// From the distance on that was asked for.
    pub bytes: Vec<u8>,
    /// What machine it is for, its `e_machine`.
    pub machine: u16,
}

impl ModuleCode {
    /// `len` bytes at a distance from the base of the module; `None` where the file has none there.
    pub fn read(file: &[u8], start: u64, len: usize) -> Result<Option<Self>, ObjectError> {
        match class_of(file) {
            Some(object::elf::ELFCLASS32) => read::<FileHeader32<Endianness>>(file, start, len),
            Some(object::elf::ELFCLASS64) => read::<FileHeader64<Endianness>>(file, start, len),
            _ => Err(ObjectError::NotElf { len: file.len() }),
        }
    }
}

fn read<E: FileHeader<Endian = Endianness>>(
    file: &[u8],
    start: u64,
    len: usize,
) -> Result<Option<ModuleCode>, ObjectError> {
    let image = Image::<E>::open(file)?;
    let layout = Layout::of(&image)?;
    let mut holding = image
        .sections
        .iter()
        .enumerate()
        .filter_map(|(at, section)| {
            let into = start.checked_sub(layout.start(at)?)?;
            let size: u64 = section.sh_size(image.endian).into();
            (into < size).then_some((at, section, into))
        });
    let Some((at, section, into)) = holding.next() else {
        return Ok(None);
    };
    let place = usize::try_from(into).ok();
    let end = place.and_then(|place| place.checked_add(len));
    let range = place.zip(end);
    let bytes = range.and_then(|(place, end)| image.content(section).get(place..end));
    let Some(mut bytes) = bytes.map(<[u8]>::to_vec) else {
        return Ok(None);
    };
    for relocation in relocations::of_section(&image, at).filter(|one| one.is_relative) {
        let here = layout.address(at).wrapping_add(relocation.at);
        let target = relocation.target(&image, &layout);
        // Where all other things lie only the kernel knows.
        if let Some(target) = target.filter(|target| *target < NOWHERE) {
            relocation.write(&mut bytes, into, target.wrapping_sub(here), image.endian);
        }
    }
    Ok(Some(ModuleCode {
        bytes,
        machine: image.machine().0,
    }))
}
