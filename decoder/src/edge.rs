//! Symbols from this machine's file system, as perf finds them: never from a file that is not the one that was mapped.

mod debuginfod;
pub(crate) mod jit;
mod kernel;
mod kernel_code;
mod modules;
mod places;
mod refusals;
mod split;
mod vdso;

pub use places::Places;
pub(crate) use refusals::{DAMAGED, OTHER_DEBUG, remedy_of};
pub use refusals::{Refusal, Refusals};

use crate::identity::{Identity, Kind};
use crate::local::{ObjectRequest, ObjectSource};
use crate::symbols::{Object, What};
use debuginfod::Artifact;
use memwide_objects::{
    DebugError, DebugInfo, DebugSections, FrameSections, Gap, Limits, LinkSections, ObjectId,
    Segments, SymbolTable, read_image,
};
use std::fmt::Write;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Largest file read for its symbols, in bytes.
const FILE_MAX: u64 = 4 << 30;

/// Bytes at the start of an ELF file that say what machine it is for, and more.
const HEAD: usize = 64;

/// What machine an ELF file is for, its `e_machine`; `None` if that is the start of none.
fn machine_of(head: &[u8]) -> Option<u16> {
    let bytes: [u8; 2] = head.get(18..20)?.try_into().ok()?;
    match (head.starts_with(b"\x7fELF"), head.get(5)?) {
        (true, 1) => Some(u16::from_le_bytes(bytes)),
        (true, 2) => Some(u16::from_be_bytes(bytes)),
        _ => None,
    }
}

/// Reads symbol tables from files.
#[derive(Debug, Default)]
pub struct FileSource {
    places: Places,
    limits: Limits,
    kernel: kernel::Kernel,
    kernel_file: kernel_code::KernelFile,
    modules: modules::ModuleFiles,
    refusals: Refusals,
}

impl FileSource {
    /// Looks in these places.
    pub fn new(places: Places) -> Self {
        Self {
            places,
            ..Self::default()
        }
    }

    /// The mapped file on this machine: with the build id that was recorded, if one was.
    pub fn file(&self, identity: &Identity) -> Result<PathBuf, String> {
        self.places.file(identity, &mut Refusals::default())
    }

    /// Bytes of code from an ELF virtual address on, at most `len`, and what machine they are for (`e_machine` of ELF files,
    /// `None` if they are in none). `jit_dump` is the dump of the process, for generated code.
    pub fn code(
        &self,
        object: &Object,
        jit_dump: Option<&str>,
        segments: &Segments,
        start: u64,
        len: usize,
    ) -> Result<(Vec<u8>, Option<u16>), String> {
        if object.what == What::Vdso {
            let image = vdso::image().ok_or("the vdso of this process cannot be read")?;
            let at = usize::try_from(start).unwrap_or(usize::MAX);
            let rest = image.get(at..).unwrap_or_default();
            let code = rest.get(..len.min(rest.len())).unwrap_or_default();
            return Ok((code.to_vec(), machine_of(&image)));
        }
        if let (What::Jit, Some(dump)) = (object.what, jit_dump) {
            let map = Path::new(&*object.identity.path);
            let code = jit::code(dump, map, &self.places, start, len)?;
            return Ok((code.bytes, Some(code.machine)));
        }
        if matches!(object.what, What::Kernel | What::Module) {
            let is_running = self.kernel.is_running();
            let wanted = (start, len);
            let (places, identity) = (&self.places, &object.identity);
            let found = self.kernel_file.code(places, object, is_running, wanted);
            if object.what == What::Kernel || found.is_ok() {
                return found;
            }
            let loaded = self.kernel.module(&identity.path, object.base);
            let of_file = self.modules.code(places, identity, loaded.as_ref(), wanted);
            return found.or_else(|why| of_file.map_err(|own| format!("{own}; {why}")));
        }
        if !matches!(object.what, What::File | What::Shared) {
            return Err(format!("the code of {} is in no file", object.dso()));
        }
        let offset = segments.offset_of_vaddr(start);
        let offset = offset.ok_or_else(|| format!("{} loads no code there", object.dso()))?;
        let path = self.file(&object.identity)?;
        let read = |at: u64, len: usize| {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(at))?;
            let mut bytes = Vec::new();
            file.take(len as u64).read_to_end(&mut bytes)?;
            Ok::<_, std::io::Error>(bytes)
        };
        let both = read(offset, len).and_then(|code| Ok((code, machine_of(&read(0, HEAD)?))));
        both.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A file as debug information names it, below the root that recorded paths lie under.
    pub fn below_root(&self, path: &Path) -> PathBuf {
        self.places.below_root(path)
    }

