//! BPF programs coming and going.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put};

/// `{ u16 type; u16 flags; u32 id; u8 tag[8]; }`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BpfEvent {
    /// 1 loaded, 2 unloaded.
    pub event: u16,
    /// Unused by the kernel so far.
    pub flags: u16,
    /// The program's id.
    pub id: u32,
    /// The program's tag.
    pub tag: [u8; 8],
}

impl<'a> Body<'a> for BpfEvent {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            event: cursor.u16()?,
            flags: cursor.u16()?,
            id: cursor.u32()?,
            tag: cursor.array()?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u16(self.event);
        out.put_u16(self.flags);
        out.put_u32(self.id);
        out.extend_from_slice(&self.tag);
    }
}
