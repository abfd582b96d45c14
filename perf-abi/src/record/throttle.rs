//! Throttling.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put};

/// THROTTLE and UNTHROTTLE: `{ u64 time, id, stream_id; }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Throttle {
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// Event id.
    pub id: u64,
    /// Stream id.
    pub stream_id: u64,
}

impl<'a> Body<'a> for Throttle {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            time: cursor.u64()?,
            id: cursor.u64()?,
            stream_id: cursor.u64()?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.time);
        out.put_u64(self.id);
        out.put_u64(self.stream_id);
    }
}
