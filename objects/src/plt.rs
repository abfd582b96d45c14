//! Names for the stubs of the procedure linkage table.
//!
//! No symbol names a stub. Its relocation does: the n-th of `.rela.plt` fills the slot of the n-th
//! stub behind the header of `.plt`, and of the n-th stub of `.plt.sec`, which has no header.

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, Rel, Rela, SectionHeader, Sym};

use crate::aliases::Candidate;
use crate::elf::{Found, Image};
use crate::table::Gap;
use crate::{Flags, Source};

/// Adds `name@plt` for every stub with a relocation.
pub(crate) fn add_stubs<'a, E: FileHeader<Endian = Endianness>>(
    image: &Image<'a, E>,
    found: &mut Found<'a, '_>,
) {
    let endian = image.endian;
    let Some((dynsym_at, dynsym)) = image.named(".dynsym") else {
        return;
    };
    let Some((_, relocations)) = image.named(".rela.plt").or_else(|| image.named(".rel.plt"))
    else {
        return;
    };
    if relocations.sh_link(endian) as usize != dynsym_at {
        return;
    }
    let symbols: Vec<u32> = match relocations.sh_type(endian) {
        elf::SHT_RELA => {
            let (list, whole) = image.entries::<E::Rela>(relocations);
            if !whole {
                found.gaps.add(Gap::PltUnreadable);
            }
            list.iter()
                .map(|entry| entry.r_sym(endian, false))
                .collect()
        }
        elf::SHT_REL => {
            let (list, whole) = image.entries::<E::Rel>(relocations);
            if !whole {
                found.gaps.add(Gap::PltUnreadable);
            }
            list.iter().map(|entry| entry.r_sym(endian)).collect()
        }
        _ => return,
    };
    let (dynamic, _) = image.entries::<E::Sym>(dynsym);
    let strings = image.strings_of(dynsym);
    for (section, has_header) in [(".plt", true), (".plt.sec", false)] {
        let Some((_, section)) = image.named(section) else {
            continue;
        };
        let (header, step) = sizes(image.machine(), section.sh_entsize(endian).into());
        let begin: u64 = section.sh_addr(endian).into();
        let end = begin.saturating_add(section.sh_size(endian).into());
        let mut start = begin.saturating_add(if has_header { header } else { 0 });
        for symbol in &symbols {
            if start.saturating_add(step) > end {
                break;
            }
            let name = dynamic
                .get(*symbol as usize)
                .and_then(|symbol| found.name(strings, symbol.st_name(endian)))
                .unwrap_or_default();
            let name = format!("{name}@plt");
            if !found.room_for(&name) {
                return;
            }
            found.candidates.push(Candidate {
                start,
                size: step,
                name: name.into(),
                source: Source::DynSym,
                flags: Flags::GLOBAL.with(Flags::PLT),
                module: "",
            });
            start = start.saturating_add(step);
        }
    }
}

/// Bytes of the header and of each stub.
fn sizes(machine: elf::Machine, entry_size: u64) -> (u64, u64) {
    match machine {
        elf::EM_ARM => (20, 12),
        elf::EM_AARCH64 => (32, 16),
        elf::EM_SPARC => (48, 12),
        elf::EM_SPARCV9 => (128, 32),
        _ if entry_size == 0 || entry_size > 256 => (16, 16),
        _ => (entry_size, entry_size),
    }
}
