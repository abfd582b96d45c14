//! Changes of kernel text.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put};

/// `{ u64 addr; u16 old_len, new_len; u8 bytes[]; }`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextPoke<'a> {
    /// Address.
    pub addr: u64,
    /// Bytes before; empty if the text is new.
    pub old: &'a [u8],
    /// Bytes after; empty if the text is removed.
    pub new: &'a [u8],
}

impl<'a> Body<'a> for TextPoke<'a> {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        let addr = cursor.u64()?;
        let (old_len, new_len) = (cursor.u16()?, cursor.u16()?);
        Ok(Self {
            addr,
            old: cursor.bytes(old_len.into())?,
            new: cursor.bytes(new_len.into())?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let cut = |text: &'a [u8]| text.get(..u16::MAX.into()).unwrap_or(text);
        let (old, new) = (cut(self.old), cut(self.new));
        out.put_u64(self.addr);
        out.put_u16(u16::try_from(old.len()).unwrap_or(u16::MAX));
        out.put_u16(u16::try_from(new.len()).unwrap_or(u16::MAX));
        out.extend_from_slice(old);
        out.extend_from_slice(new);
        out.resize(start + (out.len() - start).next_multiple_of(8), 0);
    }
}
