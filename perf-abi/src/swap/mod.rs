//! Records of machines of the other byte order, turned round in place.
//!
//! A big-endian record has the same fields at the same places; only the bytes within each number stand the other way round.
//! So a record is turned by its type: numbers by their size, texts, build ids and raw data not at all. What follows the
//! fields of a record that is no sample is its sample id, all of it 64-bit words but for two pairs of 32 bits.
//!
//! ```text
//! MMAP  u32 u32 | u64 u64 u64 | text, padded | u64 …      the sample id: turned as words, then the pairs put right
//! ```

mod kernel;
mod sample;
mod user;

use crate::file::EventTable;
use crate::{HEADER_LEN, RawRecord, kind};

/// Turns a whole big-endian record. What is cut or of an unknown type is turned as far as its fields are known.
pub(crate) fn record(bytes: &mut [u8], events: &EventTable) {
    let mut turn = Turn { bytes, at: 0 };
    let kind = turn.u32();
    let misc = turn.u16();
    turn.u16s(1); // the size
    if kind == kind::SAMPLE {
        turn.rest_u64s();
        sample::finish(bytes, events);
    } else if kind < kind::USER_TYPE_START {
        kernel::record(&mut turn, kind, misc, events);
        pairs_of_sample_id(bytes, events);
    } else {
        user::record(&mut turn, kind);
    }
}

/// Turns 64-bit words.
pub(crate) fn words(bytes: &mut [u8]) {
    Turn { bytes, at: 0 }.rest_u64s();
}

/// Ids and CPU of the sample id are 32 bits each; as words they were turned in pairs.
fn pairs_of_sample_id(bytes: &mut [u8], events: &EventTable) {
    let Ok(record) = RawRecord::new(bytes) else {
        return;
    };
    let layout = events
        .event_of(&record)
        .and_then(|event| events.get(event)?.layout.ok());
    let Some(layout) = layout else {
        return;
    };
    let places = layout.trailer().pairs(&record);
    for at in places.into_iter().flatten() {
        swap_halves(bytes, at);
    }
}

/// Two 32-bit numbers that were turned as one word.
fn swap_halves(bytes: &mut [u8], at: usize) {
    if let Some(word) = at.checked_add(8).and_then(|end| bytes.get_mut(at..end)) {
        word.rotate_left(4);
    }
}

/// Turns numbers one after the other. Past the end nothing happens: reading the record will say that it is cut.
struct Turn<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Turn<'_> {
    /// `count` numbers of `SIZE` bytes; the last one's bytes as they are now.
    fn numbers<const SIZE: usize>(&mut self, count: usize) -> [u8; SIZE] {
        let mut last = [0; SIZE];
        let rest = self.bytes.get_mut(self.at..).unwrap_or_default();
        let (numbers, _) = rest.as_chunks_mut::<SIZE>();
        for number in numbers.iter_mut().take(count) {
            number.reverse();
            last = *number;
        }
        self.skip(count.saturating_mul(SIZE));
        last
    }

    fn u16s(&mut self, count: usize) {
        self.numbers::<2>(count);
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.numbers(1))
    }

    fn u32s(&mut self, count: usize) {
        self.numbers::<4>(count);
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.numbers(1))
    }

    fn u64s(&mut self, count: usize) {
        self.numbers::<8>(count);
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.numbers(1))
    }

    /// Everything left, as far as it is whole words.
    fn rest_u64s(&mut self) {
        self.u64s(usize::MAX);
    }

    fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes).min(self.bytes.len());
    }

    /// A text with its NUL and padding.
    fn skip_text(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(rest.len());
        self.skip(len + 1);
        self.align();
    }

    /// To the next multiple of 8 bytes from the record's start.
    fn align(&mut self) {
        self.at = self.at.next_multiple_of(HEADER_LEN).min(self.bytes.len());
    }

    /// Leaves everything but the last `len` bytes.
    fn skip_to_last(&mut self, len: usize) {
        self.at = self.at.max(self.bytes.len().saturating_sub(len));
    }

    /// What is not passed yet.
    fn rest(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.at..).unwrap_or_default()
    }
}