    /// The symbols of an ELF file: its own and those of its debug file.
    fn elf(&mut self, path: &Path) -> Result<SymbolTable, String> {
        let Some(bytes) = read(path) else {
            let why = "it cannot be read";
            self.refusals
                .note(path.display(), why, refusals::UNREADABLE);
            return Err(format!("cannot read {}", path.display()));
        };
        // What else programs map has no names.
        let is_elf = bytes.starts_with(b"\x7fELF");
        let mut refused = Refusals::default();
        let id = ObjectId::of_elf(&bytes);
        let id = id.as_ref().map(ObjectId::as_bytes);
        let links = LinkSections::of(&bytes);
        let link = links.link.as_ref();
        let mut debug = self.places.debug_file(path, id, link, &mut refused);
        if debug.is_none() && !links.has_symbols {
            debug = id.and_then(|id| self.places.ask(id, Artifact::DebugInfo, &mut refused).ok());
        }
        if links.small_refused {
            let why = "section .gnu_debugdata cannot be unpacked";
            refused.note(path.display(), why, refusals::DAMAGED);
        }
        let debug = debug.and_then(|path| read(&path)).or(links.small_symbols);
        let table = self.table(&bytes, debug.as_deref());
        match &table {
            Err(why) => refused.note(path.display(), why, refusals::DAMAGED),
            Ok(table) => {
                if let Some((why, remedy)) = damage(table) {
                    refused.note(path.display(), why, remedy);
                }
            }
        }
        for refusal in refused.kept().iter().filter(|_| is_elf) {
            self.refusals.take(refusal.clone());
        }
        table
    }

    fn table(&self, bytes: &[u8], debug: Option<&[u8]>) -> Result<SymbolTable, String> {
        let table = match debug {
            Some(debug) => SymbolTable::from_elf_with_debug(bytes, debug, &self.limits),
            None => SymbolTable::from_elf(bytes, &self.limits),
        };
        table.map_err(|error| error.to_string())
    }
}

impl ObjectSource for FileSource {
    fn load(&mut self, request: &ObjectRequest<'_>) -> Result<SymbolTable, String> {
        let identity = request.identity;
        match request.what {
            What::Kernel if let Some(path) = self.places.own_kernel() => {
                let found = self.kernel_file.table(path, identity, &self.limits);
                if let Err(why) = &found {
                    let file = path.display().to_string();
                    let why = why.strip_prefix(&file).unwrap_or(why);
                    let why = why.trim_start_matches(": ").to_owned();
                    self.refusals.note(file, why, refusals::OTHER_KERNEL);
                }
                found
            }
            What::Kernel | What::Module => {
                let dir = self.places.build_id_dir();
                let mut found =
                    self.kernel
                        .table(request, &self.places, dir.as_deref(), &self.limits);
                if let (What::Module, Err(why)) = (request.what, &found) {
                    let refused = &mut self.refusals;
                    let of_file = self
                        .modules
                        .table(&self.places, identity, &self.limits, refused);
                    if of_file.is_ok() {
                        return of_file;
                    }
                    found = of_file.map_err(|own| format!("{why}; {own}"));
                }
                if let Some((file, why, remedy)) = self.kernel.refused() {
                    self.refusals.note(file, why, remedy);
                }
                found
            }
            What::Vdso if &*identity.path == "[vdso]" => {
                let bytes = vdso::image().ok_or("the vdso of this process cannot be read")?;
                let is_other = identity.id.len() >= 16 && !has_build_id(&bytes, &identity.id);
                if is_other {
                    return Err("the vdso of another kernel".into());
                }
                self.table(&bytes, None)
            }
            What::Jit => jit::table(request, &self.places, &self.limits, &mut self.refusals),
            What::File | What::Shared => {
                let path = self.places.file(identity, &mut self.refusals)?;
                self.elf(&path)
            }
            _ => Err("no file".into()),
        }
    }

    fn knows_kernel_lines(&self) -> bool {
        self.places.vmlinux.is_some()
    }

