//! The vdso, read from this process's own memory: it is no file.

use std::io::{Read, Seek, SeekFrom};

/// Larger than any vdso.
const IMAGE_MAX: u64 = 1 << 20;

/// The ELF image the kernel maps into every process.
pub(super) fn image() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let len = u64::from_str_radix(end, 16).ok()?.checked_sub(start)?;
    let mut memory = std::fs::File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    memory
        .take(len.min(IMAGE_MAX))
        .read_to_end(&mut bytes)
        .ok()?;
    bytes.starts_with(b"\x7fELF").then_some(bytes)
}
