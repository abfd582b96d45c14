//! Files go up into a bucket once nobody writes to them any more, whole, and are removed here when they are there.
//!
//! Who writes holds a lock on the file, which the kernel drops with the process: so what a killed decoder left goes up too, by
//! whoever looks next. An object has the file's own name and content, so putting it twice, after an answer that was lost, changes
//! nothing.

use super::frame::Kind;
use super::place::{Kept, Place};
use super::read::FileReader;
use super::{ArchiveError, Day, EXTENSION, TABLES};
use crate::bucket::Bucket;
use crate::metrics::{self, UploadEnd};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Files that go up at once; each is in memory whole.
const AT_ONCE: usize = 4;

/// Why files stay here for now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// The local folder.
    #[error("cannot read what is to go up")]
    Local(#[from] ArchiveError),
    /// The object store.
    #[error(
        "cannot put {object}; see that the bucket is there and that AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and \
         AWS_ENDPOINT_URL are those of the object store"
    )]
    Put {
        /// The object.
        object: String,
        /// Why.
        source: io::Error,
    },
}

/// Puts up what nobody writes to; `room` is told the bytes that are gone here. Ends early once `stop` is set.
pub(super) fn put_up(
    root: &Path,
    bucket: &Bucket,
    room: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Result<(), UploadError> {
    let place = Place::folder(root);
    let mut waiting = Vec::new();
    for day in place.days()? {
        waiting.extend(place.files_of(day)?);
    }
    let waiting = Mutex::new(waiting.into_iter());
    let next = || {
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    };
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                // ATOMICS: a wish to end; whatever is seen of it, each file is put whole.
                while !stop.load(Ordering::Relaxed)
                    && failed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .is_none()
                    && let Some(kept) = next()
                {
                    if let Err(error) = put_one(&place, bucket, &kept, room) {
                        metrics::ARCHIVE_UPLOADS.add(UploadEnd::Failed, 1);
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                }
            });
        }
    });
    forget_empty(root);
    failed
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

fn put_one(
    place: &Place,
    bucket: &Bucket,
    kept: &Kept,
    room: &(dyn Fn(u64) + Sync),
) -> Result<(), UploadError> {
    let path = place.shown(&kept.name);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        // Another decoder of this folder put it up.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ArchiveError::io(&path)(error).into()),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(ArchiveError::io(&path)(error).into()),
    }
    let about = file.metadata().map_err(ArchiveError::io(&path))?;
    if about.nlink() == 0 {
        return Ok(());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(ArchiveError::io(&path))?;
    let (name, len) = (name_of(place, kept), bytes.len() as u64);
    let put = bucket.write(&name, bytes);
    put.map_err(|source| UploadError::Put {
        object: bucket.shown(&name),
        source,
    })?;
    fs::remove_file(&path).map_err(ArchiveError::io(&path))?;
    room(len);
    metrics::ARCHIVE_UPLOADS.add(UploadEnd::Stored, 1);
    metrics::ARCHIVE_UPLOADED_BYTES.add(len);
    Ok(())
}

/// How the object is called: days behind its own read only what says that it has tables.
fn name_of(place: &Place, kept: &Kept) -> String {
    let end = format!(".{EXTENSION}");
    let plain = kept.name.strip_suffix(&end).unwrap_or(&kept.name);
    let has_tables = FileReader::open(place, kept).and_then(|mut reader| {
        while let Some(entry) = reader.next()? {
            if entry.head.kind == Kind::Symbols {
                return Ok(true);
            }
        }
        Ok(false)
    });
    // What is damaged may have had some.
    let mark = if has_tables.unwrap_or(true) {
        TABLES
    } else {
        ""
    };
    format!("{plain}{mark}{end}")
}

/// Removes folders in which nothing waits, and files that were begun and whose writer died.
fn forget_empty(root: &Path) {
    let folders = |of: &Path| {
        let entries = fs::read_dir(of).into_iter().flatten().flatten();
        let paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths
    };
    for day in folders(root) {
        let name = day.file_name().unwrap_or_default().to_string_lossy();
        if name.parse::<Day>().is_err() {
            continue;
        }
        for source in folders(&day) {
            for file in folders(&source) {
                let is_begun = file.extension().is_some_and(|end| end == "begun");
                if is_begun && File::open(&file).is_ok_and(|file| file.try_lock().is_ok()) {
                    drop(fs::remove_file(&file));
                }
            }
            drop(fs::remove_dir(&source)); // only what is empty goes
        }
        drop(fs::remove_dir(&day));
    }
}

/// Removes days from a bucket that ended, and got their last file, so many days ago.
pub(super) fn retain(bucket: &Bucket, days: u64, now_s: u64) -> io::Result<()> {
    for name in bucket.folders("")? {
        let Ok(day) = name.parse::<Day>() else {
            continue;
        };
        let is_over = |since_s: u64| since_s.saturating_add(days * 86_400) < now_s;
        // A day that has not begun yet is of a clock that was wrong.
        if !is_over(day.end_ns() / 1_000_000_000) && day.begin_ns() / 1_000_000_000 <= now_s {
            continue;
        }
        let listed = bucket.list(&name)?;
        let newest = listed.iter().map(|one| one.written).max();
        let newest = newest.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        if newest.is_some_and(|at| is_over(at.as_secs())) {
            let names: Vec<String> = listed.into_iter().map(|one| one.name).collect();
            bucket.remove(&names)?;
            metrics::ARCHIVE_REMOVED.add(1);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "upload_tests.rs"]
mod tests;
