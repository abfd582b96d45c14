//! Where the kernel puts the sections of a module that it loads (`layout_sections` of `kernel/module/main.c`).
//!
//! ```text
//! base ▶│.text│.static_call.text│.text.unlikely│.exit.text│   in the order of the file, each at its alignment
//! elsewhere, and gone after the module began: .init.*        elsewhere: data
//! ```

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader};

use crate::ObjectError;
use crate::elf::Image;

/// The kernel's own record of a module: only modules have the section.
const MARK: &str = ".gnu.linkonce.this_module";

/// Sections that the loader of Arm makes as large as it needs, which no file tells.
const MADE_LARGER: [&[u8]; 4] = [
    b".plt",
    b".init.plt",
    b".core.plt",
    b".text.ftrace_trampoline",
];

/// Stands for where a module is loaded: debug information says by address 0 that code was left out.
pub(crate) const BASE: u64 = 1 << 32;

/// Where sections stand whose place is not known: apart from each other and from all that is.
pub(crate) const NOWHERE: u64 = 1 << 62;

/// Most bytes of code of a module.
const CODE_MAX: u64 = 1 << 32;

/// Distances of a module's sections from its base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    of: Vec<Option<u64>>,
}

impl Layout {
    /// Of a module's file.
    pub(crate) fn of<E: FileHeader<Endian = Endianness>>(
        image: &Image<'_, E>,
    ) -> Result<Self, ObjectError> {
        let is_relocatable = image.header.e_type(image.endian) == elf::ET_REL;
        if !is_relocatable || image.named(MARK).is_none() {
            return Err(ObjectError::Relocatable);
        }
        let machine = image.machine();
        let is_whole = matches!(machine, elf::EM_X86_64 | elf::EM_386);
        if !is_whole && machine != elf::EM_AARCH64 {
            return Err(ObjectError::ModuleLayout { machine: machine.0 });
        }
        let keeps_exit = keeps_exit(image);
        let mut of = Vec::with_capacity(image.sections.len());
        let mut end = Some(0_u64);
        for section in image.sections {
            let name = image.name_of(section);
            if !is_whole && MADE_LARGER.contains(&name) {
                end = None;
            }
            let flags = section.sh_flags(image.endian).0;
            let wanted = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
            let is_gone = name.starts_with(b".init") || (name.starts_with(b".exit") && !keeps_exit);
            if flags & wanted != wanted || is_gone {
                of.push(None);
                continue;
            }
            let size: u64 = section.sh_size(image.endian).into();
            let align: u64 = section.sh_addralign(image.endian).into();
            let start = end.and_then(|end| end.checked_next_multiple_of(align.max(1)));
            let behind = start.and_then(|start| start.checked_add(size));
            let fits = behind.is_some_and(|behind| behind <= CODE_MAX);
            of.push(start.filter(|_| fits));
            // What the loader of Arm puts behind the first section nobody knows.
            end = behind.filter(|_| fits && is_whole);
        }
        Ok(Self { of })
    }

    /// Distance of a section from the base of the module; `None` where the file does not tell.
    pub(crate) fn start(&self, section: usize) -> Option<u64> {
        self.of.get(section).copied().flatten()
    }

    /// Address of a section of a module that is loaded at [`BASE`]; what the file does not tell of lies apart, from
    /// [`NOWHERE`] on.
    pub(crate) fn address(&self, section: usize) -> u64 {
        let apart = || NOWHERE.wrapping_add((section as u64) << 36);
        self.start(section)
            .map_or_else(apart, |start| BASE.wrapping_add(start))
    }
}

/// Whether the kernel can unload modules: then the code for that stays. So it is where the file does not say.
fn keeps_exit<E: FileHeader<Endian = Endianness>>(image: &Image<'_, E>) -> bool {
    info(image, b"vermagic=").is_none_or(|magic| {
        let mut words = magic.split(|byte| *byte == b' ');
        words.any(|word| word == b"mod_unload")
    })
}

/// What a module says of itself.
pub(super) fn info<'a, E: FileHeader<Endian = Endianness>>(
    image: &Image<'a, E>,
    key: &[u8],
) -> Option<&'a [u8]> {
    let (_, section) = image.named(".modinfo")?;
    let mut all = image.content(section).split(|byte| *byte == 0);
    all.find_map(|line| line.strip_prefix(key))
}
