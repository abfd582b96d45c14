//! Writes records: for `/proc` synthesis, simulation and tests.

mod sample;

pub use sample::SampleFields;

use crate::bytes::Put;
use crate::sample_id::{SampleId, TrailerLayout};
use crate::{HEADER_LEN, Record, SampleLayout};

/// Why a record could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The header's size field has 16 bits.
    #[error("record of type {kind} would have {len} bytes, more than the 65535 a header can say")]
    TooLong {
        /// Record type.
        kind: u32,
        /// Bytes it would have.
        len: usize,
    },
}

/// Appends `record` to `out`. `misc` holds the cpu mode and what else the record does not know
/// itself; bits such as `COMM_EXEC` are added from the record. After an error `out` is unchanged.
///
/// `trailer` is the sample id of the event that writes it, for events with `sample_id_all`.
/// Samples in a [`Record`] are copied as they are.
pub fn record(
    out: &mut Vec<u8>,
    record: &Record<'_>,
    misc: u16,
    trailer: Option<(TrailerLayout, &SampleId)>,
) -> Result<(), EncodeError> {
    let start = begin(out, record.kind(), misc | record.own_misc());
    record.put_body(out);
    if let (Some((layout, id)), false) = (
        trailer,
        matches!(record, Record::Sample(_) | Record::Raw(_)),
    ) {
        layout.put(id, out);
    }
    finish(out, start, record.kind())
}

/// Appends a sample with the fields `layout` asks for; fields that are not given are 0 or empty.
/// After an error `out` is unchanged.
pub fn sample(
    out: &mut Vec<u8>,
    fields: &SampleFields<'_>,
    misc: u16,
    layout: &SampleLayout,
) -> Result<(), EncodeError> {
    let start = begin(out, crate::kind::SAMPLE, misc);
    fields.put(out, layout);
    finish(out, start, crate::kind::SAMPLE)
}

/// Appends a record of any type from its body. After an error `out` is unchanged.
pub fn raw(out: &mut Vec<u8>, kind: u32, misc: u16, body: &[u8]) -> Result<(), EncodeError> {
    let start = begin(out, kind, misc);
    out.extend_from_slice(body);
    finish(out, start, kind)
}

fn begin(out: &mut Vec<u8>, kind: u32, misc: u16) -> usize {
    let start = out.len();
    out.put_u32(kind);
    out.put_u16(misc);
    out.put_u16(0);
    start
}

/// Sets the size in the header that starts at `start`.
fn finish(out: &mut Vec<u8>, start: usize, kind: u32) -> Result<(), EncodeError> {
    let len = out.len().saturating_sub(start);
    let Ok(size) = u16::try_from(len) else {
        out.truncate(start);
        return Err(EncodeError::TooLong { kind, len });
    };
    if let Some(field) = out.get_mut(start + HEADER_LEN - 2..start + HEADER_LEN) {
        field.copy_from_slice(&size.to_le_bytes());
    }
    Ok(())
}
