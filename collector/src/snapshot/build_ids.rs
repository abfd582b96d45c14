//! Build ids of mapped files, each file read once.

use std::collections::HashMap;
use std::fs::{File, metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memwide_objects::{IdKind, ObjectId};
use memwide_perf_abi::BuildId;

use super::maps::Map;

/// Bytes read of a file: linkers put the note with the build id right behind the program headers.
const HEAD_BYTES: u64 = 64 << 10;
/// Most files remembered; a machine with more distinct mapped files reads some of them again.
const FILES_MAX: usize = 1 << 16;

/// By device and inode.
#[derive(Debug, Default)]
pub(crate) struct BuildIds {
    known: HashMap<(u32, u32, u64), (Option<BuildId>, bool)>,
}

impl BuildIds {
    /// Of the file behind `map` in the process of `folder`, if it is an ELF file that has one.
    pub(super) fn of(&mut self, folder: &Path, map: &Map<'_>) -> Option<BuildId> {
        if !map.is_file() {
            return None;
        }
        let key = (map.major, map.minor, map.inode);
        if let Some((id, used)) = self.known.get_mut(&key) {
            *used = true;
            return *id;
        }
        let id = read_head(folder, map).and_then(|head| {
            let id = ObjectId::of_elf(&head).filter(|id| id.kind() == IdKind::Gnu)?;
            BuildId::from_slice(id.as_bytes())
        });
        if self.known.len() < FILES_MAX {
            self.known.insert(key, (id, true));
        }
        id
    }

    /// Forgets files that nobody maps any more: their inodes may be given to others.
    pub(super) fn forget_unused(&mut self) {
        self.known
            .retain(|_, (_, used)| std::mem::replace(used, false));
    }
}

/// The mapped file itself, whatever lies at its path now; else what lies there in the process's own root.
pub(crate) fn open_mapped(folder: &Path, start: u64, end: u64, path: &[u8]) -> Option<File> {
    let mapped = folder.join(format!("map_files/{start:x}-{end:x}"));
    open_regular(&mapped).or_else(|| open_regular(&in_root(folder, path)?))
}

/// Only regular files: opening a device can do things, opening a pipe can wait for ever.
pub(crate) fn open_regular(path: &Path) -> Option<File> {
    metadata(path).ok()?.is_file().then_some(())?;
    File::open(path).ok()
}

/// A path as the process sees it.
pub(crate) fn in_root(folder: &Path, path: &[u8]) -> Option<PathBuf> {
    let below = path.strip_prefix(b"/")?;
    Some(folder.join("root").join(std::ffi::OsStr::from_bytes(below)))
}

fn read_head(folder: &Path, map: &Map<'_>) -> Option<Vec<u8>> {
    let file = open_mapped(folder, map.start, map.end, map.path())?;
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    head.starts_with(b"\x7fELF").then_some(head)
}
