//! The file behind a mapping, whichever way it can still be reached.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memwide_objects::{
    DebugLink, FrameSections, IdKind, Limits, LinkSections, ObjectError, ObjectId, Source,
    SymbolTable, crc32, read_image,
};
use memwide_proto::v1::mapping_identity::Kind;
use memwide_proto::v1::{MappingIdentity, SymbolRequest};

use super::same_file::is_same;
use crate::events::machine::Machine;
use crate::snapshot::{in_root, open_mapped, open_regular};

/// Mount namespaces looked into for a path whose process has ended, and processes looked at for them.
const NAMESPACES_MAX: usize = 256;
const PROCESSES_MAX: usize = 16_384;

/// Files above it are read one at a time: their symbols take many times the memory that the collector needs.
const LARGE_BYTES: u64 = 8 << 20;

/// The file's content, if it is the one asked for.
///
/// By the mapping itself, by the path as the process sees it, by the path as we see it, or, when the process is gone, as
/// any other process sees it. All but the first two, while the process lives, are only believed with a matching id, or if
/// they are the very file the mapping's record names: another file may lie there.
pub(super) fn find(
    machine: &Machine,
    request: &SymbolRequest,
    asked: &MappingIdentity,
    bytes_max: u64,
) -> Result<(Mapped, Turn), String> {
    let folder = machine.proc.join(request.pid.to_string());
    let path = asked.path.strip_suffix(" (deleted)").unwrap_or(&asked.path);
    let alive = request.pid != 0 && folder.exists();
    let mut why = "the file is gone".to_owned();
    let mapped = || open_mapped(&folder, request.start, request.end, b"");
    let seen = || open_regular(&in_root(&folder, path.as_bytes())?);
    let ours = || {
        let absolute = path.starts_with('/');
        absolute.then(|| open_regular(Path::new(path)))?
    };
    let elsewhere = || {
        // Without a device and inode there is nothing to know it by.
        let roots = request.file.map(|_| other_roots(machine));
        let roots = roots.into_iter().flatten();
        roots.filter_map(|folder| open_regular(&in_root(&folder, path.as_bytes())?))
    };
    let first: [&dyn Fn() -> Option<File>; 3] = [&mapped, &seen, &ours];
    let first = first.into_iter().enumerate();
    let first = first.filter_map(|(way, open)| Some((way, open()?)));
    let others = std::iter::once_with(elsewhere).flatten();
    for (way, file) in first.chain(others.map(|file| (3, file))) {
        if let Some(wanted) = &request.file
            && !is_same(machine, &file, wanted)
        {
            "another file lies at the path now".clone_into(&mut why);
            continue;
        }
        let turn = take_turn(&file);
        let mapped = match Mapped::read(file, bytes_max) {
            Ok(mapped) => mapped,
            Err(error) => {
                why = error;
                continue;
            }
        };
        if asked.id.is_empty() {
            // The mapping itself is always the right one; a path is, as long as the process lives.
            if request.file.is_some() || way == 0 || (way == 1 && alive) {
                return Ok((mapped, turn));
            }
            "the process is gone and the file has no build id to check".clone_into(&mut why);
            continue;
        }
        if mapped.is(asked) {
            return Ok((mapped, turn));
        }
        "another file lies at the path now".clone_into(&mut why);
    }
    Err(why)
}

/// Kept while a large file is read; small ones need none.
pub(super) type Turn = Option<MutexGuard<'static, ()>>;

