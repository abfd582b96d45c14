//! Reading files, entry by entry.

use super::ArchiveError;
use super::frame::{FileHead, HEAD_BYTES, HEAD_BYTES_MAX, Head, Kind};
use super::key::{FileKey, Key, KeyId};
use super::place::{Kept, Place};
use memwide_proto::v1;
use std::fs::File;
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
    pub(super) fn open(place: &Place, kept: &Kept) -> Result<Self, ArchiveError> {
        let file = place.file(kept)?;
        let path = place.shown(&kept.name);
        let bytes = file.metadata().map_err(ArchiveError::io(&path))?.len();
        let begin = HEAD_BYTES_MAX.min(bytes);
        let mut head = vec![0; usize::try_from(begin).unwrap_or(0)];
        let read = file.read_exact_at(&mut head, 0);
        read.map_err(ArchiveError::io(&path))?;
        let (head, len) = whole_head(&head, &path)?;
        Ok(Self {
            path,
            file,
            bytes,
            at: len,
            ordinal: 0,
            head,
            torn: None,
        })
    }

    /// What a file is of, by its first bytes alone.
    pub(super) fn head(place: &Place, kept: &Kept) -> Result<FileHead, ArchiveError> {
        let begin = place.begin(kept, HEAD_BYTES_MAX)?;
        Ok(whole_head(&begin, &place.shown(&kept.name))?.0)
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

/// The head a file begins with, and its size.
fn whole_head(begin: &[u8], path: &Path) -> Result<(FileHead, u64), ArchiveError> {
    let len = FileHead::len(begin);
    let head = len.and_then(|len| FileHead::decode(begin.get(..len)?));
    let (Some(head), Some(len)) = (head, len) else {
        let path = path.to_owned();
        return Err(ArchiveError::NotArchive { path });
    };
    Ok((head, len as u64))
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
pub fn check(place: &Place, kept: &Kept, key: Option<&Key>) -> Result<Checked, ArchiveError> {
    let mut reader = FileReader::open(place, kept)?;
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
