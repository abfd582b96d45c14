//! The user part of a callchain, delivered once the kernel returned to user mode.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put, Words, len64};

/// `{ u64 cookie; u64 nr; u64 ips[nr]; }`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallchainDeferred<'a> {
    /// Stands behind the marker for deferred frames in the callchains it completes.
    pub cookie: u64,
    /// The frames, innermost first, with the kernel's context markers.
    pub callchain: Words<'a>,
}

impl<'a> Body<'a> for CallchainDeferred<'a> {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        let (cookie, count) = (cursor.u64()?, cursor.u64()?);
        Ok(Self {
            cookie,
            callchain: Words::new(cursor.entries("callchain", count, 8)?),
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.cookie);
        out.put_u64(len64(self.callchain.len()));
        self.callchain.iter().for_each(|ip| out.put_u64(ip));
    }
}
