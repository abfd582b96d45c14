//! What a mapping is made of, and the id every process computes from that alike.

use memwide_model::{ContentHash, MappingId};
use memwide_proto::v1;

/// Longest path or name kept, in bytes.
const PATH_MAX: usize = 4096;

/// How an identity was found; the numbers of `v1::mapping_identity::Kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Nothing is mapped there.
    Unknown = 0,
    /// A file by its GNU build id.
    BuildId = 1,
    /// A file by a hash of its content.
    Content = 2,
    /// The kernel.
    Kernel = 3,
    /// A kernel module.
    Module = 4,
    /// The vdso.
    Vdso = 5,
    /// A name only.
    Path = 6,
    /// Generated code of one process.
    Jit = 7,
    /// A BPF program or another symbol of generated kernel code.
    Bpf = 8,
}

impl Kind {
    /// Of its number in a message; numbers of newer peers are taken as a name only.
    pub fn from_wire(number: i32) -> Self {
        match number {
            0 => Self::Unknown,
            1 => Self::BuildId,
            2 => Self::Content,
            3 => Self::Kernel,
            4 => Self::Module,
            5 => Self::Vdso,
            7 => Self::Jit,
            8 => Self::Bpf,
            _ => Self::Path,
        }
    }
}

impl Kind {
    /// From the wire; what a newer sender says is unknown here.
    pub fn of_wire(kind: i32) -> Self {
        const ALL: [Kind; 9] = [
            Kind::Unknown,
            Kind::BuildId,
            Kind::Content,
            Kind::Kernel,
            Kind::Module,
            Kind::Vdso,
            Kind::Path,
            Kind::Jit,
            Kind::Bpf,
        ];
        let found = usize::try_from(kind).ok().and_then(|at| ALL.get(at));
        found.copied().unwrap_or(Self::Unknown)
    }
}

/// The identity of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// How it was found.
    pub kind: Kind,
    /// Build id or hash, at most 20 bytes; empty where only the path is known.
    pub id: Box<[u8]>,
    /// Path, `[module]`, `[kernel.kallsyms]` or the symbol's name.
    pub path: Box<str>,
    /// Which file lay at the path, where nothing better is known.
    pub file: Option<FileKey>,
}

/// A file of one host, as its mapping records name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Of the device.
    pub major: u32,
    /// Of the device.
    pub minor: u32,
    /// Number on the device; it may be given to another file later.
    pub inode: u64,
    /// Tells files of one number apart; 0: not known.
    pub generation: u64,
}

impl FileKey {
    /// On the wire.
    pub fn to_wire(self) -> v1::MappedFile {
        v1::MappedFile {
            major: self.major,
            minor: self.minor,
            inode: self.inode,
            generation: self.generation,
        }
    }
}

impl Identity {
    /// Cuts what is longer than an id or a path can be.
    pub fn new(kind: Kind, id: &[u8], path: &str) -> Self {
        let cut = path.floor_char_boundary(PATH_MAX);
        Self {
            kind,
            id: id.get(..20).unwrap_or(id).into(),
            path: path.get(..cut).unwrap_or(path).into(),
            file: None,
        }
    }

    /// A name, and which file lay there: another file at the same path is another identity.
    pub fn of_path(path: &str, file: Option<FileKey>) -> Self {
        Self {
            file,
            ..Self::new(Kind::Path, &[], path)
        }
    }

    /// Where nothing is mapped.
    pub fn unknown() -> Self {
        Self::new(Kind::Unknown, &[], "[unknown]")
    }

    /// Build id, where it is one: what else identifies is shorter.
    pub fn build_id(&self) -> Option<&[u8]> {
        let is = !matches!(self.kind, Kind::Content | Kind::Jit);
        (is && self.id.len() >= 16).then_some(&*self.id)
    }

    /// Its id. The path counts only where nothing better is known, or names a module.
    pub fn mapping_id(&self) -> MappingId {
        if let (Some(file), true) = (self.file, self.id.is_empty()) {
            let FileKey {
                major,
                minor,
                inode,
                generation,
            } = file;
            let named = format!("{}\0{major}:{minor}:{inode}:{generation}", self.path);
            return MappingId::new(self.kind as u8, &[], &named);
        }
        let path = if self.id.is_empty() || self.kind == Kind::Module {
            &self.path
        } else {
            ""
        };
        MappingId::new(self.kind as u8, &self.id, path)
    }

    /// On the wire.
    pub fn to_wire(&self) -> v1::MappingIdentity {
        v1::MappingIdentity {
            kind: i32::from(self.kind as u8),
            id: self.id.to_vec(),
            path: self.path.to_string(),
        }
    }
}

/// Eight bytes that stand for a text where an id is needed.
pub(crate) fn hashed(kind: &str, parts: &[&[u8]]) -> [u8; 8] {
    parts
        .iter()
        .fold(ContentHash::of(kind), |hash, part| hash.bytes(part))
        .finish()
        .to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_the_same_mapping_whatever_its_path() {
        let id = |kind, id: &[u8], path| Identity::new(kind, id, path).mapping_id();
        assert_eq!(
            id(Kind::BuildId, &[1], "/bin/a"),
            id(Kind::BuildId, &[1], "/bin/b")
        );
        assert_ne!(id(Kind::Path, &[], "/bin/a"), id(Kind::Path, &[], "/bin/b"));
        assert_ne!(id(Kind::Module, &[1], "[a]"), id(Kind::Module, &[1], "[b]"));
    }

    #[test]
    fn two_files_at_one_path_are_two_mappings() {
        let id = |inode, generation| {
            let file = FileKey {
                major: 8,
                minor: 1,
                inode,
                generation,
            };
            Identity::of_path("/bin/a", Some(file)).mapping_id()
        };
        assert_eq!(id(1, 2), id(1, 2));
        assert_ne!(id(1, 2), id(1, 3));
        assert_ne!(id(1, 2), id(2, 2));
        assert_ne!(id(1, 2), Identity::of_path("/bin/a", None).mapping_id());
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        let long = "ä".repeat(PATH_MAX);
        let identity = Identity::new(Kind::Path, &[7; 40], &long);
        assert_eq!((identity.id.len(), identity.path.len()), (20, PATH_MAX));
    }
}
