//! The header every record starts with, and the walk over a batch of records.
//!
//! ```text
//! struct perf_event_header { u32 type; u16 misc; u16 size; }   // size includes the header
//! ```

use crate::bytes::{Words, u64_at};
use crate::kind;

/// Bytes of `struct perf_event_header`.
pub const HEADER_LEN: usize = 8;

/// Why bytes could not be read as a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The size in the header is smaller than the header: reading on would never end.
    #[error("record size {0} is smaller than the 8 bytes of its header")]
    SizeTooSmall(u16),

    /// The bytes end before the record or field does.
    #[error("record is cut: {need} bytes are needed, {have} are there")]
    Truncated {
        /// Bytes needed, counted from where the record (or its body) starts.
        need: usize,
        /// Bytes there.
        have: usize,
    },

    /// A count inside the record does not fit into it.
    #[error("{what} claims {count} entries, more than fit into the {have} bytes left")]
    CountTooLarge {
        /// What is counted.
        what: &'static str,
        /// The count as recorded.
        count: u64,
        /// Bytes left in the record.
        have: usize,
    },
}

/// Who ran when the record was written, from the low three bits of `misc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CpuMode {
    /// The kernel did not say.
    Unknown,
    /// The host's kernel.
    Kernel,
    /// A user process of the host.
    User,
    /// The hypervisor.
    Hypervisor,
    /// A guest's kernel.
    GuestKernel,
    /// A guest's user process.
    GuestUser,
    /// A value without a name yet.
    Other(u16),
}

/// Bits of a header's `misc` field.
pub mod misc {
    /// Mask of the bits that hold the cpu mode.
    pub const CPUMODE_MASK: u16 = 7;
    /// Cpu mode: the host's kernel.
    pub const KERNEL: u16 = 1;
    /// Cpu mode: a user process of the host.
    pub const USER: u16 = 2;
    /// Cpu mode: hypervisor.
    pub const HYPERVISOR: u16 = 3;
    /// Cpu mode: a guest's kernel.
    pub const GUEST_KERNEL: u16 = 4;
    /// Cpu mode: a guest's user process.
    pub const GUEST_USER: u16 = 5;
    /// perf gave up reading `/proc/PID/maps` before its end (synthesized MMAPs).
    pub const PROC_MAP_PARSE_TIMEOUT: u16 = 1 << 12;
    /// MMAP, MMAP2: a data mapping, not an executable one.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// COMM: the name was set by `exec`.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// FORK: the process is forked by perf's own exec.
    pub const FORK_EXEC: u16 = 1 << 13;
    /// SWITCH: the task was switched out.
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// SAMPLE: `ip` is exact (no skid).
    pub const EXACT_IP: u16 = 1 << 14;
    /// SWITCH: the task was preempted.
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    /// MMAP2: a build id stands where device and inode would.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    /// `BUILD_ID`: the entry's byte after the id holds its size.
    pub const BUILD_ID_SIZE: u16 = 1 << 15;
    /// Reserved for extensions of the header.
    pub const EXT_RESERVED: u16 = 1 << 15;
}

