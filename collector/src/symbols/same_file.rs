//! Whether an open file is the one a mapping's record names by device and inode.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;

use memmap2::MmapOptions;
use memwide_proto::v1::MappedFile;

use crate::events::machine::Machine;
use crate::snapshot::maps;
use crate::sys::generation;

/// `f_type` of overlayfs.
const OVERLAY: i64 = 0x794c_7630;

/// Whether `file` is the one that was mapped.
///
/// Where `stat` tells another device than mappings do (btrfs has one a subvolume), the file is mapped and what the kernel
/// says of that mapping counts. A file of overlayfs is believed by its inode number, which is the one of the layer below.
pub(super) fn is_same(machine: &Machine, file: &File, wanted: &MappedFile) -> bool {
    let Ok(meta) = file.metadata() else {
        return false;
    };
    let wanted_device = (wanted.major, wanted.minor);
    let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let same = (device == wanted_device && meta.ino() == wanted.inode)
        || as_mapped(machine, file) == Some((wanted_device, wanted.inode))
        || (meta.ino() == wanted.inode && is_overlay(file));
    same && is_same_generation(file, wanted.generation)
}

/// Device and inode as this process's own mapping of the file shows them.
fn as_mapped(machine: &Machine, file: &File) -> Option<((u32, u32), u64)> {
    let map = MmapOptions::new().len(1).map_raw_read_only(file).ok()?;
    let start = map.as_ptr().addr() as u64;
    let text = fs::read(machine.proc.join("self/maps")).ok()?;
    let found = maps::parse(&text).find(|map| map.start <= start && start < map.end)?;
    Some(((found.major, found.minor), found.inode))
}

fn is_overlay(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|info| info.f_type == OVERLAY)
}

/// An inode number may have been given to another file; not every file system tells.
fn is_same_generation(file: &File, wanted: u64) -> bool {
    wanted == 0 || generation(file).is_none_or(|found| u64::from(found) == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_device_inode_and_generation() {
        let temporary = tempfile::NamedTempFile::new().unwrap();
        let file = temporary.as_file();
        file.set_len(10).unwrap();
        let ((major, minor), inode) = as_mapped(&Machine::default(), file).unwrap();
        let found = generation(file);
        let wanted = MappedFile {
            major,
            minor,
            inode,
            generation: found.map_or(0, u64::from),
        };
        let same = |wanted: MappedFile| is_same(&Machine::default(), file, &wanted);
        assert!(same(wanted));
        let other = MappedFile {
            inode: inode + 1,
            ..wanted
        };
        assert!(!same(other));
        let other = MappedFile {
            minor: minor + 1,
            ..wanted
        };
        assert_eq!(same(other), is_overlay(file));
        let any = MappedFile {
            generation: 0,
            ..wanted
        };
        assert!(same(any), "an unknown generation is not compared");
        let other = MappedFile {
            generation: wanted.generation ^ 1,
            ..wanted
        };
        assert_eq!(same(other), found.is_none());
    }
}
