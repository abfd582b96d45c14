//! Start and end of tasks.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put};

/// FORK and EXIT: `{ u32 pid, ppid, tid, ptid; u64 time; }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task {
    /// Process id; the same as `ppid` when a thread is started.
    pub pid: u32,
    /// Process id of the parent.
    pub ppid: u32,
    /// Thread id.
    pub tid: u32,
    /// Thread id of the parent.
    pub ptid: u32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
}

impl<'a> Body<'a> for Task {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            pid: cursor.u32()?,
            ppid: cursor.u32()?,
            tid: cursor.u32()?,
            ptid: cursor.u32()?,
            time: cursor.u64()?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.pid);
        out.put_u32(self.ppid);
        out.put_u32(self.tid);
        out.put_u32(self.ptid);
        out.put_u64(self.time);
    }
}
