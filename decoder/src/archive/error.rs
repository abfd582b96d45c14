//! Why an archive cannot be read.

use std::path::PathBuf;

/// What is wrong, where, and what helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The system's word.
    #[error("cannot read {path}", path = path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The object store's word.
    #[error(
        "cannot read {place}; see that the bucket is there and that AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and \
         AWS_ENDPOINT_URL are those of the object store", place = place.display()
    )]
    Bucket {
        /// The object, or the whole.
        place: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No room for a copy of an object.
    #[error("cannot keep a copy of {place} in the temporary folder; name one with room in TMPDIR", place = place.display())]
    Temporary {
        /// The object.
        place: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A source has more than fits.
    #[error(
        "{source_folder} has more than {most} batches around {day}, which are more than are decoded again at once; the day \
         stays as it is"
    )]
    TooMany {
        /// The source, as its folder is called.
        source_folder: String,
        /// The day.
        day: String,
        /// The bound.
        most: usize,
    },
    /// Not written by this memwide.
    #[error("{path} is no file of an archive that this memwide knows; move it away, or use the memwide that wrote it", path = path.display())]
    NotArchive {
        /// The file.
        path: PathBuf,
    },
    /// Its checksum says so.
    #[error(
        "{path} is damaged at byte {at} ({why}); bring it back from a copy, or move it away: the batches behind that byte are \
         missing then, and their day is decoded again only if another file has them",
        path = path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// First byte of the entry.
        at: u64,
        /// What does not fit.
        why: &'static str,
    },
    /// It cannot be opened without a key.
    #[error("{path} is encrypted with the key {key}; name the file of that key with --key FILE", path = path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// Which key.
        key: String,
    },
    /// Another key than its own.
    #[error("{path} is encrypted with the key {key}, and the key given is {given}; name the file of {key} with --key FILE", path = path.display())]
    WrongKey {
        /// The file.
        path: PathBuf,
        /// Which key.
        key: String,
        /// Which key was given.
        given: String,
    },
    /// A file that holds no key.
    #[error("{path} holds no key: 64 hexadecimal digits are one (make it with `openssl rand -hex 32`)", path = path.display())]
    BadKey {
        /// The file.
        path: PathBuf,
    },
}

impl ArchiveError {
    pub(super) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    pub(super) fn bucket(place: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let place = place.to_owned();
        move |source| Self::Bucket { place, source }
    }

    pub(super) fn temporary(place: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let place = place.to_owned();
        move |source| Self::Temporary { place, source }
    }

    /// Whether it is about a key, and says nothing about whether the file is whole.
    pub fn is_of_key(&self) -> bool {
        matches!(self, Self::NoKey { .. } | Self::WrongKey { .. })
    }
}
