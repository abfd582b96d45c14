//! Reading files, entry by entry.

use super::frame::{FIXED_BYTES, FileHead, HEAD_BYTES, Head, Kind};
use super::key::{FileKey, Key, KeyId};
use super::{ArchiveError, Day, EXTENSION};
use memwide_proto::v1;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of one body that are believed without asking the file's length: the largest message, and more.
const BODY_BYTES_MAX: u32 = 256 << 20;

/// An entry's place and head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located {
    /// Its first byte.
    pub(super) at: u64,
    /// How many are before it in the file.
    pub(super) ordinal: u64,
    pub(super) head: Head,
}

/// An open file of an archive.
#[derive(Debug)]
pub(super) struct FileReader {
    path: PathBuf,
    file: File,
    bytes: u64,
    at: u64,
    ordinal: u64,
    pub(super) head: FileHead,
    /// The file ends within the entry that begins here.
    pub(super) torn: Option<u64>,
}

impl FileReader {
    pub(super) fn open(path: &Path) -> Result<Self, ArchiveError> {
        let file = File::open(path).map_err(ArchiveError::io(path))?;
        let bytes = file.metadata().map_err(ArchiveError::io(path))?.len();
        let not_one = || ArchiveError::NotArchive {
            path: path.to_owned(),
        };
        let mut head = vec![0; FIXED_BYTES];
        file.read_exact_at(&mut head, 0).map_err(|_| not_one())?;
        let len = FileHead::len(&head).ok_or_else(not_one)?;
        head.resize(len, 0);
        file.read_exact_at(&mut head, 0).map_err(|_| not_one())?;
        let head = FileHead::decode(&head).ok_or_else(not_one)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
            at: len as u64,
            ordinal: 0,
            head,
            torn: None,
        })
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.head.key != KeyId::default()
    }

    /// The key of this file; `None` where it needs none.
    pub(super) fn key(&self, key: Option<&Key>) -> Result<Option<FileKey>, ArchiveError> {
        if !self.is_encrypted() {
            return Ok(None);
        }
        let (path, wanted) = (self.path.clone(), self.head.key.to_string());
        match key {
            None => Err(ArchiveError::NoKey { path, key: wanted }),
            Some(given) if given.id() != self.head.key => Err(ArchiveError::WrongKey {
                path,
                key: wanted,
                given: given.id().to_string(),
            }),
            Some(key) => Ok(key.of_file(&self.head.salt)),
        }
    }

    fn damaged(&self, at: u64, why: &'static str) -> ArchiveError {
        let path = self.path.clone();
        ArchiveError::Damaged { path, at, why }
    }

    /// The next entry; the one behind it follows without its body being read.
    pub(super) fn next(&mut self) -> Result<Option<Located>, ArchiveError> {
        let at = self.at;
        let left = self.bytes.saturating_sub(at);
        if left < HEAD_BYTES as u64 {
            self.torn = (left > 0).then_some(at);
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        self.read_at(at, &mut head)?;
        let head =
            Head::decode(&head).ok_or_else(|| self.damaged(at, "the head's sum does not fit"))?;
        let whole = HEAD_BYTES as u64 + u64::from(head.body_bytes);
        if head.body_bytes > BODY_BYTES_MAX {
            return Err(self.damaged(at, "longer than any message"));
        }
        if left < whole {
            self.torn = Some(at);
            return Ok(None);
        }
        let ordinal = self.ordinal;
        self.ordinal += 1;
        self.at += whole;
        Ok(Some(Located { at, ordinal, head }))
    }

    /// The body of an entry as it lies there.
    pub(super) fn body(&self, of: &Located) -> Result<Vec<u8>, ArchiveError> {
        let mut body = vec![0; of.head.body_bytes as usize];
        self.read_at(of.at + HEAD_BYTES as u64, &mut body)?;
        if xxh3_64(&body) != of.head.body_sum {
            return Err(self.damaged(of.at, "the content's sum does not fit"));
        }
        Ok(body)
    }

    /// The body as it was before it was sealed.
    pub(super) fn opened(
        &self,
        of: &Located,
        key: Option<&FileKey>,
    ) -> Result<Vec<u8>, ArchiveError> {
        let body = self.body(of)?;
        match key {
            None => Ok(body),
            Some(key) => key
                .open(of.ordinal, &of.head.bound(), body)
                .ok_or_else(|| self.damaged(of.at, "not sealed with its key")),
        }
    }

    /// The message in a body.
    pub(super) fn message<M: prost::Message + Default>(
        &self,
        of: &Located,
        key: Option<&FileKey>,
    ) -> Result<M, ArchiveError> {
        let body = self.opened(of, key)?;
        M::decode(&*body).map_err(|_| self.damaged(of.at, "holds no message"))
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), ArchiveError> {
        let read = self.file.read_exact_at(into, at);
        read.map_err(ArchiveError::io(&self.path))
    }
}

