//! Code, names and lines of the kernel: from its ELF file, from a copy of its memory, from the memory of the kernel that runs.

use super::places::{sections, usable};
use super::{Places, read};
use crate::identity::Identity;
use crate::symbols::{Object, What};
use crate::table::KERNEL_HALF;
use memwide_objects::{
    DebugInfo, DebugSections, KERNEL_STARTS, Limits, LinkedKernel, Loads, Segments, SymbolTable,
    module_name, parse_modules,
};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::OnceLock;

/// Most bytes read of a function: what the headers of a core say of its length is no more than a claim.
const CODE_MAX: usize = 1 << 20;

/// Memory of the kernel that runs.
const LIVE: &str = "/proc/kcore";

/// What helps where there is no code.
const REMEDY: &str = "record with `perf record --kcore`, name the ELF file of the kernel (-k vmlinux), or run as root on the \
                      recorded machine before it is started anew (/proc/kcore)";

/// The kernel's ELF file, read when it is wanted first.
#[derive(Debug, Default)]
pub(super) struct KernelFile {
    read: OnceLock<Result<Linked, String>>,
}

/// The kernel as it was linked.
#[derive(Debug)]
struct Linked {
    loads: Loads,
    kernel: LinkedKernel,
}

impl KernelFile {
    fn linked(&self, path: &Path, identity: &Identity) -> Result<&Linked, String> {
        let read = self.read.get_or_init(|| {
            let named = |why: &str| format!("{}: {why}", path.display());
            usable(path).map_err(|why| named(&why))?;
            let bytes = read(path).ok_or_else(|| named("it cannot be read"))?;
            let kernel = LinkedKernel::of(&bytes, identity.build_id());
            let kernel = kernel.map_err(|error| named(&error.to_string()))?;
            let loads = File::open(path).map_err(|error| named(&error.to_string()))?;
            let loads = Loads::read(&mut BufReader::new(loads));
            let loads = loads.map_err(|error| named(&error.to_string()))?;
            Ok(Linked { loads, kernel })
        });
        read.as_ref().map_err(Clone::clone)
    }

    /// Code at a distance from the start of the kernel or of a module. `is_running`: the kernel that was recorded is this one.
    pub(super) fn code(
        &self,
        places: &Places,
        object: &Object,
        is_running: bool,
        (start, len): (u64, usize),
    ) -> Result<(Vec<u8>, Option<u16>), String> {
        if len > CODE_MAX {
            return Err(format!("{len} bytes, at most {CODE_MAX} are read"));
        }
        if let (What::Kernel, Some(path)) = (object.what, &places.vmlinux) {
            let linked = self.linked(path, &object.identity)?;
            let address = linked.kernel.start().wrapping_add(start);
            return loaded(path, &linked.loads, address, len);
        }
        let path = places.kcore.as_deref().unwrap_or(Path::new(LIVE));
        if places.kcore.is_none() {
            if !is_running || !path.is_file() {
                let dso = object.dso();
                return Err(format!("the code of {dso} is not here: {REMEDY}"));
            }
            is_where_it_was(object)?;
        }
        if object.base < KERNEL_HALF {
            return Err("the recording does not say where the kernel was loaded; name its ELF file (-k vmlinux)".into());
        }
        let mut file = File::open(path).map_err(|error| {
            let path = path.display();
            format!("{path}: {error}; {REMEDY}")
        })?;
        let loads =
            Loads::read(&mut file).map_err(|error| format!("{}: {error}", path.display()))?;
        loaded(path, &loads, object.base.wrapping_add(start), len)
    }

    /// Names of the kernel, as distances from its start.
    pub(super) fn table(
        &self,
        path: &Path,
        identity: &Identity,
        limits: &Limits,
    ) -> Result<SymbolTable, String> {
        let kernel = self.linked(path, identity)?.kernel;
        let named = |why: &str| format!("{}: {why}", path.display());
        let bytes = read(path).ok_or_else(|| named("it cannot be read"))?;
        let table = kernel.table(&bytes, limits);
        table.map_err(|error| named(&error.to_string()))
    }

    /// Lines of its source, by distances from its start.
    pub(super) fn lines(&self, path: &Path, identity: &Identity) -> Result<DebugInfo, String> {
        let start = self.linked(path, identity)?.kernel.start();
        let found = sections(path, DebugSections::read)?;
        let info = DebugInfo::new(found, None);
        let info = info.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(info.from_start(start))
    }
}

/// The bytes at an address, all of them or none.
fn loaded(
    path: &Path,
    loads: &Loads,
    address: u64,
    len: usize,
) -> Result<(Vec<u8>, Option<u16>), String> {
    let named = |why: String| format!("{}: {why}", path.display());
    let offset = offset_of(&loads.segments, address, len);
    let offset = offset.ok_or_else(|| named(format!("it has no code at {address:#x}")))?;
    let read = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(len as u64).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let bytes = read().map_err(|error| named(error.to_string()))?;
    if bytes.len() < len {
        return Err(named(format!(
            "it ends before the code that its headers say it has at {address:#x}"
        )));
    }
    // Memory that may not be read, or is there no more, reads as zeros.
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(named(format!("nothing but zeros at {address:#x}")));
    }
    Ok((bytes, Some(loads.machine)))
}

/// Where in the file the bytes are, if one segment has them all.
fn offset_of(segments: &Segments, address: u64, len: usize) -> Option<u64> {
    let offset = segments.offset_of_vaddr(address)?;
    let last = segments.offset_of_vaddr(address.checked_add((len as u64).checked_sub(1)?)?)?;
    (last.checked_sub(offset)? == len as u64 - 1).then_some(offset)
}

/// The kernel lies elsewhere after each start: then its memory at a recorded address is something else.
fn is_where_it_was(object: &Object) -> Result<(), String> {
    let is_there = if object.what == What::Kernel {
        starts()?.contains(&object.base)
    } else {
        let text = std::fs::read("/proc/modules").map_err(|error| error.to_string())?;
        let modules = parse_modules(&text).map_err(|error| error.to_string())?;
        let name = module_name(&object.identity.path);
        let name = name.trim_matches(['[', ']']);
        let mut modules = modules.iter();
        modules.any(|module| module.name == name && module.base == object.base)
    };
    let moved = || {
        let dso = object.dso();
        format!("{dso} is not where it was recorded, the machine was started anew; {REMEDY}")
    };
    is_there.then_some(()).ok_or_else(moved)
}

/// Where the running kernel begins.
fn starts() -> Result<Vec<u64>, String> {
    let failed = |error: std::io::Error| format!("/proc/kallsyms: {error}");
    let file = File::open("/proc/kallsyms").map_err(failed)?;
    let mut found = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(failed)?;
        let mut parts = line.split_ascii_whitespace();
        let (address, name) = (parts.next(), parts.nth(1));
        if name.is_some_and(|name| KERNEL_STARTS.contains(&name)) {
            found.extend(address.and_then(|text| u64::from_str_radix(text, 16).ok()));
        }
        if found.len() == KERNEL_STARTS.len() {
            break;
        }
    }
    Ok(found)
}
