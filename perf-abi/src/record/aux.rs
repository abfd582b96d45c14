//! AUX area records: new data, trace start, hardware id.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put};

/// New data in the AUX area: `{ u64 aux_offset, aux_size, flags; }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Aux {
    /// Where it starts, in bytes written so far.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Bits: 0 truncated, 1 overwritten, 2 partial, 3 collision (of SPE), from 8 the format.
    pub flags: u64,
}

impl Aux {
    /// The buffer was full: what came after is missing.
    pub const fn truncated(self) -> bool {
        self.flags & 1 != 0
    }

    /// Samples collided: an operation was still being sampled when the next was due.
    pub const fn collided(self) -> bool {
        self.flags & 8 != 0
    }
}

impl<'a> Body<'a> for Aux {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            offset: cursor.u64()?,
            size: cursor.u64()?,
            flags: cursor.u64()?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.offset);
        out.put_u64(self.size);
        out.put_u64(self.flags);
    }
}

/// Instruction trace of a task starts: `{ u32 pid, tid; }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ItraceStart {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
}

impl<'a> Body<'a> for ItraceStart {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            pid: cursor.u32()?,
            tid: cursor.u32()?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.pid);
        out.put_u32(self.tid);
    }
}

/// Hardware id of AUX output: `{ u64 hw_id; }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuxOutputHwId {
    /// The PMU's id.
    pub hw_id: u64,
}

impl<'a> Body<'a> for AuxOutputHwId {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            hw_id: cursor.u64()?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.hw_id);
    }
}
