//! Losses the kernel reports.

use super::Body;
use crate::RecordError;
use crate::bytes::{Cursor, Put};

/// Records lost because the ring was full: `{ u64 id; u64 lost; }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lost {
    /// Event id of the event that next had room, not of what was lost.
    pub id: u64,
    /// Records lost.
    pub lost: u64,
}

impl<'a> Body<'a> for Lost {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            id: cursor.u64()?,
            lost: cursor.u64()?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.id);
        out.put_u64(self.lost);
    }
}

/// Samples the hardware or the kernel's PMU driver dropped: `{ u64 lost; }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LostSamples {
    /// Samples lost.
    pub lost: u64,
}

impl<'a> Body<'a> for LostSamples {
    fn parse(_misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            lost: cursor.u64()?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.lost);
    }
}
