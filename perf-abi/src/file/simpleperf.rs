//! Tracing data where simpleperf puts it: in a record of its own at the start of the data.
//!
//! ```text
//! TRACING_DATA (66)          { header; u32 size; char data[size]; }
//! 0x8009                     the same; the header's size has 32 bits, the upper ones in misc
//! 0x8004 … 0x8004, 0x8005    pieces of at most 64 KiB whose bodies make such a record
//! ```

use std::io::{Read, Seek};

use super::reader::read_at;
use super::records::{Span, TRACING_DATA_LEN};
use crate::bytes::len64;
use crate::{HEADER_LEN, kind};

const TRACING_DATA: u32 = 0x8009;
const SPLIT: u32 = 0x8004;

/// Most records looked at: the tracing data comes first.
const RECORDS: u32 = 64;
/// Longest tracing data taken, in bytes.
const MAX_LEN: u64 = 256 << 20;

/// The tracing data, if the records start with it.
pub(super) fn tracing_data<R: Read + Seek>(reader: &mut R, span: Span) -> Option<Vec<u8>> {
    let mut at = span.start;
    let mut joined = Vec::new();
    for _ in 0..RECORDS {
        let head = read_at(reader, at, len64(HEADER_LEN)).ok()?;
        let (kind, len) = head_of(&head, span)?;
        let body = |reader: &mut R| read_at(reader, at, len.min(MAX_LEN)).ok();
        match kind {
            kind::HEADER_TRACING_DATA | TRACING_DATA => return inside(&body(reader)?, span),
            SPLIT => joined.extend_from_slice(body(reader)?.get(HEADER_LEN..)?),
            _ if !joined.is_empty() => {
                let (kind, _) = head_of(&joined, span)?;
                return (kind == TRACING_DATA).then(|| inside(&joined, span))?;
            }
            _ => {}
        }
        at = at.checked_add(len)?;
        if len64(joined.len()) > MAX_LEN {
            return None;
        }
    }
    None
}

/// Type and size of a record.
fn head_of(bytes: &[u8], span: Span) -> Option<(u32, u64)> {
    let order = span.order;
    let kind = order.u32_at(bytes, 0)?;
    let low = u64::from(order.u16_at(bytes, 6)?);
    let len = if kind::SIMPLEPERF_TYPES.contains(&kind) {
        low | u64::from(order.u16_at(bytes, 4)?) << 16
    } else {
        low
    };
    (len >= len64(HEADER_LEN)).then_some((kind, len))
}

/// What a tracing data record holds.
fn inside(record: &[u8], span: Span) -> Option<Vec<u8>> {
    let size = usize::try_from(span.order.u32_at(record, HEADER_LEN)?).ok()?;
    let end = TRACING_DATA_LEN.checked_add(size)?;
    Some(record.get(TRACING_DATA_LEN..end)?.to_vec())
}
