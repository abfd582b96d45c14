//! Where files lie that were mapped, and the files that have their debug information.

use super::debuginfod::{self, Artifact, Bounds};
use super::refusals::{self, Refusals};
use super::{Kind, has_build_id, hex, read, split_hex};
use crate::identity::Identity;
use memwide_objects::{DebugError, DebugLink, DebugSections, ObjectId, crc32};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Folder of separate debug files.
pub(super) const DEBUG_ROOT: &str = "/usr/lib/debug";

/// Bytes read to find a build id.
const HEAD: u64 = 4096;

/// Where to look.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Root under which the recorded paths lie, instead of `/`.
    pub symfs: Option<PathBuf>,
    /// File to read instead of `/proc/kallsyms`, whatever kernel was recorded.
    pub kallsyms: Option<PathBuf>,
    /// The kernel's ELF file, with its code, its names and perhaps its lines.
    pub vmlinux: Option<PathBuf>,
    /// A copy of the recorded kernel's memory, as `perf record --kcore` makes it.
    pub kcore: Option<PathBuf>,
    /// Folder of files by build id; `~/.debug` where not given.
    pub build_id_dir: Option<PathBuf>,
    /// Servers of debug information to ask for what is not here: `http://HOST:PORT` or `https://HOST`. None are asked unless
    /// given.
    pub debuginfod: Vec<String>,
    /// Folder of what those servers answered; that of debuginfod's own client where not given.
    pub debuginfod_cache: Option<PathBuf>,
    /// Release of the kernel that was recorded (`uname -r`): its modules are installed below it.
    pub release: Option<String>,
    /// When the recording was written, where that is known: what has no build id and was changed since is another file.
    pub written: Option<SystemTime>,
}

impl Places {
    /// The ELF file that names the kernel's code: a text of its symbols as it ran goes before.
    pub(super) fn own_kernel(&self) -> Option<&Path> {
        self.vmlinux.as_deref().filter(|_| self.kallsyms.is_none())
    }