/// One whole record, undecoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// `type` of the header, see [`kind`].
    pub kind: u32,
    /// `misc` of the header, see [`misc`].
    pub misc: u16,
    bytes: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// Takes the record that starts `bytes` off; also gives what follows it.
    #[inline]
    pub fn split_first(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), RecordError> {
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(RecordError::Truncated {
                need: HEADER_LEN,
                have: bytes.len(),
            });
        };
        let [t0, t1, t2, t3, m0, m1, s0, s1] = *head;
        let size = u16::from_le_bytes([s0, s1]);
        if usize::from(size) < HEADER_LEN {
            return Err(RecordError::SizeTooSmall(size));
        }
        let Some((record, rest)) = bytes.split_at_checked(usize::from(size)) else {
            return Err(RecordError::Truncated {
                need: usize::from(size),
                have: bytes.len(),
            });
        };
        let record = Self {
            kind: u32::from_le_bytes([t0, t1, t2, t3]),
            misc: u16::from_le_bytes([m0, m1]),
            bytes: record,
        };
        Ok((record, rest))
    }

    /// The record that is exactly `bytes`, or starts it.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, RecordError> {
        Self::split_first(bytes).map(|(record, _)| record)
    }

    /// Header and body.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Everything after the header.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or_default()
    }

    /// Bytes of the whole record, as its header says.
    #[inline]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The first 64 bits after the header: the event id of a sample with `IDENTIFIER`.
    #[inline]
    pub fn first_word(&self) -> Option<u64> {
        u64_at(self.bytes, HEADER_LEN)
    }

    /// The last 64 bits: the event id of any other record with `sample_id_all` and `IDENTIFIER`.
    #[inline]
    pub fn last_word(&self) -> Option<u64> {
        u64_at(self.bytes, self.bytes.len().checked_sub(8)?.max(HEADER_LEN))
    }

    /// The id of the event that wrote this record, for events that all have `IDENTIFIER` and
    /// `sample_id_all`.
    #[inline]
    pub fn identifier(&self) -> Option<u64> {
        if self.is_sample() {
            self.first_word()
        } else {
            self.last_word()
        }
    }

    /// Whether this is a [`kind::SAMPLE`].
    #[inline]
    pub fn is_sample(&self) -> bool {
        self.kind == kind::SAMPLE
    }

    /// Who ran when the record was written.
    pub fn cpu_mode(&self) -> CpuMode {
        match self.misc & misc::CPUMODE_MASK {
            0 => CpuMode::Unknown,
            misc::KERNEL => CpuMode::Kernel,
            misc::USER => CpuMode::User,
            misc::HYPERVISOR => CpuMode::Hypervisor,
            misc::GUEST_KERNEL => CpuMode::GuestKernel,
            misc::GUEST_USER => CpuMode::GuestUser,
            other => CpuMode::Other(other),
        }
    }

    /// Whether all bits of `mask` are set in `misc`.
    pub fn has_misc(&self, mask: u16) -> bool {
        self.misc & mask == mask
    }

    /// The body as 64-bit words.
    pub fn words(&self) -> Words<'a> {
        Words::new(self.body())
    }
}

/// Walks a batch record by record. After the first error it yields nothing more;
/// [`Records::offset`] then says where the bad record starts, so what was whole before is kept.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    offset: usize,
    failed: bool,
}

impl<'a> Records<'a> {
    /// Starts at the first byte of `batch`.
    pub fn new(batch: &'a [u8]) -> Self {
        Self {
            rest: batch,
            offset: 0,
            failed: false,
        }
    }

    /// Bytes of whole records yielded so far: where the next (or the bad) record starts.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// What has not been yielded.
    pub fn remainder(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RawRecord<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.rest.is_empty() {
            return None;
        }
        match RawRecord::split_first(self.rest) {
            Ok((record, rest)) => {
                self.rest = rest;
                self.offset += record.size();
                Some(Ok(record))
            }
            Err(wrong) => {
                self.failed = true;
                Some(Err(wrong))
            }
        }
    }
}

impl std::iter::FusedIterator for Records<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(2u16.to_le_bytes());
        bytes.extend(u16::try_from(8 + words.len() * 8).unwrap().to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// The one place that knows how the walk is called: kinds of whole records, offset, error.
    #[track_caller]
    fn check(batch: &[u8], kinds: &[u32], offset: usize, error: Option<RecordError>) {
        let mut walk = Records::new(batch);
        let mut seen = Vec::new();
        let mut failure = None;
        for record in walk.by_ref() {
            match record {
                Ok(record) => seen.push(record.kind),
                Err(wrong) => failure = Some(wrong),
            }
        }
        assert_eq!(
            (seen.as_slice(), walk.offset(), failure),
            (kinds, offset, error)
        );
        assert_eq!(walk.next(), None);
    }

    #[test]
    fn an_empty_batch_has_no_records() {
        check(&[], &[], 0, None);
    }

    #[test]
    fn a_zero_size_ends_the_walk() {
        check(&[0; 16], &[], 0, Some(RecordError::SizeTooSmall(0)));
    }

    #[test]
    fn cut_anywhere_it_reports_what_is_missing_and_keeps_what_was_whole() {
        let first = record(9, &[1, 2, 3]);
        let batch = [first.clone(), record(3, &[4])].concat();
        for cut in first.len() + 1..batch.len() {
            let have = cut - first.len();
            let need = if have < 8 { 8 } else { 16 };
            check(
                &batch[..cut],
                &[9],
                first.len(),
                Some(RecordError::Truncated { need, have }),
            );
        }
        check(&batch, &[9, 3], batch.len(), None);
    }

    #[test]
    fn the_identifier_is_the_first_word_of_samples_and_the_last_of_others() {
        let sample = record(kind::SAMPLE, &[7, 8, 9]);
        let other = record(kind::COMM, &[7, 8, 9]);
        let bare = record(kind::SWITCH, &[]);
        let id = |bytes: &[u8]| RawRecord::new(bytes).unwrap().identifier();
        assert_eq!(
            (id(&sample), id(&other), id(&bare)),
            (Some(7), Some(9), None)
        );
    }
}
