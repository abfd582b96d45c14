//! Counter values of a task that ends.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put};
use crate::sample_view::ReadValues;

/// `{ u32 pid, tid; struct read_format values; }`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Read<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Values and sample id, to be read with the event's `read_format`.
    pub values: &'a [u8],
}

impl<'a> Read<'a> {
    /// The values.
    pub fn values(&self, read_format: u64) -> Result<ReadValues<'a>, RecordError> {
        ReadValues::new(self.values, read_format)
    }
}

impl<'a> Body<'a> for Read<'a> {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            pid: cursor.u32()?,
            tid: cursor.u32()?,
            values: cursor.rest(),
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.pid);
        out.put_u32(self.tid);
        out.extend_from_slice(self.values);
    }
}