    fn debug_info(&mut self, request: &ObjectRequest<'_>) -> Result<DebugInfo, String> {
        let identity = request.identity;
        if let (What::Kernel, Some(path)) = (request.what, &self.places.vmlinux) {
            return self.kernel_file.lines(path, identity);
        }
        if request.what == What::Module {
            let loaded = self.kernel.module(&identity.path, request.base);
            let refused = &mut self.refusals;
            return self
                .modules
                .lines(&self.places, identity, loaded.as_ref(), refused);
        }
        let path = self.file(identity)?;
        let refused = &mut self.refusals;
        let mut from = path.clone();
        let mut found = noted(places::sections(&path, DebugSections::read), &path, refused)?;
        if !found.has_units() {
            let id = found.build_id();
            let id = id.as_ref().map(ObjectId::as_bytes);
            let debug = self.places.debug_file(&path, id, found.link(), refused);
            let asked = match (debug, id) {
                (Some(debug), _) => Ok(debug),
                (None, Some(id)) => self.places.ask(id, Artifact::DebugInfo, refused),
                (None, None) => Err(None),
            };
            from = asked.map_err(|why| {
                let none = DebugError::None;
                why.map_or_else(|| none.to_string(), |why| format!("{none}; {why}"))
            })?;
            found = noted(places::sections(&from, DebugSections::read), &from, refused)?;
        }
        let shared = self.places.shared(&from, &found).and_then(|shared| {
            let noted = shared.map_err(|why| refused.note(from.display(), why, OTHER_DEBUG));
            noted.ok()
        });
        let package = split::package(&[&path, &from]);
        let package = package.and_then(|found| noted(found, &path, refused).ok());
        let info = DebugInfo::with_package(found, shared, package);
        let info = info.map_err(|error| error.to_string());
        let info = noted(info, &from, refused);
        let info = info.map_err(|error| format!("{}: {error}", from.display()))?;
        Ok(info.with_split_files(Box::new(split::SplitPlaces::of(&path, &self.places))))
    }

    fn refusals(&self) -> Option<&Refusals> {
        Some(&self.refusals)
    }

    fn frames(&mut self, request: &ObjectRequest<'_>) -> Result<FrameSections, String> {
        let identity = request.identity;
        match request.what {
            What::Vdso => {
                let bytes = vdso::image().ok_or("the vdso of this process cannot be read")?;
                if identity.id.len() >= 16 && !has_build_id(&bytes, &identity.id) {
                    return Err("the vdso of another kernel".into());
                }
                let len = bytes.len() as u64;
                let found = FrameSections::read(&mut std::io::Cursor::new(bytes), len);
                found.map_err(|error| error.to_string())
            }
            What::File | What::Shared => frames(&self.file(identity)?),
            _ => Err("no file".into()),
        }
    }
}

/// What is wrong with a table that is used nevertheless, and what helps.
fn damage(table: &SymbolTable) -> Option<(String, &'static str)> {
    let passed_over = (table.malformed() as usize, table.symbols());
    let mut gaps = table.gaps().filter(|gap| gap.is_damage());
    let gap = gaps
        .find(|gap| *gap != Gap::SymbolsMalformed)
        .or((passed_over.0 > 0).then_some(Gap::SymbolsMalformed))?;
    let (few, all) = (passed_over.0, passed_over.0 + passed_over.1);
    Some(match gap {
        // As tools leave some behind that rewrite programs.
        Gap::SymbolsMalformed if few <= all / 100 => (
            format!("{few} of {all} symbols make no sense and are passed over"),
            refusals::OTHERS_HOLD,
        ),
        Gap::SymbolsMalformed => (
            format!("damaged, {few} of {all} symbols make no sense and are passed over"),
            refusals::DAMAGED,
        ),
        _ => (
            format!("damaged ({}), some names are missing", gap.reason()),
            refusals::DAMAGED,
        ),
    })
}

/// Takes note of what is refused. Errors of files begin with the file's name.
fn noted<T>(found: Result<T, String>, path: &Path, refused: &mut Refusals) -> Result<T, String> {
    if let Err(why) = &found {
        let file = path.display().to_string();
        let why = why.strip_prefix(&file).unwrap_or(why);
        refused.note(file, why.trim_start_matches(": "), refusals::DAMAGED);
    }
    found
}

/// How to unwind the functions of a file.
fn frames(path: &Path) -> Result<FrameSections, String> {
    let meta = std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if !meta.is_file() || meta.len() > FILE_MAX {
        return Err(format!("{} is no file to be read", path.display()));
    }
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()));
    let found = FrameSections::read(&mut file?, meta.len());
    found.map_err(|error| format!("{}: {error}", path.display()))
}

/// What of a file tells of symbols; of what is no ELF file, all.
fn read(path: &Path) -> Option<Vec<u8>> {
    let meta = std::fs::metadata(path).ok()?;
    // Devices and pipes could block for ever.
    let is_ours = meta.is_file() && meta.len() <= FILE_MAX;
    let len = usize::try_from(meta.len()).ok().filter(|_| is_ours)?;
    read_image(&mut File::open(path).ok()?, len).ok()
}

fn has_build_id(bytes: &[u8], id: &[u8]) -> bool {
    ObjectId::of_elf(bytes).is_some_and(|found| found.as_bytes() == id)
}

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(40), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// First two digits and the rest, as folders of build ids are named.
fn split_hex(id: &[u8]) -> Option<(String, String)> {
    let text = hex(id);
    let (head, tail) = text.split_at_checked(2)?;
    (!tail.is_empty()).then(|| (head.to_owned(), tail.to_owned()))
}

#[cfg(test)]
mod debug_tests;
#[cfg(test)]
mod dwz_tests;
#[cfg(test)]
mod tests;
