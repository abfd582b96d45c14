//! A task's namespaces.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put, Words, len64};

/// `{ u32 pid, tid; u64 nr; { u64 dev, inode; } [nr]; }`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    entries: Words<'a>,
}

/// One namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// Device of the namespace file system.
    pub dev: u64,
    /// Inode: the number in `/proc/PID/ns/*`.
    pub inode: u64,
}

impl<'a> Namespaces<'a> {
    /// Over pairs of device and inode.
    pub fn new(pid: u32, tid: u32, entries: Words<'a>) -> Self {
        Self { pid, tid, entries }
    }

    /// The namespaces, in the kernel's order: net, uts, ipc, pid, user, mnt, cgroup.
    pub fn iter(&self) -> impl Iterator<Item = Namespace> + use<'a> {
        let entries = self.entries;
        (0..entries.len() / 2).filter_map(move |index| {
            Some(Namespace {
                dev: entries.get(2 * index)?,
                inode: entries.get(2 * index + 1)?,
            })
        })
    }
}

impl<'a> Body<'a> for Namespaces<'a> {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        let (pid, tid) = (cursor.u32()?, cursor.u32()?);
        let count = cursor.u64()?;
        let entries = Words::new(cursor.entries("namespaces", count, 16)?);
        Ok(Self { pid, tid, entries })
    }

    fn put(&self, out: &mut Vec<u8>) {
        let count = self.entries.len() / 2;
        out.put_u32(self.pid);
        out.put_u32(self.tid);
        out.put_u64(len64(count));
        self.entries
            .iter()
            .take(2 * count)
            .for_each(|word| out.put_u64(word));
    }
}