fn names_in(folder: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let entries = fs::read_dir(folder).map_err(ArchiveError::io(folder))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(ArchiveError::io(folder))?.path());
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Days of an archive, oldest first.
pub fn days(root: &Path) -> Result<Vec<Day>, ArchiveError> {
    let names = names_in(root)?;
    let names = names.iter().filter_map(|path| path.file_name()?.to_str());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// Folders of sources in a day, by name.
pub(super) fn folders_of(root: &Path, day: Day) -> Result<Vec<String>, ArchiveError> {
    let folder = root.join(day.to_string());
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let names = names_in(&folder)?;
    let names = names.iter().filter_map(|path| path.file_name()?.to_str());
    Ok(names.map(str::to_owned).collect())
}

/// Files of one source in a day.
pub(super) fn files_in(root: &Path, day: Day, folder: &str) -> Result<Vec<PathBuf>, ArchiveError> {
    let folder = root.join(day.to_string()).join(folder);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let is_ours = |path: &PathBuf| path.extension().is_some_and(|end| end == EXTENSION);
    Ok(names_in(&folder)?.into_iter().filter(is_ours).collect())
}

/// All files of a day.
pub fn files_of(root: &Path, day: Day) -> Result<Vec<PathBuf>, ArchiveError> {
    let mut files = Vec::new();
    for folder in folders_of(root, day)? {
        files.extend(files_in(root, day, &folder)?);
    }
    Ok(files)
}

/// What a file holds, read whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// Name of the host.
    pub host: String,
    /// Id of the source.
    pub source: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// It is encrypted.
    pub encrypted: bool,
    /// Batches, those whose samples had been given up included.
    pub batches: u64,
    /// Samples that the collector counted into them.
    pub samples: u64,
    /// The file ends within an entry that begins here: its writer was killed.
    pub torn: Option<u64>,
}

/// Reads every byte of a file. Without the key of an encrypted file sums are checked, and samples stay unknown (0).
pub fn check(path: &Path, key: Option<&Key>) -> Result<Checked, ArchiveError> {
    let mut reader = FileReader::open(path)?;
    let key = match key {
        None => None,
        Some(key) => reader.key(Some(key))?,
    };
    let can_open = key.is_some() || !reader.is_encrypted();
    let mut checked = Checked {
        host: reader.head.host.clone(),
        source: reader.head.source.id().0,
        bytes: reader.bytes,
        encrypted: reader.is_encrypted(),
        ..Checked::default()
    };
    while let Some(entry) = reader.next()? {
        if !can_open {
            reader.body(&entry)?;
        } else if entry.head.kind == Kind::Symbols {
            reader.message::<v1::SymbolChunk>(&entry, key.as_ref())?;
        } else {
            let batch: v1::Batch = reader.message(&entry, key.as_ref())?;
            if entry.head.kind == Kind::Batch {
                checked.samples += batch.counts.iter().map(|one| one.produced).sum::<u64>();
            }
        }
        checked.batches += u64::from(entry.head.kind == Kind::Batch);
    }
    checked.torn = reader.torn;
    Ok(checked)
}