    pub(super) fn build_id_dir(&self) -> Option<PathBuf> {
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".debug"));
        self.build_id_dir.clone().or_else(home)
    }

    /// A recorded path below the root.
    pub(super) fn below_root(&self, path: &Path) -> PathBuf {
        match &self.symfs {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    /// The mapped file: from the cache by build id, else where it was mapped from, else from a server.
    pub(super) fn file(
        &self,
        identity: &Identity,
        refused: &mut Refusals,
    ) -> Result<PathBuf, String> {
        let is_known = identity.kind == Kind::BuildId;
        let mut others = Vec::new();
        let mut unusable = None;
        for path in self.candidates(identity) {
            if let Err(why) = usable(&path) {
                unusable = Some(why); // of the last: where it was mapped from
                continue;
            }
            if !is_known && self.is_newer(&path) {
                return Err(format!(
                    "{} was changed after the recording, and no build id tells whether it is the same",
                    identity.path
                ));
            }
            if !is_known || has_id(&path, &identity.id) {
                return Ok(path);
            }
            others.push(path);
        }
        let why = match unusable {
            Some(why) if others.is_empty() => format!("cannot read {}: {why}", identity.path),
            _ => format!("the file {} has another build id now", identity.path),
        };
        if !is_known {
            return Err(why);
        }
        let asked = self.ask(&identity.id, Artifact::Executable, refused);
        if asked.is_err() {
            for path in others {
                let why = format!("it is not the recorded build {}", hex(&identity.id));
                refused.note(path.display(), why, refusals::OTHER_BUILD);
            }
        }
        asked.map_err(|asked| match asked {
            Some(asked) => format!("{why}; {asked}"),
            None => why,
        })
    }

    /// Whether a file was changed after the recording; below a root of their own files are as they were put there.
    fn is_newer(&self, path: &Path) -> bool {
        let changed = || std::fs::metadata(path).and_then(|meta| meta.modified());
        let written = self.written.filter(|_| self.symfs.is_none());
        written.is_some_and(|written| changed().is_ok_and(|changed| changed > written))
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
        paths.push(self.below_root(Path::new(&*identity.path)));
        paths
    }

    /// The separate debug file of a file on this machine: by its link, by its build id, by its path; what it finds has the
    /// checksum or build id that the file names.
    pub(super) fn debug_file(
        &self,
        path: &Path,
        id: Option<&[u8]>,
        link: Option<&DebugLink>,
        refused: &mut Refusals,
    ) -> Option<PathBuf> {
        let mut by_id = Vec::new();
        if let Some((head, tail)) = id.and_then(split_hex) {
            if let Some(dir) = self.build_id_dir() {
                by_id.push(dir.join(".build-id").join(&head).join(&tail).join("debug"));
            }
            let system = Path::new(DEBUG_ROOT).join(".build-id").join(&head);
            let system = system.join(format!("{tail}.debug"));
            by_id.push(self.below_root(&system));
            by_id.push(system);
        }
        // The path without the root it was found below.
        let plain = self
            .symfs
            .as_ref()
            .and_then(|root| path.strip_prefix(root).ok());
        let plain = Path::new("/").join(plain.unwrap_or(path));
        let folder = plain.parent().unwrap_or(Path::new("/"));
        let debug_root = |inner: &Path| {
            let inner = inner.strip_prefix("/").unwrap_or(inner);
            self.below_root(&Path::new(DEBUG_ROOT).join(inner))
        };
        let mut by_link = Vec::new();
        if let Some(name) = link.and_then(|link| plain_name(&link.name)) {
            by_link.push(self.below_root(&folder.join(name)));
            by_link.push(self.below_root(&folder.join(".debug").join(name)));
            by_link.push(debug_root(&folder.join(name)));
        }
        let by_path = [
            debug_root(&plain),
            debug_root(&plain.with_added_extension("debug")),
        ];
        let has_id = |path: &PathBuf| id.is_some_and(|id| has_id(path, id));
        let crc = link.and_then(|link| link.crc);
        let is_linked = |path: &PathBuf| {
            path != &self.below_root(&plain) && crc.is_some() && checksum(path) == crc
        };
        let found = by_id.iter().find(|path| has_id(path));
        let found = found.or_else(|| by_link.iter().find(|path| is_linked(path)));
        let found = found.or_else(|| by_path.iter().find(|path| has_id(path)));
        if found.is_none() {
            let own = self.below_root(&plain);
            let there = |path: &&PathBuf| **path != own && is_regular(path);
            for path in by_link.iter().filter(there) {
                let why = "its checksum is not the one that the program names";
                refused.note(path.display(), why, refusals::OTHER_DEBUG);
            }
            for path in by_id.iter().chain(&by_path).filter(there) {
                let why = "its build id is not the program's";
                refused.note(path.display(), why, refusals::OTHER_DEBUG);
            }
        }
        found.cloned()
    }

    /// What several debug files share (`dwz`), if `found`, read of `from`, names such a file: read, or why not.
    pub fn shared(
        &self,
        from: &Path,
        found: &DebugSections,
    ) -> Option<Result<DebugSections, String>> {
        let link = found.shared()?;
        let file = self.shared_file(from, link);
        let file = file.ok_or_else(|| {
            format!(
                "the file {} that it shares is not there, or not of its build",
                link.name
            )
        });
        Some(file.and_then(|file| sections(&file, DebugSections::read)))
    }

    fn shared_file(&self, from: &Path, link: &DebugLink) -> Option<PathBuf> {
        let id = link.build_id.as_deref()?;
        let named = Path::new(&link.name);
        let mut paths = Vec::new();
        if named.is_absolute() {
            paths.push(self.below_root(named));
        } else {
            // A link may lead to the debug file; the name is meant from where that really is.
            let real = std::fs::canonicalize(from).ok();
            let folder = real.as_deref().unwrap_or(from).parent();
            paths.extend(folder.map(|folder| folder.join(named)));
        }
        if let Some((head, tail)) = split_hex(id) {
            let system = Path::new(DEBUG_ROOT).join(".build-id").join(head);
            paths.push(self.below_root(&system.join(format!("{tail}.debug"))));
        }
        let mut found = paths.into_iter().filter(|path| is_regular(path));
        found.find(|path| has_id(path, id))
    }

    /// Asks servers for a file; `None` inside of the error where there are none to ask.
    pub(super) fn ask(
        &self,
        id: &[u8],
        what: Artifact,
        refused: &mut Refusals,
    ) -> Result<PathBuf, Option<String>> {
        if self.debuginfod.is_empty() {
            return Err(None);
        }
        let bounds = Bounds::of_environment();
        let cache = self.debuginfod_cache.clone().or_else(debuginfod::cache_dir);
        let cache =
            cache.ok_or_else(|| Some("no folder to keep answers of servers in".to_owned()))?;
        debuginfod::fetch(&self.debuginfod, &cache, id, what, bounds).map_err(|error| {
            if let Some((what, why)) = error.failure() {
                refused.note(what, why, refusals::SERVER);
            }
            Some(error.to_string())
        })
    }
}

/// Whether a file has a build id. It stands near the start nearly always: then the rest is not read.
fn has_id(path: &Path, id: &[u8]) -> bool {
    if !is_regular(path) {
        return false;
    }
    let mut head = Vec::new();
    let read_head = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    if read_head.is_err() {
        return false;
    }
    match ObjectId::of_elf(&head) {
        Some(found) => found.as_bytes() == id,
        None => read(path).is_some_and(|bytes| has_build_id(&bytes, id)),
    }
}

/// A link names a file, never a path: what has a folder in it leads elsewhere.
fn plain_name(name: &str) -> Option<&str> {
    (!name.is_empty() && !name.contains('/') && name != "..").then_some(name)
}

pub(super) fn is_regular(path: &Path) -> bool {
    usable(path).is_ok()
}

/// Why a path is no file that could be read. Devices and pipes could block for ever.
pub(super) fn usable(path: &Path) -> Result<(), String> {
    let meta = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => "it is not here".to_owned(),
        ErrorKind::PermissionDenied => "its folder may not be read".to_owned(),
        _ => error.to_string(),
    })?;
    let kind = meta.file_type();
    let what = match () {
        () if kind.is_dir() => "a directory is there now",
        () if kind.is_fifo() => "a pipe is there now",
        () if !kind.is_file() => "what is there now is no file",
        () if meta.len() > super::FILE_MAX => "it is larger than any file read for its symbols",
        () => return Ok(()),
    };
    Err(what.to_owned())
}

/// The checksum of a whole file.
fn checksum(path: &Path) -> Option<u32> {
    if !is_regular(path) {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let mut piece = vec![0; 1 << 18];
    let mut crc = 0;
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(crc),
            len => crc = crc32(crc, piece.get(..len)?),
        }
    }
}

/// The debug sections of a file, as `read` takes them from it.
pub(super) fn sections(
    path: &Path,
    read: fn(&mut File, u64) -> Result<DebugSections, DebugError>,
) -> Result<DebugSections, String> {
    let open = || {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok::<_, std::io::Error>((file, len))
    };
    let named = |why: String| format!("{}: {why}", path.display());
    if !is_regular(path) {
        return Err(named("no file, or one that is too large".to_owned()));
    }
    let (mut file, len) = open().map_err(|error| named(error.to_string()))?;
    read(&mut file, len).map_err(|error| named(error.to_string()))
}
