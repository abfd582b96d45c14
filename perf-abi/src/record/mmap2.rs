//! A mapping with the identity of its file.
//!
//! ```text
//! { u32 pid, tid; u64 addr, len, pgoff;
//!   union { { u32 maj, min; u64 ino, ino_generation; }
//!           { u8 build_id_size, reserved; u16 reserved; u8 build_id[20]; } };   // by misc
//!   u32 prot, flags; char filename[]; }
//! ```

use super::Body;
use crate::bytes::{Cursor, Put};
use crate::{RecordError, misc};

/// A build id of at most 20 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BuildId {
    len: u8,
    bytes: [u8; 20],
}

impl BuildId {
    /// Takes the first `len` bytes (at most 20) of the field.
    pub fn new(bytes: [u8; 20], len: u8) -> Self {
        let len = len.min(20);
        let mut kept = [0; 20];
        for (to, from) in kept.iter_mut().zip(bytes).take(len.into()) {
            *to = from;
        }
        Self { len, bytes: kept }
    }

    /// From a slice; `None` if it is longer than 20 bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        let mut kept = [0; 20];
        kept.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self {
            len: u8::try_from(bytes.len()).ok()?,
            bytes: kept,
        })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }

    /// The bytes followed by zeros.
    pub fn padded(&self) -> [u8; 20] {
        self.bytes
    }
}

impl std::fmt::Display for BuildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Which file is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileId {
    /// By device and inode; all 0 for anonymous memory.
    Inode {
        /// Device, major number.
        maj: u32,
        /// Device, minor number.
        min: u32,
        /// Inode number.
        ino: u64,
        /// Inode generation.
        generation: u64,
    },
    /// By build id.
    BuildId(BuildId),
}

/// A mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mmap2<'a> {
    /// Process id; `u32::MAX` for the kernel's own mappings.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Offset into the file, in bytes.
    pub pgoff: u64,
    /// Which file.
    pub file: FileId,
    /// `PROT_*` bits.
    pub prot: u32,
    /// `MAP_*` bits.
    pub flags: u32,
    /// File, or a name such as `[heap]` or `//anon`.
    pub filename: &'a [u8],
    /// Not executable.
    pub data: bool,
}

impl Mmap2<'_> {
    pub(crate) fn own_misc(&self) -> u16 {
        let data = if self.data { misc::MMAP_DATA } else { 0 };
        match self.file {
            FileId::BuildId(_) => data | misc::MMAP_BUILD_ID,
            FileId::Inode { .. } => data,
        }
    }

    /// The build id, if the record carries one.
    pub fn build_id(&self) -> Option<BuildId> {
        match self.file {
            FileId::BuildId(id) => Some(id),
            FileId::Inode { .. } => None,
        }
    }
}

impl<'a> Body<'a> for Mmap2<'a> {
    fn parse(misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            pid: cursor.u32()?,
            tid: cursor.u32()?,
            addr: cursor.u64()?,
            len: cursor.u64()?,
            pgoff: cursor.u64()?,
            file: if misc & misc::MMAP_BUILD_ID == 0 {
                FileId::Inode {
                    maj: cursor.u32()?,
                    min: cursor.u32()?,
                    ino: cursor.u64()?,
                    generation: cursor.u64()?,
                }
            } else {
                let len = cursor.u8()?;
                cursor.array::<3>()?;
                FileId::BuildId(BuildId::new(cursor.array()?, len))
            },
            prot: cursor.u32()?,
            flags: cursor.u32()?,
            filename: cursor.rest_str(),
            data: misc & misc::MMAP_DATA != 0,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.pid);
        out.put_u32(self.tid);
        out.put_u64(self.addr);
        out.put_u64(self.len);
        out.put_u64(self.pgoff);
        match self.file {
            FileId::Inode {
                maj,
                min,
                ino,
                generation,
            } => {
                out.put_u32(maj);
                out.put_u32(min);
                out.put_u64(ino);
                out.put_u64(generation);
            }
            FileId::BuildId(id) => {
                out.extend_from_slice(&[id.len, 0, 0, 0]);
                out.extend_from_slice(&id.bytes);
            }
        }
        out.put_u32(self.prot);
        out.put_u32(self.flags);
        out.put_padded_str(self.filename);
    }
}
