//! Symbols from this machine's file system, as perf finds them: never from a file that is not the one that was mapped.

mod kernel;
mod vdso;

use crate::identity::{Identity, Kind};
use crate::local::{ObjectRequest, ObjectSource};
use crate::symbols::What;
use memwide_objects::{
    Flags, Limits, ObjectId, Segments, Source, Symbol, SymbolTable, Symbols, SymbolsBuilder,
    read_image,
};
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Largest file read for its symbols, in bytes.
const FILE_MAX: u64 = 4 << 30;

/// Where to look.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Root under which the recorded paths lie, instead of `/`.
    pub symfs: Option<PathBuf>,
    /// File to read instead of `/proc/kallsyms`, whatever kernel was recorded.
    pub kallsyms: Option<PathBuf>,
    /// Folder of files by build id; `~/.debug` where not given.
    pub build_id_dir: Option<PathBuf>,
}

/// Reads symbol tables from files.
#[derive(Debug, Default)]
pub struct FileSource {
    places: Places,
    limits: Limits,
    kernel: kernel::Kernel,
}

impl FileSource {
    /// Looks in these places.
    pub fn new(places: Places) -> Self {
        Self {
            places,
            ..Self::default()
        }
    }

    fn build_id_dir(&self) -> Option<PathBuf> {
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".debug"));
        self.places.build_id_dir.clone().or_else(home)
    }

    /// The file itself: from the cache by build id, else where it was mapped from.
    fn file(&self, identity: &Identity) -> Result<Vec<u8>, String> {
        let mut mismatch = false;
        for path in self.candidates(identity) {
            let Some(bytes) = read(&path) else {
                continue;
            };
            if identity.kind != Kind::BuildId || has_build_id(&bytes, &identity.id) {
                return Ok(bytes);
            }
            mismatch = true;
        }
        Err(if mismatch {
            format!("the file {} has another build id now", identity.path)
        } else {
            format!("cannot read {}", identity.path)
        })
    }

    fn candidates(&self, identity: &Identity) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        let by_id = (identity.kind == Kind::BuildId)
            .then(|| split_hex(&identity.id))
            .flatten();
        if let (Some((head, tail)), Some(dir)) = (&by_id, self.build_id_dir()) {
            let entry = dir.join(".build-id").join(head).join(tail);
            paths.push(entry.join("elf"));
            paths.push(entry);
        }
        let mapped = Path::new(&*identity.path);
        match &self.places.symfs {
            Some(root) => paths.push(root.join(mapped.strip_prefix("/").unwrap_or(mapped))),
            None => paths.push(mapped.to_owned()),
        }
        paths
    }

    /// The separate debug file, of the same build id.
    fn debug_file(&self, id: &[u8]) -> Option<Vec<u8>> {
        let (head, tail) = split_hex(id)?;
        let mut paths = Vec::new();
        if let Some(dir) = self.build_id_dir() {
            paths.push(dir.join(".build-id").join(&head).join(&tail).join("debug"));
        }
        let system = Path::new("/usr/lib/debug/.build-id").join(&head);
        paths.push(system.join(format!("{tail}.debug")));
        let mut found = paths.iter().filter_map(|path| read(path));
        found.find(|bytes| has_build_id(bytes, id))
    }

    fn elf(&self, bytes: &[u8]) -> Result<SymbolTable, String> {
        let id = ObjectId::of_elf(bytes);
        let debug = id.and_then(|id| self.debug_file(id.as_bytes()));
        let table = match debug {
            Some(debug) => SymbolTable::from_elf_with_debug(bytes, &debug, &self.limits),
            None => SymbolTable::from_elf(bytes, &self.limits),
        };
        table.map_err(|error| error.to_string())
    }
}

impl ObjectSource for FileSource {
    fn load(&mut self, request: &ObjectRequest<'_>) -> Result<SymbolTable, String> {
        let identity = request.identity;
        match request.what {
            What::Kernel | What::Module => {
                let dir = self.build_id_dir();
                self.kernel
                    .table(request, &self.places, dir.as_deref(), &self.limits)
            }
            What::Vdso if &*identity.path == "[vdso]" => {
                let bytes = vdso::image().ok_or("the vdso of this process cannot be read")?;
                let is_other = identity.id.len() >= 16 && !has_build_id(&bytes, &identity.id);
                if is_other {
                    return Err("the vdso of another kernel".into());
                }
                self.elf(&bytes)
            }
            What::Jit => read(Path::new(&*identity.path))
                .map(|text| perf_map(&text))
                .ok_or_else(|| format!("no {}", identity.path)),
            What::File | What::Shared => self.elf(&self.file(identity)?),
            _ => Err("no file".into()),
        }
    }
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

fn hex(bytes: &[u8]) -> String {
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

/// `/tmp/perf-PID.map`: `START SIZE name` a line, hexadecimal.
fn perf_map(text: &[u8]) -> SymbolTable {
    let mut builder = SymbolsBuilder::default();
    for line in String::from_utf8_lossy(text).lines() {
        let mut words = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let (Some(start), Some(size)) = (number(), number()) else {
            continue;
        };
        if let Some(name) = words.next() {
            builder.push(Symbol {
                start,
                size,
                name,
                source: Source::SymTab,
                flags: Flags::NONE,
            });
        }
    }
    SymbolTable::from_parts(Segments::default(), builder.finish(), Symbols::default())
}

#[cfg(test)]
mod tests;
