//! A task's name.

use super::Body;
use crate::bytes::{Cursor, Put};
use crate::{RecordError, misc};

/// `{ u32 pid, tid; char comm[]; }`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Comm<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The name, at most 15 bytes from a kernel.
    pub comm: &'a [u8],
    /// An `exec` set it: mappings before it are gone.
    pub exec: bool,
}

impl Comm<'_> {
    pub(crate) fn own_misc(&self) -> u16 {
        if self.exec { misc::COMM_EXEC } else { 0 }
    }
}

impl<'a> Body<'a> for Comm<'a> {
    fn parse(misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            pid: cursor.u32()?,
            tid: cursor.u32()?,
            comm: cursor.rest_str(),
            exec: misc & misc::COMM_EXEC != 0,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.pid);
        out.put_u32(self.tid);
        out.put_padded_str(self.comm);
    }
}
