//! All cgroups of the hierarchy whose ids samples carry.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memwide_perf_abi::Record;

use super::Writer;
use crate::events::machine::Machine;
use crate::identity::Cgroup;

/// Most cgroups of one snapshot.
const CGROUPS_MAX: usize = 1 << 16;

/// Writes a CGROUP record for each; the kernel records only those that are made later.
pub(super) fn write(machine: &Machine, writer: &mut Writer<'_>) {
    let Some(root) = root(machine) else {
        return;
    };
    let mut folders = vec![(root.clone(), "/".to_owned())];
    while let Some((folder, path)) = folders.pop() {
        if writer.out.cgroups.len() >= CGROUPS_MAX {
            writer.out.cut = true;
            return;
        }
        // The id is the inode's number on machines of 64 bits.
        let Ok(id) = fs::metadata(&folder).map(|it| it.ino()) else {
            continue; // removed meanwhile
        };
        let record = memwide_perf_abi::Cgroup {
            id,
            path: path.as_bytes(),
        };
        writer.put(&Record::Cgroup(record), 0, 0, 0);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|one| one.file_type().is_ok_and(|kind| kind.is_dir())) {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let below = if path == "/" { "" } else { path.as_str() };
            folders.push((entry.path(), format!("{below}/{name}")));
        }
        writer.out.cgroups.push(Cgroup { id, path });
    }
}

/// The hierarchy of `perf_event`: the old one where it is mounted, else the unified one.
pub(crate) fn root(machine: &Machine) -> Option<PathBuf> {
    let mounts = machine.proc_text("self/mounts")?;
    let mut unified = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
        let is_perf = options.split(',').any(|option| option == "perf_event");
        match kind {
            "cgroup" if is_perf => return Some(Path::new(place).to_owned()),
            // Of several the last one lies on top.
            "cgroup2" => unified = Some(Path::new(place).to_owned()),
            _ => {}
        }
    }
    unified
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_of_perf_events_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("self")).unwrap();
        let machine = Machine {
            proc: folder.path().to_owned(),
            ..Machine::default()
        };
        let found = |mounts: &str| {
            fs::write(folder.path().join("self/mounts"), mounts).unwrap();
            root(&machine)
        };
        let v1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup /sys/fs/cgroup/perf_event cgroup rw,perf_event 0 0\n";
        let v2 = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        assert_eq!(
            found(&format!("{v2}{v1}")),
            Some("/sys/fs/cgroup/perf_event".into())
        );
        assert_eq!(found(v2), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(found("proc /proc proc rw 0 0\n"), None);
    }
}