/// Waits until no other large file is being read: several at once would take the node's memory to save little time.
fn take_turn(file: &File) -> Turn {
    static ONE: Mutex<()> = Mutex::new(());
    let len = file.metadata().map_or(0, |meta| meta.len());
    (len > LARGE_BYTES).then(|| ONE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// One process of each mount namespace.
fn other_roots(machine: &Machine) -> Vec<PathBuf> {
    let mut namespaces = HashSet::new();
    let processes = fs::read_dir(&machine.proc).into_iter().flatten().flatten();
    processes
        .take(PROCESSES_MAX)
        .map(|entry| entry.path())
        .filter(|folder| {
            let namespace = fs::read_link(folder.join("ns/mnt"));
            namespace.is_ok_and(|name| namespaces.insert(name))
        })
        .take(NAMESPACES_MAX)
        .collect()
}

/// A file that was mapped.
pub(crate) struct Mapped {
    /// Of it what tells of symbols.
    bytes: Vec<u8>,
    id: ObjectId,
    file: File,
}

impl Mapped {
    /// Reads an ELF file.
    pub(crate) fn read(file: File, bytes_max: u64) -> Result<Self, String> {
        let (bytes, id) = read_elf(&file, bytes_max)?;
        Ok(Self { bytes, id, file })
    }

    /// What it is.
    pub(crate) fn identity(&self, path: &str) -> MappingIdentity {
        let kind = match self.id.kind() {
            IdKind::Gnu => Kind::BuildId,
            IdKind::Content => Kind::Content,
        };
        MappingIdentity {
            kind: kind.into(),
            id: self.id.as_bytes().to_vec(),
            path: path.to_owned(),
        }
    }

    fn is(&self, asked: &MappingIdentity) -> bool {
        let found = self.identity("");
        found.kind == asked.kind && found.id == asked.id
    }

    /// Its symbols: with its separate debug file where there is one, as perf takes them. Without a table of symbols, the starts
    /// of all functions stand beside what is exported. `folder` is the process in `/proc`, where that is known.
    pub(crate) fn table(
        &self,
        folder: Option<&Path>,
        identity: &MappingIdentity,
        bytes_max: u64,
    ) -> Result<SymbolTable, ObjectError> {
        let limits = Limits::default();
        if let Some(debug) = self.debug(folder, identity, bytes_max) {
            return SymbolTable::from_elf_with_debug(&self.bytes, &debug, &limits);
        }
        let mut table = SymbolTable::from_elf(&self.bytes, &limits)?;
        let is_stripped = table.rank() < Source::SymTab as u8;
        let len = self.file.metadata().map_or(0, |meta| meta.len());
        if is_stripped
            && len <= bytes_max
            && let Ok(frames) = FrameSections::read(&mut &self.file, len)
        {
            table.add_starts(&frames, &limits);
        }
        Ok(table)
    }

    /// Its debug file: the distribution's; without symbols of its own the one it names, else the small one inside of it.
    fn debug(
        &self,
        folder: Option<&Path>,
        identity: &MappingIdentity,
        bytes_max: u64,
    ) -> Option<Vec<u8>> {
        debug_file(identity, bytes_max).or_else(|| {
            let links = LinkSections::of(&self.bytes);
            if links.has_symbols {
                return None;
            }
            let link = links.link;
            let link = link.and_then(|link| linked(folder, &identity.path, &link, bytes_max));
            link.or(links.small_symbols)
        })
    }
}

/// The debug file that a program names, beside it or in `.debug`, in the process's own root or in ours: the one with the
/// checksum that is named.
fn linked(folder: Option<&Path>, path: &str, link: &DebugLink, bytes_max: u64) -> Option<Vec<u8>> {
    if link.name.contains('/') || link.name.is_empty() {
        return None;
    }
    let beside = Path::new(path.strip_suffix(" (deleted)").unwrap_or(path)).parent()?;
    let below = |root: &str| Path::new(root).join(beside.strip_prefix("/").unwrap_or(beside));
    let places = [
        beside.join(&link.name),
        beside.join(".debug").join(&link.name),
        below("/usr/lib/debug").join(&link.name),
    ];
    let seen = places
        .iter()
        .filter_map(|path| in_root(folder?, path.to_str()?.as_bytes()));
    let all = seen.chain(places.iter().cloned());
    all.filter_map(|path| open_regular(&path)).find_map(|file| {
        let bytes = read_bounded(&file, bytes_max).ok()?;
        (Some(crc32(0, &bytes)) == link.crc).then_some(bytes)
    })
}

/// `/usr/lib/debug/.build-id/XX/….debug`, if it is of the same build.
fn debug_file(identity: &MappingIdentity, bytes_max: u64) -> Option<Vec<u8>> {
    let hex = identity
        .id
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let (head, tail) = hex.split_at_checked(2)?;
    let path = format!("/usr/lib/debug/.build-id/{head}/{tail}.debug");
    let (bytes, id) = read_elf(&open_regular(Path::new(&path))?, bytes_max).ok()?;
    (id.as_bytes() == identity.id).then_some(bytes)
}

/// Reads of an ELF file what tells of symbols, and what the file is: its build id, else a hash of its content. Of others, which
/// are mapped as data, only the first bytes.
fn read_elf(mut file: &File, bytes_max: u64) -> Result<(Vec<u8>, ObjectId), String> {
    let mut magic = [0; 4];
    match file.read_exact_at(&mut magic, 0) {
        Ok(()) if &magic == b"\x7fELF" => {}
        _ => return Err("not an ELF file".to_owned()),
    }
    let failed = |error: io::Error| error.to_string();
    let len = bounded_len(file, bytes_max)?;
    let image = read_image(&mut file, usize::try_from(len).unwrap_or(usize::MAX));
    let image = image.map_err(failed)?;
    if let Some(id) = ObjectId::of_elf(&image) {
        return Ok((image, id));
    }
    file.rewind().map_err(failed)?;
    let id = ObjectId::of_content_of(&mut file.take(bytes_max)).map_err(failed)?;
    Ok((image, id))
}

fn bounded_len(file: &File, bytes_max: u64) -> Result<u64, String> {
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    if len > bytes_max {
        return Err(format!(
            "the file has {len} bytes, more than the {bytes_max} that are read"
        ));
    }
    Ok(len)
}

/// Reads a whole file. Not mapped: a file that shrinks under a map kills its reader.
pub(crate) fn read_bounded(file: &File, bytes_max: u64) -> Result<Vec<u8>, String> {
    let len = bounded_len(file, bytes_max)?;
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    let read = file.take(bytes_max).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    Ok(bytes)
}
