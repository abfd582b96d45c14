//! What runs already, as records: for every process and thread FORK, COMM and MMAP2, as perf synthesizes them.
//!
//! Each process's records carry the time *before* it was read. Then a later exec or mapping that the kernel records itself
//! comes after them, whichever of the two images was read. Processes that vanish meanwhile are left out: the kernel's own
//! records say what they were.

mod build_ids;
pub(crate) mod cgroups;
mod kernel;
pub(crate) mod maps;

use std::fs;
use std::path::Path;

use memwide_perf_abi::{
    Comm, FileId, Mmap2, Record, SampleId, SampleLayout, Task, TrailerLayout, encode, misc,
};

use crate::clock::Anchor;
use crate::events::machine::Machine;
use crate::identity::Cgroup;
pub(crate) use build_ids::{BuildIds, in_root, open_mapped, open_regular};

/// Most bytes of records: below what a receiver unpacks (64 MiB), with room for the batch's own.
const BYTES_MAX: usize = 32 << 20;
/// Most mappings of one process: the kernel's default `vm.max_map_count`.
const MAPS_MAX: usize = 65_530;

/// State of all processes, as records.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) records: Vec<u8>,
    pub(crate) count: u32,
    pub(crate) processes: u32,
    pub(crate) cgroups: Vec<Cgroup>,
    /// Something did not fit.
    pub(crate) cut: bool,
}

/// How records are stamped: as if the side-band leader of the first CPU had written them.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    trailer: TrailerLayout,
    id: u64,
    anchor: Anchor,
    mmap_data: bool,
}

impl Stamp {
    pub(crate) fn new(layout: &SampleLayout, id: u64, anchor: Anchor, mmap_data: bool) -> Self {
        Self {
            trailer: layout.trailer(),
            id,
            anchor,
            mmap_data,
        }
    }
}

/// Reads all processes. `tick` is called between processes, so that the caller can look at its rings.
pub(crate) fn take(
    machine: &Machine,
    stamp: &Stamp,
    build_ids: &mut BuildIds,
    mut tick: impl FnMut(),
) -> Snapshot {
    let mut writer = Writer {
        out: Snapshot::default(),
        stamp,
        time: stamp.anchor.perf_now(),
    };
    kernel::write(machine, &mut writer);
    cgroups::write(machine, &mut writer);
    let processes = fs::read_dir(&machine.proc).into_iter().flatten().flatten();
    for entry in processes {
        let Some(pid) = number(&entry.file_name()) else {
            continue;
        };
        if writer.out.records.len() >= BYTES_MAX {
            writer.out.cut = true;
            break;
        }
        writer.time = stamp.anchor.perf_now();
        if process(&entry.path(), pid, &mut writer, build_ids).is_some() {
            writer.out.processes += 1;
        }
        tick();
    }
    build_ids.forget_unused();
    writer.out
}

/// Reads one process, and the kernel. A process that is about to become another program has its name only: what it has mapped
/// is of no use, and perf takes the addresses of libraries from there.
pub(crate) fn take_process(
    machine: &Machine,
    stamp: &Stamp,
    build_ids: &mut BuildIds,
    pid: u32,
    execs: bool,
) -> Snapshot {
    let mut writer = Writer {
        out: Snapshot::default(),
        stamp,
        time: stamp.anchor.perf_now(),
    };
    kernel::write(machine, &mut writer);
    let folder = machine.proc.join(pid.to_string());
    let found = if execs {
        task(&folder, pid, &mut writer)
    } else {
        process(&folder, pid, &mut writer, build_ids)
    };
    writer.out.processes = u32::from(found.is_some());
    writer.out
}

fn number(name: &std::ffi::OsStr) -> Option<u32> {
    name.to_str()?.parse().ok()
}

/// A process's start and name; `None` if it vanished.
fn task(folder: &Path, pid: u32, writer: &mut Writer<'_>) -> Option<()> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())?;
    let comm = comm_of(folder)?;
    writer.task(pid, pid, parent, parent);
    writer.comm(pid, pid, &comm);
    Some(())
}

/// `None` if it vanished.
fn process(
    folder: &Path,
    pid: u32,
    writer: &mut Writer<'_>,
    build_ids: &mut BuildIds,
) -> Option<()> {
    task(folder, pid, writer)?;
    // Kernel threads and zombies have no maps.
    let text = fs::read(folder.join("maps")).unwrap_or_default();
    for map in maps::parse(&text).take(MAPS_MAX) {
        let data = !map.executable();
        if data && (!writer.stamp.mmap_data || map.prot() == 0) {
            continue;
        }
        let file = build_ids.of(folder, &map).map_or(
            FileId::Inode {
                maj: map.major,
                min: map.minor,
                ino: map.inode,
                generation: 0,
            },
            FileId::BuildId,
        );
        let record = Mmap2 {
            pid,
            tid: pid,
            addr: map.start,
            len: map.end - map.start,
            pgoff: map.offset,
            file,
            prot: map.prot(),
            flags: map.flags(),
            filename: map.name(),
            data,
        };
        writer.put(&Record::Mmap2(record), misc::USER, pid, pid);
    }
    for thread in fs::read_dir(folder.join("task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let Some(tid) = number(&thread.file_name()).filter(|tid| *tid != pid) else {
            continue;
        };
        if let Some(comm) = comm_of(&thread.path()) {
            writer.task(pid, tid, pid, pid);
            writer.comm(pid, tid, &comm);
        }
    }
    Some(())
}

/// The raw name; `status` would escape it.
fn comm_of(folder: &Path) -> Option<Vec<u8>> {
    let mut comm = fs::read(folder.join("comm")).ok()?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    Some(comm)
}

struct Writer<'a> {
    out: Snapshot,
    stamp: &'a Stamp,
    time: u64,
}

impl Writer<'_> {
    fn put(&mut self, record: &Record<'_>, misc: u16, pid: u32, tid: u32) {
        let id = SampleId {
            pid: Some(pid),
            tid: Some(tid),
            time: Some(self.time),
            id: Some(self.stamp.id),
            stream_id: None,
            cpu: Some(0),
        };
        let trailer = Some((self.stamp.trailer, &id));
        match encode::record(&mut self.out.records, record, misc, trailer) {
            Ok(()) => self.out.count += 1,
            Err(_) => self.out.cut = true, // a name longer than a record
        }
    }

    /// FORK marked as perf marks synthesized ones: mappings are not taken from the parent.
    fn task(&mut self, pid: u32, tid: u32, ppid: u32, ptid: u32) {
        let task = Task {
            pid,
            ppid,
            tid,
            ptid,
            time: self.time,
        };
        self.put(&Record::Fork(task), misc::FORK_EXEC, pid, tid);
    }

    fn comm(&mut self, pid: u32, tid: u32, comm: &[u8]) {
        let exec = false;
        self.put(
            &Record::Comm(Comm {
                pid,
                tid,
                comm,
                exec,
            }),
            0,
            pid,
            tid,
        );
    }
}

#[cfg(test)]
mod tests;
