//! Kernel symbols coming and going: BPF programs, ftrace trampolines.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put};

/// `{ u64 addr; u32 len; u16 ksym_type; u16 flags; char name[]; }`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ksymbol<'a> {
    /// Address.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// 1 BPF, 2 out of line (as ftrace trampolines).
    pub ksym_type: u16,
    /// Bit 0: the symbol is removed.
    pub flags: u16,
    /// Name.
    pub name: &'a [u8],
}

impl Ksymbol<'_> {
    /// The symbol is removed, not added.
    pub fn unregisters(&self) -> bool {
        self.flags & 1 != 0
    }
}

impl<'a> Body<'a> for Ksymbol<'a> {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            addr: cursor.u64()?,
            len: cursor.u32()?,
            ksym_type: cursor.u16()?,
            flags: cursor.u16()?,
            name: cursor.rest_str(),
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.addr);
        out.put_u32(self.len);
        out.put_u16(self.ksym_type);
        out.put_u16(self.flags);
        out.put_padded_str(self.name);
    }
}
