//! Samples: turned as words first, then what is no word is put right.

use super::swap_halves;
use crate::bytes::{u32_at, u64_at};
use crate::file::EventTable;
use crate::layout::slot;
use crate::{HEADER_LEN, RawRecord, SampleLayout};

/// A sample whose body was turned word by word.
pub(super) fn finish(bytes: &mut [u8], events: &EventTable) {
    let Ok(record) = RawRecord::new(bytes) else {
        return;
    };
    let layout = events
        .event_of(&record)
        .and_then(|event| events.get(event)?.layout.ok());
    let Some((layout, body)) = layout.zip(bytes.get_mut(HEADER_LEN..)) else {
        return;
    };
    for slot in [slot::TID, slot::CPU] {
        if let Some(at) = layout.fixed_place(slot) {
            swap_halves(body, at);
        }
    }
    raw(body, &layout);
    let Ok(places) = layout.places(body) else {
        return;
    };
    if let Some(at) = places.get(slot::BRANCH_STACK) {
        branches(body, at, &layout);
    }
    if let Some(at) = places.get(slot::AUX) {
        let len = u64_at(body, at).and_then(|len| usize::try_from(len).ok());
        turn_back(body, at + 8, len.unwrap_or_default());
    }
}

/// `{ u32 size; char data[size]; }`: the size is turned on its own, the data not at all.
fn raw(body: &mut [u8], layout: &SampleLayout) {
    let Some(at) = layout.raw_place(body) else {
        return;
    };
    // Turned as a word, the size stands behind the data's first bytes.
    let Some(size) = u32_at(body, at + 4).and_then(|size| usize::try_from(size).ok()) else {
        return;
    };
    turn_back(body, at, size.saturating_add(4));
    if let Some(size) = body.get_mut(at..at + 4) {
        size.reverse();
    }
}

/// Bytes that were turned as words, as they were recorded.
fn turn_back(body: &mut [u8], at: usize, len: usize) {
    let words = len.div_ceil(8);
    let rest = body.get_mut(at..).unwrap_or_default();
    for word in rest.as_chunks_mut::<8>().0.iter_mut().take(words) {
        word.reverse();
    }
}

/// The bits of a branch's flags: compilers of big-endian machines fill bit fields from the top.
fn branches(body: &mut [u8], at: usize, layout: &SampleLayout) {
    let count = u64_at(body, at).and_then(|count| usize::try_from(count).ok());
    let first = at + 8 + if layout.has_hw_index() { 8 } else { 0 };
    let entries = body.get_mut(first..).unwrap_or_default();
    let entries = entries.as_chunks_mut::<24>().0.iter_mut();
    for entry in entries.take(count.unwrap_or_default()) {
        if let Some(flags) = entry.last_chunk_mut::<8>() {
            *flags = branch_flags(u64::from_le_bytes(*flags)).to_le_bytes();
        }
    }
}

/// Widths of the fields of `perf_branch_entry`'s flags, lowest first on little-endian machines: mispredicted, predicted,
/// in transaction, abort, cycles, type, speculation, new type, privilege, the rest.
const BRANCH_FIELDS: [u32; 10] = [1, 1, 1, 1, 16, 4, 2, 4, 3, 31];

fn branch_flags(big: u64) -> u64 {
    let mut below = 0;
    BRANCH_FIELDS.iter().fold(0, |little, width| {
        let field = (big >> (64 - below - width)) & ((1 << width) - 1);
        let moved = field << below;
        below += width;
        little | moved
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_branches_keep_their_values() {
        // Predicted, 0x1234 cycles, a conditional branch (1), user (1) on a big-endian machine: each field from the top.
        let big = (1 << 62) | (0x1234 << 44) | (1 << 40) | (1 << 31);
        assert_eq!(branch_flags(big), 2 | (0x1234 << 4) | (1 << 20) | (1 << 30));
        assert_eq!(branch_flags(u64::MAX), u64::MAX);
    }
}
