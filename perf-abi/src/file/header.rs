//! The header of a perf.data file.
//!
//! ```text
//! u64 magic "PERFILE2"; u64 size; u64 attr_size;             // attr_size: an attr and its 16-byte ids section
//! struct { u64 offset, size; } attrs, data, event_types;
//! u64 adds_features[4];                                      // one bit a feature
//! ```
//!
//! In pipe mode only magic and size, 16, are there; everything else comes as records.

use super::FileError;
use crate::bytes::{Cursor, Order, Put};

const MAGIC: [u8; 8] = *b"PERFILE2";
const MAGIC_V1: [u8; 8] = *b"PERFFILE";

/// Bytes of the whole header.
pub(crate) const FILE_HEADER_LEN: u64 = 104;
/// Bytes of the header without features, as the oldest files have it.
const LEN_WITHOUT_FEATURES: u64 = 72;
/// Bytes of the header in pipe mode.
pub(crate) const PIPE_HEADER_LEN: u64 = 16;

/// Bit of the first word of features that stands for the host name.
const HOSTNAME_BIT: u64 = 1 << super::feature::HOSTNAME;

/// A piece of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Section {
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            offset: cursor.u64().ok()?,
            size: cursor.u64().ok()?,
        })
    }

    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(self.size)
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        out.put_u64(self.offset);
        out.put_u64(self.size);
    }
}

/// What the header says about the file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// Byte order of the recording machine.
    pub order: Order,
    /// The old magic, `PERFFILE`.
    pub v1: bool,
    /// Written to a pipe: attrs and features are records.
    pub pipe: bool,
    /// Bytes of one attr with its ids section.
    pub(crate) attr_size: u64,
    pub(crate) attrs: Section,
    pub(crate) data: Section,
    pub(crate) features: [u64; 4],
}

impl FileHeader {
    /// Reads the header from the first bytes of a file of `file_len` bytes.
    pub(crate) fn parse(bytes: &[u8], file_len: u64) -> Result<Self, FileError> {
        if bytes.is_empty() {
            return Err(FileError::Empty);
        }
        let reversed = |magic: [u8; 8]| {
            let mut magic = magic;
            magic.reverse();
            magic
        };
        let (order, v1) = match bytes.first_chunk::<8>() {
            Some(magic) if *magic == MAGIC => (Order::Little, false),
            Some(magic) if *magic == MAGIC_V1 => (Order::Little, true),
            Some(magic) if *magic == reversed(MAGIC) => (Order::Big, false),
            Some(magic) if *magic == reversed(MAGIC_V1) => (Order::Big, true),
            _ => {
                return Err(FileError::NotPerfData {
                    start: bytes.iter().take(8).copied().collect(),
                });
            }
        };
        let cut = |need: u64| FileError::HeaderCut {
            need,
            have: file_len,
        };
        let mut cursor = Cursor::with_order(bytes, order);
        cursor.bytes(8).map_err(|_| cut(PIPE_HEADER_LEN))?;
        let size = cursor.u64().map_err(|_| cut(PIPE_HEADER_LEN))?;
        let mut header = Self {
            order,
            v1,
            pipe: size == PIPE_HEADER_LEN,
            attr_size: 0,
            attrs: Section::default(),
            data: Section::default(),
            features: [0; 4],
        };
        if header.pipe {
            return Ok(header);
        }
        if size != FILE_HEADER_LEN && size != LEN_WITHOUT_FEATURES {
            return Err(FileError::Header {
                what: "the header's size",
                value: size,
            });
        }
        header.attr_size = cursor.u64().map_err(|_| cut(size))?;
        header.attrs = Section::parse(&mut cursor).ok_or_else(|| cut(size))?;
        header.data = Section::parse(&mut cursor).ok_or_else(|| cut(size))?;
        Section::parse(&mut cursor).ok_or_else(|| cut(size))?; // event types, of no use since 2010
        if size == FILE_HEADER_LEN {
            for word in &mut header.features {
                *word = cursor.u64().map_err(|_| cut(size))?;
            }
            // The bits are an array of `long`s. A 32-bit big-endian machine's stand in halves: every file since 2011 has a
            // host name, so where its bit is tells which.
            if order == Order::Big && header.features[0] & HOSTNAME_BIT == 0 {
                let halves = header.features.map(|word| word.rotate_left(32));
                if halves[0] & HOSTNAME_BIT != 0 {
                    header.features = halves;
                }
            }
        }
        Ok(header)
    }

    /// Numbers of the features the file says it has, in the order of their sections.
    pub(crate) fn feature_numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let words = self.features;
        (0u32..256).filter(move |number| {
            let word = usize::try_from(number / 64)
                .ok()
                .and_then(|at| words.get(at).copied());
            word.unwrap_or_default() & (1 << (number % 64)) != 0
        })
    }

    /// Writes the header of a little-endian file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(104);
        out.extend_from_slice(&MAGIC);
        out.put_u64(FILE_HEADER_LEN);
        out.put_u64(self.attr_size);
        self.attrs.put(&mut out);
        self.data.put(&mut out);
        Section::default().put(&mut out);
        for word in self.features {
            out.put_u64(word);
        }
        out
    }
}
