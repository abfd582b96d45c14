//! Whole records from the two pieces of a ring buffer.

use crate::{HEADER_LEN, RawRecord, RecordError};

/// Yields the records between a ring's tail and head, given as the piece up to the ring's end and
/// the piece from its start. The one record that may lie across both is put together in a buffer.
#[derive(Debug)]
pub struct RingRecords<'a> {
    first: &'a [u8],
    second: &'a [u8],
    joined: Vec<u8>,
    failed: bool,
}

impl<'a> RingRecords<'a> {
    /// `second` is empty if the data does not wrap.
    pub fn new(first: &'a [u8], second: &'a [u8]) -> Self {
        Self {
            first,
            second,
            joined: Vec::new(),
            failed: false,
        }
    }

    /// Bytes not yielded yet.
    pub fn remaining(&self) -> usize {
        self.first.len().saturating_add(self.second.len())
    }

    /// The next record; `None` at the end and after an error.
    ///
    /// Not an [`Iterator`]: a record that was split borrows this reader's buffer.
    #[expect(clippy::should_implement_trait, reason = "it lends")]
    pub fn next(&mut self) -> Option<Result<RawRecord<'_>, RecordError>> {
        if self.failed || self.remaining() == 0 {
            return None;
        }
        if self.first.is_empty() {
            (self.first, self.second) = (self.second, &[]);
        }
        match RawRecord::split_first(self.first) {
            Ok((record, rest)) => {
                self.first = rest;
                Some(Ok(record))
            }
            Err(RecordError::Truncated { .. }) if !self.second.is_empty() => Some(self.join()),
            Err(wrong) => {
                self.failed = true;
                Some(Err(wrong))
            }
        }
    }

    fn join(&mut self) -> Result<RawRecord<'_>, RecordError> {
        let have = self.remaining();
        self.failed = true; // until the record turns out whole
        self.joined.clear();
        self.joined.extend_from_slice(self.first);
        let mut taken = 0;
        let mut need = HEADER_LEN;
        for _ in 0..2 {
            let more = need.saturating_sub(self.joined.len());
            let end = taken + more;
            let piece = self
                .second
                .get(taken..end)
                .ok_or(RecordError::Truncated { need, have })?;
            self.joined.extend_from_slice(piece);
            taken = end;
            need = match RawRecord::new(&self.joined) {
                Err(RecordError::Truncated { need, .. }) => need,
                Err(wrong) => return Err(wrong),
                Ok(_) => break,
            };
        }
        self.first = self.second.get(taken..).unwrap_or_default();
        self.second = &[];
        self.failed = false;
        RawRecord::new(&self.joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<u8> {
        let record = |kind: u32, size: u16| {
            let mut bytes = kind.to_le_bytes().to_vec();
            bytes.extend(0u16.to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.resize(size.into(), u8::try_from(kind).unwrap());
            bytes
        };
        [record(1, 16), record(2, 40), record(3, 8)].concat()
    }

    fn read(first: &[u8], second: &[u8]) -> (Vec<u8>, Option<RecordError>) {
        let mut ring = RingRecords::new(first, second);
        let mut out = Vec::new();
        while let Some(record) = ring.next() {
            match record {
                Ok(record) => out.extend_from_slice(record.bytes()),
                Err(wrong) => return (out, Some(wrong)),
            }
        }
        (out, None)
    }

    #[test]
    fn split_anywhere_the_records_are_the_same() {
        let whole = three();
        for at in 0..=whole.len() {
            let (first, second) = whole.split_at(at);
            assert_eq!(read(first, second), (whole.clone(), None), "split at {at}");
        }
    }

    #[test]
    fn a_record_that_neither_piece_completes_is_an_error() {
        let whole = three();
        let (out, wrong) = read(&whole[..20], &whole[20..40]);
        assert_eq!(out, &whole[..16]);
        assert_eq!(wrong, Some(RecordError::Truncated { need: 40, have: 24 }));
    }

    #[test]
    fn a_bad_size_ends_it() {
        let (_, wrong) = read(&[0; 8], &[0; 8]);
        assert_eq!(wrong, Some(RecordError::SizeTooSmall(0)));
        let (_, wrong) = read(&[0; 4], &[0; 8]);
        assert_eq!(wrong, Some(RecordError::SizeTooSmall(0)));
    }
}
