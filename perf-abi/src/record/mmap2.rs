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

fn file_id(misc: u16, field: &[u8; FILE_ID_LEN]) -> Result<FileId, RecordError> {
    let mut cursor = Cursor::new(field);
    if !holds_build_id(misc, field) {
        return Ok(FileId::Inode {
            maj: cursor.u32()?,
            min: cursor.u32()?,
            ino: cursor.u64()?,
            generation: cursor.u64()?,
        });
    }
    let [len, ..] = cursor.array::<4>()?;
    Ok(FileId::BuildId(BuildId::new(cursor.array()?, len)))
}

/// Bytes that say which file is mapped.
pub(crate) const FILE_ID_LEN: usize = 24;

/// Whether these bytes, as recorded, are a build id.
///
/// `misc` alone does not tell. A kernel that wrote a mapping with its build id for one event leaves the bit set for the events
/// it writes the same mapping to next, which may not have asked for build ids (`perf_event_mmap_output()` in
/// `kernel/events/core.c`, 5.12 to 6.18 at least): `perf record` of a command beside anybody who watches the whole machine with
/// build ids has such records, and perf 6.1 aborts on them. So what cannot be a build id is none: a length of 0 or more than 20,
/// reserved bytes that are set, bytes behind its end, and a short one that reads as device 8:0 to 8:255 or the like does.
pub(crate) fn holds_build_id(misc: u16, field: &[u8; FILE_ID_LEN]) -> bool {
    let [len, r1, r2, r3, id @ ..] = field;
    let Some((id, behind)) = id.split_at_checked((*len).into()) else {
        return false;
    };
    let is_minor = matches!(id, [_, 0, 0, 0, ..]) && id.len() < SURE_LEN;
    misc & misc::MMAP_BUILD_ID != 0
        && [*r1, *r2, *r3] == [0; 3]
        && !id.is_empty()
        && behind.iter().all(|byte| *byte == 0)
        && !is_minor
}

/// No device of that major number holds programs.
const SURE_LEN: usize = 16;

impl<'a> Body<'a> for Mmap2<'a> {
    fn parse(misc: u16, cursor: &mut Cursor<'a>) -> Result<Self, RecordError> {
        Ok(Self {
            pid: cursor.u32()?,
            tid: cursor.u32()?,
            addr: cursor.u64()?,
            len: cursor.u64()?,
            pgoff: cursor.u64()?,
            file: file_id(misc, &cursor.array()?)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(misc: u16, words: [u32; 6]) -> FileId {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        file_id(misc, bytes.as_slice().try_into().unwrap()).unwrap()
    }

    fn inode(maj: u32, min: u32, ino: u64, generation: u64) -> FileId {
        FileId::Inode {
            maj,
            min,
            ino,
            generation,
        }
    }

    #[test]
    fn a_build_id_is_told_from_a_device_that_is_called_one() {
        let flag = misc::USER | misc::MMAP_BUILD_ID;
        let words = [20, 0x4433_2211, 6, 7, 8, 9];
        let FileId::BuildId(id) = read(flag, words) else {
            panic!("a build id");
        };
        assert_eq!(
            id.as_bytes().get(..5),
            Some(&[0x11, 0x22, 0x33, 0x44, 6][..])
        );
        let short = read(flag, [8, 0x4433_2211, 6, 0, 0, 0]);
        assert!(matches!(short, FileId::BuildId(id) if id.as_bytes().len() == 8));
        // Disks, virtual disks, memory, nothing; each with what ext4 or tmpfs have for a generation.
        for (maj, min, generation) in [
            (8, 1, 0),
            (8, 1, 77),
            (254, 0, 0),
            (259, 3, 5),
            (0, 23, 0),
            (0, 0, 0),
        ] {
            let words = [maj, min, 0x4_f8d3, 0, generation, 0];
            let expected = inode(maj, min, 0x4_f8d3, generation.into());
            assert_eq!(read(flag, words), expected);
            assert_eq!(read(misc::USER, words), expected);
        }
    }
}
