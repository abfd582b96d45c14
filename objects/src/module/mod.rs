//! Kernel modules: which are loaded, and what their files (`.ko`) say of them.
//!
//! A module's file is relocatable: its symbols are places in sections, and the kernel lays the sections out when it loads
//! the module. [`Layout`] does the same for its code; its data lie where nobody can tell from the file.

mod agree;
mod code;
mod layout;
mod loaded;
pub(crate) mod relocations;
mod unpack;

pub use code::ModuleCode;
pub(crate) use layout::{BASE, Layout};
pub use loaded::{LoadedModule, parse_modules};
pub use unpack::unpack_module;

use crate::ObjectError;
use crate::elf::{Image, class_of};
use object::Endianness;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::FileHeader;

/// `[name]` of `/lib/modules/…/name.ko.xz` or of `[name]`.
pub fn module_name(path: &str) -> String {
    if path.starts_with('[') {
        return path.to_owned();
    }
    let base = path.rsplit('/').next().unwrap_or(path);
    let stem = base.split(".ko").next().unwrap_or(base);
    format!("[{}]", stem.replace('-', "_"))
}

/// The name of the module whose file this is, as [`module_name`] gives it: the one it says itself, else that of the path.
/// `None` for every other file.
pub fn module_in(file: &[u8], path: &str) -> Option<String> {
    fn named<E: FileHeader<Endian = Endianness>>(file: &[u8], path: &str) -> Option<String> {
        let image = Image::<E>::open(file).ok()?;
        if matches!(Layout::of(&image), Err(ObjectError::Relocatable)) {
            return None;
        }
        let own = layout::info(&image, b"name=").map(String::from_utf8_lossy);
        Some(module_name(own.as_deref().unwrap_or(path)))
    }
    match class_of(file)? {
        object::elf::ELFCLASS32 => named::<FileHeader32<Endianness>>(file, path),
        object::elf::ELFCLASS64 => named::<FileHeader64<Endianness>>(file, path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_named_as_perf_names_them() {
        for (path, name) in [
            ("[xfs]", "[xfs]"),
            ("/lib/modules/6.1/kernel/net/nf-tables.ko.xz", "[nf_tables]"),
            ("/lib/modules/6.1/xfs.ko", "[xfs]"),
        ] {
            assert_eq!(module_name(path), name);
        }
    }
}
