//! A mapping, as kernels before 3.16 and perf's kernel map write it.

use super::Body;
use crate::bytes::{Cursor, Put};
use crate::{RecordError, misc};

/// `{ u32 pid, tid; u64 addr, len, pgoff; char filename[]; }`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mmap<'a> {
    /// Process id; `u32::MAX` for the kernel's own mappings.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Offset into the file, in bytes; for `[kernel.kallsyms]_text` the address of the symbol.
    pub pgoff: u64,
    /// File, or a name in brackets.
    pub filename: &'a [u8],
    /// Not executable.
    pub data: bool,
}

impl Mmap<'_> {
    pub(crate) fn own_misc(&self) -> u16 {
        if self.data { misc::MMAP_DATA } else { 0 }
    }
}

impl<'a> Body<'a> for Mmap<'a> {
    fn parse(misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            pid: cursor.u32()?,
            tid: cursor.u32()?,
            addr: cursor.u64()?,
            len: cursor.u64()?,
            pgoff: cursor.u64()?,
            filename: cursor.rest_str(),
            data: misc & misc::MMAP_DATA != 0,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.pid);
        out.put_u32(self.tid);
        out.put_u64(self.addr);
        out.put_u64(self.len);
        out.put_u64(self.pgoff);
        out.put_padded_str(self.filename);
    }
}
