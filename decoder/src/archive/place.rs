//! Where an archive lies: in a folder, or in a bucket of an object store.

use super::{ArchiveError, Day, EXTENSION, TABLES};
use crate::bucket::{self, Bucket};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Bytes that are fetched of an object at a time.
const FETCHED_BYTES: u64 = 8 << 20;

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// `DAY/HOST-SOURCE/NAME.mwa`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl Kept {
    /// Folder of the source.
    pub fn source(&self) -> &str {
        self.name.split('/').nth(1).unwrap_or_default()
    }

    /// Whether it may hold symbol tables: names in a bucket say so.
    fn may_hold_tables(&self) -> bool {
        self.name.ends_with(&format!("{TABLES}.{EXTENSION}"))
    }
}

#[derive(Debug)]
enum At {
    Folder(PathBuf),
    Bucket(Bucket),
}

/// An archive that is read.
#[derive(Debug)]
pub struct Place {
    at: At,
}

impl Place {
    /// A folder, or `s3://BUCKET/START`. Nothing is read yet.
    pub fn open(place: &Path) -> Result<Self, ArchiveError> {
        if !bucket::is_url(place) {
            return Ok(Self::folder(place));
        }
        let opened = Bucket::open(&place.to_string_lossy());
        Ok(Self::bucket(opened.map_err(ArchiveError::bucket(place))?))
    }

    pub(super) fn folder(root: &Path) -> Self {
        let at = At::Folder(root.to_owned());
        Self { at }
    }

    pub(super) fn bucket(bucket: Bucket) -> Self {
        let at = At::Bucket(bucket);
        Self { at }
    }

    /// How people call a file, or the whole (`""`).
    pub(super) fn shown(&self, name: &str) -> PathBuf {
        match &self.at {
            At::Folder(root) if name.is_empty() => root.clone(),
            At::Folder(root) => root.join(name),
            At::Bucket(bucket) => bucket.shown(name).into(),
        }
    }

    /// Days of the archive, oldest first.
    pub fn days(&self) -> Result<Vec<Day>, ArchiveError> {
        let names = self.folders("")?;
        let mut days: Vec<Day> = names.iter().filter_map(|name| name.parse().ok()).collect();
        days.sort_unstable();
        Ok(days)
    }

    /// Folders of sources in a day, by name.
    pub(super) fn sources(&self, day: Day) -> Result<Vec<String>, ArchiveError> {
        self.folders(&day.to_string())
    }

    fn folders(&self, within: &str) -> Result<Vec<String>, ArchiveError> {
        let shown = self.shown(within);
        let mut names = match &self.at {
            At::Bucket(bucket) => bucket
                .folders(within)
                .map_err(ArchiveError::bucket(&shown))?,
            At::Folder(_) if !within.is_empty() && !shown.is_dir() => Vec::new(),
            At::Folder(_) => {
                let paths = paths_in(&shown)?.into_iter().filter(|path| path.is_dir());
                let names = paths.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
                names.collect()
            }
        };
        names.sort_unstable();
        Ok(names)
    }

    /// Files of one source in a day, by name.
    pub(super) fn files_in(&self, day: Day, source: &str) -> Result<Vec<Kept>, ArchiveError> {
        self.files(&format!("{day}/{source}"))
    }

    /// All files of a day.
    pub fn files_of(&self, day: Day) -> Result<Vec<Kept>, ArchiveError> {
        match &self.at {
            At::Bucket(_) => self.files(&day.to_string()),
            At::Folder(_) => {
                let mut files = Vec::new();
                for source in self.sources(day)? {
                    files.extend(self.files_in(day, &source)?);
                }
                Ok(files)
            }
        }
    }

    fn files(&self, within: &str) -> Result<Vec<Kept>, ArchiveError> {
        let shown = self.shown(within);
        let mut files = match &self.at {
            At::Bucket(bucket) => {
                let listed = bucket.list(within).map_err(ArchiveError::bucket(&shown))?;
                let kept = listed.into_iter().map(|one| Kept {
                    name: one.name,
                    bytes: one.bytes,
                });
                kept.collect()
            }
            At::Folder(_) if !shown.is_dir() => Vec::new(),
            At::Folder(_) => {
                let mut files = Vec::new();
                for path in paths_in(&shown)? {
                    // One that went meanwhile is none.
                    let Ok(about) = path.metadata() else { continue };
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    files.push(Kept {
                        name: format!("{within}/{name}"),
                        bytes: about.len(),
                    });
                }
                files
            }
        };
        files.retain(|kept: &Kept| kept.name.ends_with(&format!(".{EXTENSION}")));
        files.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(files)
    }

    /// Whether a file may hold what days behind its own need.
    pub(super) fn may_hold_tables(&self, kept: &Kept) -> bool {
        match &self.at {
            At::Folder(_) => true,
            At::Bucket(_) => kept.may_hold_tables(),
        }
    }

    /// The first bytes of a file.
    pub(super) fn begin(&self, kept: &Kept, bytes: u64) -> Result<Vec<u8>, ArchiveError> {
        let shown = self.shown(&kept.name);
        let bytes = bytes.min(kept.bytes);
        match &self.at {
            At::Bucket(_) if bytes == 0 => Ok(Vec::new()),
            At::Bucket(bucket) => {
                let read = bucket.read_range(&kept.name, 0..bytes);
                read.map_err(ArchiveError::bucket(&shown))
            }
            At::Folder(_) => {
                let file = File::open(&shown).map_err(ArchiveError::io(&shown))?;
                let mut begin = vec![0; usize::try_from(bytes).unwrap_or(0)];
                let read = file.read_exact_at(&mut begin, 0);
                read.map_err(ArchiveError::io(&shown))?;
                Ok(begin)
            }
        }
    }

    /// The file, open; of a bucket a copy that is gone when it is closed.
    pub(super) fn file(&self, kept: &Kept) -> Result<File, ArchiveError> {
        let shown = self.shown(&kept.name);
        let At::Bucket(bucket) = &self.at else {
            return File::open(&shown).map_err(ArchiveError::io(&shown));
        };
        let no_room = ArchiveError::temporary(&shown);
        let mut file = match tempfile::tempfile() {
            Ok(file) => file,
            Err(error) => return Err(no_room(error)),
        };
        let mut from = 0;
        while from < kept.bytes {
            let to = kept.bytes.min(from + FETCHED_BYTES);
            let part = bucket.read_range(&kept.name, from..to);
            let part = part.map_err(ArchiveError::bucket(&shown))?;
            file.write_all(&part)
                .map_err(ArchiveError::temporary(&shown))?;
            from = to;
        }
        file.rewind().map_err(ArchiveError::temporary(&shown))?;
        Ok(file)
    }

    /// Open files are copies that take room.
    pub(super) fn copies(&self) -> bool {
        matches!(self.at, At::Bucket(_))
    }
}

fn paths_in(folder: &Path) -> Result<BTreeSet<PathBuf>, ArchiveError> {
    let entries = fs::read_dir(folder).map_err(ArchiveError::io(folder))?;
    let paths = entries.map(|entry| Ok(entry.map_err(ArchiveError::io(folder))?.path()));
    paths.collect()
}
