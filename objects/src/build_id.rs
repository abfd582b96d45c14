//! What identifies a file or a kernel: its build id, else its content.

use std::fmt;
use std::io::{self, Read};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes of a file hashed at once.
const PIECE: usize = 64 << 10;

/// How an id was made; ids of different kinds never compare equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IdKind {
    /// The linker's GNU build id.
    Gnu = 1,
    /// A hash of the whole content, for files without a build id.
    Content = 2,
}

/// The identity of a file, of a module or of a kernel: up to 20 bytes and how they were made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    kind: IdKind,
    len: u8,
    bytes: [u8; Self::MAX_LEN],
}

impl ObjectId {
    /// Most bytes of an id. The kernel reports no longer ones either.
    pub const MAX_LEN: usize = 20;

    /// A GNU build id; what is longer than [`Self::MAX_LEN`] is cut. `None` if empty.
    pub fn gnu(id: &[u8]) -> Option<Self> {
        let id = id.get(..Self::MAX_LEN).unwrap_or(id);
        let len = u8::try_from(id.len()).ok().filter(|len| *len > 0)?;
        let mut bytes = [0; Self::MAX_LEN];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self {
            kind: IdKind::Gnu,
            len,
            bytes,
        })
    }

    /// The id of a file by its content: 16 bytes of hash, then the low 4 of its length.
    pub fn of_content(content: &[u8]) -> Self {
        Self::of_hash(xxh3_128(content), content.len() as u64)
    }

    /// The same of a file that is read piece by piece, from where it stands to its end.
    pub fn of_content_of(file: &mut impl Read) -> io::Result<Self> {
        let mut hash = Xxh3::new();
        let mut piece = vec![0; PIECE];
        let mut len = 0;
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(Self::of_hash(hash.digest128(), len)),
                Ok(read) => {
                    hash.update(piece.get(..read).unwrap_or_default());
                    len += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn of_hash(hash: u128, len: u64) -> Self {
        let hash = hash.to_be_bytes();
        let [.., l0, l1, l2, l3] = len.to_be_bytes();
        let mut bytes = [0; Self::MAX_LEN];
        for (to, from) in bytes
            .iter_mut()
            .zip(hash.into_iter().chain([l0, l1, l2, l3]))
        {
            *to = from;
        }
        Self {
            kind: IdKind::Content,
            len: 20,
            bytes,
        }
    }

    /// The id of an ELF file: its GNU build id, else a hash of the content.
    pub fn of_file(file: &[u8]) -> Self {
        Self::of_elf(file).unwrap_or_else(|| Self::of_content(file))
    }

    /// The GNU build id of an ELF file, from its note segments or its note sections.
    pub fn of_elf(file: &[u8]) -> Option<Self> {
        crate::elf::build_id(file)
    }

    /// The GNU build id in a block of little-endian notes, such as `/sys/kernel/notes` and
    /// `/sys/module/NAME/notes/.note.gnu.build-id`.
    pub fn of_notes(notes: &[u8]) -> Option<Self> {
        crate::elf::build_id_in_notes(notes)
    }

    /// An id of this kind, as received. `None` if empty or longer than [`Self::MAX_LEN`].
    pub fn new(kind: IdKind, id: &[u8]) -> Option<Self> {
        if id.len() > Self::MAX_LEN {
            return None;
        }
        Some(Self {
            kind,
            ..Self::gnu(id)?
        })
    }

    /// How it was made.
    pub fn kind(&self) -> IdKind {
        self.kind
    }

    /// Its bytes, 1 to 20.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// Lower-case hex as perf prints it; hashes of content start with `content:`.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == IdKind::Content {
            f.write_str("content:")?;
        }
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_read_in_pieces_has_the_same_id() {
        for len in [0, 1, 300, PIECE, 3 * PIECE + 7] {
            let content: Vec<u8> = (0..len).map(|at| at.to_le_bytes()[0]).collect();
            let whole = ObjectId::of_content(&content);
            assert_eq!(ObjectId::of_content_of(&mut &*content).unwrap(), whole);
        }
    }

    fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        note.extend(u32::try_from(name.len()).unwrap().to_le_bytes());
        note.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
        note.extend(kind.to_le_bytes());
        for part in [name, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let notes = [
            note(b"Linux\0", 257, b"x"),
            note(b"Go\0\0", 3, b"not this"),
            note(b"GNU\0", 1, &[0; 16]),
            note(b"GNU\0", 3, &[0xab; 20]),
        ]
        .concat();
        let id = ObjectId::of_notes(&notes).unwrap();
        assert_eq!(id.kind(), IdKind::Gnu);
        assert_eq!(id.to_string(), "ab".repeat(20));
        for cut in 0..notes.len() - 1 {
            assert_eq!(ObjectId::of_notes(&notes[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_note_that_lies_about_its_size_ends_the_search() {
        let mut notes = note(b"Linux\0", 257, b"x");
        notes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        notes.extend(note(b"GNU\0", 3, &[1; 20]));
        assert_eq!(ObjectId::of_notes(&notes), None);
    }

    #[test]
    fn a_file_without_a_build_id_is_known_by_its_content() {
        let id = ObjectId::of_file(b"#!/bin/sh\n");
        assert_eq!(id.kind(), IdKind::Content);
        assert_eq!(id, ObjectId::of_content(b"#!/bin/sh\n"));
        assert_ne!(id, ObjectId::of_content(b"#!/bin/sh\n\n"));
        assert!(id.to_string().starts_with("content:"));
    }

    #[test]
    fn kinds_never_mix() {
        let content = ObjectId::of_content(b"x");
        let gnu = ObjectId::gnu(content.as_bytes()).unwrap();
        assert_ne!(content, gnu);
        assert_eq!(
            ObjectId::new(content.kind(), content.as_bytes()),
            Some(content)
        );
        assert_eq!(ObjectId::gnu(&[]), None);
        assert_eq!(ObjectId::new(IdKind::Gnu, &[0; 21]), None);
    }
}
