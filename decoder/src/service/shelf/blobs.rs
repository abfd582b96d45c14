//! Where symbol tables are kept: whole objects by name, in a folder that decoders may share, or in a bucket (`in_bucket`).
//!
//! What the rest asks of it is what both have: objects appear whole, one can be made only if there is none of the name, and
//! there is a list.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Start of the names of files that are being written.
const UNFINISHED: &str = ".part-";

/// A file that is being written for longer was left by a process that died.
const UNFINISHED_S: u64 = 3_600;

/// An object, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// When it was written, or last said to be used.
    pub(super) used: SystemTime,
}

/// Objects by name. All calls block.
pub(super) trait Blobs: std::fmt::Debug + Send + Sync {
    /// All objects.
    fn list(&self) -> io::Result<Vec<Entry>>;

    /// One object; [`ErrorKind::NotFound`] if there is none.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Makes or replaces an object: readers see the old or the new one, whole.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Makes an object if there is none of the name; says whether it did. Of several that try at once one succeeds.
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool>;

    /// Removes an object; one that is not there is removed.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Says that an object is used.
    fn touch(&self, name: &str) -> io::Result<()>;
}

/// Objects as files of one folder, on a disk of this host or on a volume that several hosts mount.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let root = root.to_owned();
        Ok(Self { root })
    }

    /// A file of a name nobody else takes, with this content, on the disk.
    fn unfinished(&self, bytes: &[u8]) -> io::Result<PathBuf> {
        // ATOMICS: numbers that differ.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let random = memwide_service::random::text()?;
        let path = self.root.join(format!("{UNFINISHED}{random}-{number}"));
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(bytes)?;
            // After a power loss a name may not stand for half a file.
            file.sync_all()
        });
        match written {
            Ok(()) => Ok(path),
            Err(error) => {
                drop(fs::remove_file(&path));
                Err(error)
            }
        }
    }

    fn forget_unfinished(path: &Path, meta: &fs::Metadata) {
        let now = memwide_service::clock::system_time();
        let age = meta
            .modified()
            .ok()
            .and_then(|at| now.duration_since(at).ok());
        if age.is_some_and(|age| age.as_secs() > UNFINISHED_S) {
            drop(fs::remove_file(path));
        }
    }
}

impl Blobs for Folder {
    fn list(&self) -> io::Result<Vec<Entry>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            // One that was removed meanwhile is none.
            let Ok(meta) = entry.metadata() else { continue };
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with(UNFINISHED) {
                Self::forget_unfinished(&entry.path(), &meta);
            } else if meta.is_file() {
                let (bytes, used) = (meta.len(), meta.modified()?);
                all.push(Entry { name, bytes, used });
            }
        }
        Ok(all)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.root.join(name))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let part = self.unfinished(bytes)?;
        fs::rename(part, self.root.join(name))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let path = self.root.join(name);
        // Whoever waits for another's object to go asks often: it is not written each time.
        if path.try_exists()? {
            return Ok(false);
        }
        let part = self.unfinished(bytes)?;
        let made = fs::hard_link(&part, path);
        fs::remove_file(part)?;
        match made {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.root.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn touch(&self, name: &str) -> io::Result<()> {
        let now = fs::FileTimes::new().set_modified(memwide_service::clock::system_time());
        let file = File::options().append(true).open(self.root.join(name))?;
        file.set_times(now)
    }
}

/// What the rest builds on, of an empty place.
#[cfg(test)]
pub(super) fn one_of_several_succeeds(blobs: &dyn Blobs) {
    let made = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..8_u8)
            .map(|n| scope.spawn(move || blobs.create("a", &[n]).unwrap()))
            .collect();
        tries
            .into_iter()
            .map(|one| one.join().unwrap())
            .collect::<Vec<_>>()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    let winner = made.iter().position(|made| *made).unwrap();
    assert_eq!(blobs.read("a").unwrap(), [u8::try_from(winner).unwrap()]);
    blobs.write("a", b"other").unwrap();
    blobs.touch("a").unwrap();
    let listed: Vec<_> = blobs.list().unwrap();
    assert_eq!((listed.len(), listed[0].bytes), (1, 5));
    blobs.remove("a").unwrap();
    blobs.remove("a").unwrap();
    assert_eq!(blobs.read("a").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(blobs.list().unwrap(), []);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_those_who_make_an_object_at_once_succeeds() {
        let root = tempfile::tempdir().unwrap();
        one_of_several_succeeds(&Folder::open(root.path()).unwrap());
    }
}
