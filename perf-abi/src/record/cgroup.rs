//! A cgroup's id and path.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put};

/// `{ u64 id; char path[]; }`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cgroup<'a> {
    /// The id samples carry.
    pub id: u64,
    /// Path below the cgroup mount, starting with `/`.
    pub path: &'a [u8],
}

impl<'a> Body<'a> for Cgroup<'a> {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            id: cursor.u64()?,
            path: cursor.rest_str(),
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.id);
        out.put_padded_str(self.path);
    }
}
