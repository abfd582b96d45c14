//! One process of a kind, by a lock file.
//!
//! The kernel drops the lock with the process, however it ends, so a stale file locks nobody out.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds it.
    #[error(
        "{what} is already running as {}, which holds {}; stop it first",
        .pid.map_or_else(|| "an unknown process".to_owned(), |pid| format!("process {pid}")),
        .path.display()
    )]
    Held {
        /// What may run once only, as `a collector`.
        what: &'static str,
        /// The lock file.
        path: PathBuf,
        /// The holder as it wrote itself down.
        pid: Option<u32>,
    },
    /// The file cannot be opened, locked or written.
    #[error("cannot lock {}; give a folder that this user may write to", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Held until dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock at `path`, creating the file (and its folder) when missing.
    ///
    /// `what` names the thing that may run once only, with its article.
    pub fn acquire(path: &Path, what: &'static str) -> Result<Self, LockError> {
        let io = |source| LockError::Io {
            path: path.to_owned(),
            source,
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io)?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false) // the pid in it is the holder's until the lock is ours
            .open(path)
            .map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let pid = (&mut file)
                    .take(32) // a pid and a newline
                    .read_to_string(&mut text)
                    .ok()
                    .and_then(|_| text.trim().parse().ok());
                let path = path.to_owned();
                return Err(LockError::Held { what, path, pid });
            }
            Err(errno) => return Err(io(errno.into())),
        }
        file.set_len(0).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Where the lock file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The pid must not outlive its meaning; closing the file drops the lock itself.
        if let Err(error) = self.file.set_len(0) {
            tracing::debug!(path = %self.path.display(), %error, "lock file not emptied");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_and_told_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/collector.lock");
        let first = Lock::acquire(&path, "a collector").unwrap();
        let refused = Lock::acquire(&path, "a collector").unwrap_err().to_string();
        let me = std::process::id();
        assert!(refused.contains(&format!("process {me}")), "{refused}");
        assert!(refused.contains("collector.lock"), "{refused}");
        drop(first);
        Lock::acquire(&path, "a collector").unwrap();
    }

    #[test]
    fn a_stale_file_of_a_dead_process_locks_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::fs::write(&path, "999999999\n").unwrap();
        let lock = Lock::acquire(&path, "a collector").unwrap();
        let text = std::fs::read_to_string(lock.path()).unwrap();
        assert_eq!(text.trim(), std::process::id().to_string());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let failed = Lock::acquire(&file.join("lock"), "a collector").unwrap_err();
        assert!(matches!(failed, LockError::Io { .. }), "{failed:?}");
    }
}
