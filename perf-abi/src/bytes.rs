//! Little-endian reads that never panic, and the matching writes.
//!
//! Every record this crate looks into is little-endian: the reader of a big-endian perf.data file turns
//! records round before anything else sees them.

use crate::RecordError;

/// Reads the `u16` that starts `at` bytes into `bytes`.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u16::from_le_bytes)
}

/// Reads the `u32` that starts `at` bytes into `bytes`.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_le_bytes)
}

/// Reads the `u64` that starts `at` bytes into `bytes`.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u64::from_le_bytes)
}

/// What stands before the first NUL, or everything.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A length as the `u64` the formats hold.
pub(crate) fn len64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Byte order of the machine that recorded a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// Least significant byte first: x86, and Arm, POWER and RISC-V as Linux mostly runs them.
    #[default]
    Little,
    /// Most significant byte first: s390x, old POWER.
    Big,
}

impl Order {
    /// The `u16` that starts `at` bytes into `bytes`.
    #[inline]
    pub(crate) fn u16_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        u16_at(bytes, at).map(|word| self.turned(word, u16::swap_bytes))
    }

    /// The `u32` that starts `at` bytes into `bytes`.
    #[inline]
    pub(crate) fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        u32_at(bytes, at).map(|word| self.turned(word, u32::swap_bytes))
    }

    /// The `u64` that starts `at` bytes into `bytes`.
    #[inline]
    pub(crate) fn u64_at(self, bytes: &[u8], at: usize) -> Option<u64> {
        u64_at(bytes, at).map(|word| self.turned(word, u64::swap_bytes))
    }

    #[inline]
    fn turned<T>(self, word: T, turn: impl Fn(T) -> T) -> T {
        match self {
            Self::Little => word,
            Self::Big => turn(word),
        }
    }
}

/// Reads a body field by field; a read past the end is [`RecordError::Truncated`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    order: Order,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self::with_order(bytes, Order::Little)
    }

    pub(crate) fn with_order(bytes: &'a [u8], order: Order) -> Self {
        Self {
            bytes,
            at: 0,
            order,
        }
    }

    /// Bytes read so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Bytes not read yet.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let taken = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let Some(taken) = taken else {
            return Err(self.cut(N));
        };
        self.at += N;
        Ok(*taken)
    }

    fn cut(&self, len: usize) -> RecordError {
        RecordError::Truncated {
            need: self.at.saturating_add(len),
            have: self.bytes.len(),
        }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, RecordError> {
        self.take().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, RecordError> {
        let bytes = self.take()?;
        Ok(match self.order {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u32(&mut self) -> Result<u32, RecordError> {
        let bytes = self.take()?;
        Ok(match self.order {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u64(&mut self) -> Result<u64, RecordError> {
        let bytes = self.take()?;
        Ok(match self.order {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        })
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        self.take()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], RecordError> {
        let end = self.at.checked_add(len).ok_or_else(|| self.cut(len))?;
        let taken = self.bytes.get(self.at..end).ok_or_else(|| self.cut(len))?;
        self.at = end;
        Ok(taken)
    }

    /// `count` entries of `size` bytes; `what` names them in the error.
    pub(crate) fn entries(
        &mut self,
        what: &'static str,
        count: u64,
        size: usize,
    ) -> Result<&'a [u8], RecordError> {
        let have = self.left();
        usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(size))
            .filter(|&len| len <= have)
            .ok_or(RecordError::CountTooLarge { what, count, have })
            .and_then(|len| self.bytes(len))
    }

    /// Everything not read yet.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }

    /// A NUL-terminated string with its padding: what stands before the NUL.
    pub(crate) fn rest_str(&mut self) -> &'a [u8] {
        until_nul(self.rest())
    }
}

/// Appends little-endian fields.
pub(crate) trait Put {
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// A NUL-terminated string padded with NULs to a multiple of 8 bytes.
    fn put_padded_str(&mut self, text: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_padded_str(&mut self, text: &[u8]) {
        let text = until_nul(text);
        self.extend_from_slice(text);
        let pad = 8 - text.len() % 8; // at least one NUL
        self.extend(std::iter::repeat_n(0, pad));
    }
}

/// A run of 64-bit words inside a record, read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Words<'a> {
    bytes: &'a [u8],
}

impl<'a> Words<'a> {
    /// Words over `bytes`; what is left over at the end is ignored.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes: bytes.as_chunks::<8>().0.as_flattened(),
        }
    }

    /// Number of words.
    pub fn len(self) -> usize {
        self.bytes.len() / 8
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// The word at `index`.
    pub fn get(self, index: usize) -> Option<u64> {
        u64_at(self.bytes, index.checked_mul(8)?)
    }

    /// The first `count` words, or all if there are fewer.
    #[must_use]
    pub fn first(self, count: usize) -> Self {
        let bytes = self.bytes.get(..count.saturating_mul(8));
        Self {
            bytes: bytes.unwrap_or(self.bytes),
        }
    }

    /// The words behind the first `count`; none if there are no more.
    #[must_use]
    pub fn behind(self, count: usize) -> Self {
        let bytes = self.bytes.get(count.saturating_mul(8)..);
        Self {
            bytes: bytes.unwrap_or_default(),
        }
    }

    /// All words in order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + Clone + 'a {
        self.bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
    }

    /// The words' bytes, little-endian.
    pub fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }
}
