//! The bytes of a file. All numbers are little-endian; `sum` is xxh3-64.
//!
//! ```text
//! file    8 "MWARCH01"
//!         2 bytes of the host's name   2 zero
//!         8 id of the key, 0: not encrypted    16 salt of the file's key
//!        16 host    16 boot    8 epoch         the source
//!         … name of the host
//!         8 sum of all before
//! entry   4 bytes of the body    1 kind    1 flags    2 zero
//!         8 number of the batch  8 when it was closed, nanoseconds since 1970 UTC
//!         8 sum of the 24 bytes before
//!         8 sum of the body
//!         … the body: a message, sealed where there is a key
//! ```
//!
//! An entry is written in one piece before its batch goes on. A file that ends within an entry is one whose writer was killed;
//! anything else that does not fit is damage.

use super::key::KeyId;
use memwide_model::{BootId, HostId, Source};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"MWARCH01";

/// Bytes of a file's head before the host's name.
pub(super) const FIXED_BYTES: usize = 8 + 4 + 8 + 16 + 40;

/// Bytes of a sum.
pub(super) const SUM_BYTES: usize = 8;

/// What of an entry's head is summed, and bound to its body.
pub(super) const BOUND_BYTES: usize = 24;

/// Bytes of the longest head of a file.
pub(super) const HEAD_BYTES_MAX: u64 = (FIXED_BYTES + 255 + SUM_BYTES) as u64;

/// Bytes of an entry's head.
pub(super) const HEAD_BYTES: usize = BOUND_BYTES + 2 * SUM_BYTES;

/// What a file is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileHead {
    pub(super) source: Source,
    pub(super) host: String,
    /// Default: not encrypted.
    pub(super) key: KeyId,
    pub(super) salt: [u8; 16],
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A table of symbols that only this source's samples need; the number is that of the next batch.
    Symbols = 1,
    /// A batch without samples, of the history that a decoder was told.
    SideBand = 2,
    /// A batch.
    Batch = 3,
}

/// An entry's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// State of all processes: history before it is not needed.
    pub(super) is_snapshot: bool,
    /// Its samples had been given up.
    pub(super) is_gap: bool,
    pub(super) number: u64,
    pub(super) closed_wall_ns: u64,
    pub(super) body_bytes: u32,
    pub(super) body_sum: u64,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    if let Some(bytes) = bytes.get(at..at + 8) {
        out.copy_from_slice(bytes);
    }
    u64::from_le_bytes(out)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(bytes) = bytes.get(at..at + N) {
        out.copy_from_slice(bytes);
    }
    out
}

impl FileHead {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut end = self.host.len().min(255);
        while !self.host.is_char_boundary(end) {
            end -= 1;
        }
        let host = &self.host.as_bytes()[..end];
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&u16::try_from(host.len()).unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.key.0);
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.source.host.0);
        out.extend_from_slice(&self.source.boot.0);
        out.extend_from_slice(&self.source.epoch.to_le_bytes());
        out.extend_from_slice(host);
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Bytes of the whole head, by its first [`FIXED_BYTES`]; `None`: it is none.
    pub(super) fn len(fixed: &[u8]) -> Option<usize> {
        let known = fixed.len() >= FIXED_BYTES && fixed.starts_with(MAGIC);
        let name = usize::from(u16::from_le_bytes(array(fixed, 8)));
        (known && name < 256).then_some(FIXED_BYTES + name + SUM_BYTES)
    }

    /// Reads a whole head.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let summed = bytes.len().checked_sub(SUM_BYTES)?;
        if Self::len(bytes)? != bytes.len() || xxh3_64(&bytes[..summed]) != u64_at(bytes, summed) {
            return None;
        }
        Some(Self {
            key: KeyId(array(bytes, 12)),
            salt: array(bytes, 20),
            source: Source {
                host: HostId(array(bytes, 36)),
                boot: BootId(array(bytes, 52)),
                epoch: u64_at(bytes, 68),
            },
            host: String::from_utf8_lossy(&bytes[FIXED_BYTES..summed]).into_owned(),
        })
    }
}

impl Head {
    /// The part that is bound to the body.
    pub(super) fn bound(&self) -> [u8; BOUND_BYTES] {
        let flags = u8::from(self.is_snapshot) | u8::from(self.is_gap) << 1;
        let mut out = [0; BOUND_BYTES];
        out[..4].copy_from_slice(&self.body_bytes.to_le_bytes());
        out[4] = self.kind as u8;
        out[5] = flags;
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..].copy_from_slice(&self.closed_wall_ns.to_le_bytes());
        out
    }

    pub(super) fn encode(&self) -> [u8; HEAD_BYTES] {
        let bound = self.bound();
        let mut out = [0; HEAD_BYTES];
        out[..BOUND_BYTES].copy_from_slice(&bound);
        out[BOUND_BYTES..BOUND_BYTES + 8].copy_from_slice(&xxh3_64(&bound).to_le_bytes());
        out[BOUND_BYTES + 8..].copy_from_slice(&self.body_sum.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        if xxh3_64(&bytes[..BOUND_BYTES]) != u64_at(bytes, BOUND_BYTES) {
            return None;
        }
        let kind = match bytes[4] {
            1 => Kind::Symbols,
            2 => Kind::SideBand,
            3 => Kind::Batch,
            _ => return None,
        };
        Some(Self {
            kind,
            is_snapshot: bytes[5] & 1 != 0,
            is_gap: bytes[5] & 2 != 0,
            number: u64_at(bytes, 8),
            closed_wall_ns: u64_at(bytes, 16),
            body_bytes: u32::from_le_bytes(array(bytes, 0)),
            body_sum: u64_at(bytes, BOUND_BYTES + 8),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> FileHead {
        FileHead {
            source: Source {
                host: HostId([1; 16]),
                boot: BootId([2; 16]),
                epoch: 3,
            },
            host: "web-1".to_owned(),
            key: KeyId([4; 8]),
            salt: [5; 16],
        }
    }

    #[test]
    fn heads_are_read_as_written_and_no_flipped_bit_passes() {
        let whole = head().encode();
        assert_eq!(FileHead::decode(&whole), Some(head()));
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHead::decode(&flipped), None, "bit {bit}");
        }
        let long = FileHead {
            host: "ä".repeat(200),
            ..head()
        };
        assert_eq!(
            FileHead::decode(&long.encode()).unwrap().host,
            "ä".repeat(127)
        );
    }

    proptest! {
        #[test]
        fn any_entry_is_read_as_written(number: u64, closed: u64, bytes: u32, sum: u64, flags in 0_u8..4, kind in 0_usize..3) {
            let head = Head {
                kind: [Kind::Symbols, Kind::SideBand, Kind::Batch][kind],
                is_snapshot: flags & 1 != 0,
                is_gap: flags & 2 != 0,
                number,
                closed_wall_ns: closed,
                body_bytes: bytes,
                body_sum: sum,
            };
            prop_assert_eq!(Head::decode(&head.encode()), Some(head));
        }
    }
}
