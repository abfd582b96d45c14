//! Batches on disk until they are acked.
//!
//! ```text
//! DIR/collector.lock          one collector a folder
//! DIR/reserve                 room for the start of a run on a full disk
//! DIR/last_seen               when the newest batch was written, for the blind time of the next run
//! DIR/epoch-HEX/source.json   whose batches
//!               state         acked, given up, newest acked snapshot
//!               side-N.log    batches without samples, from N on; a new file at each snapshot
//!               samples-N.log their samples
//! ```
//!
//! An ack frees samples; side-band stays until a newer snapshot is acked. Above the bound the oldest samples are given up
//! (earlier runs first): their batches keep number, side-band and counts and carry a gap. Nothing is forced to the disk:
//! what is written survives the death of any process, not that of the machine.

mod epoch;
mod frame;
mod log;
mod newest;
mod origin;
mod state;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memwide_service::single::{Lock, LockError};

pub use epoch::Epoch;
pub use state::{Content, Numbers};

use crate::metrics;
use crate::uplink::Origin;

/// Reasons of gaps.
const GAP_FULL: &str = "spool_full";
const GAP_CORRUPT: &str = "spool_corrupt";
/// Committed before; only asked for again by a pipeline that lost what it had.
const GAP_FREED: &str = "freed";

/// Why the spool cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// Another collector uses it.
    #[error("the spool is taken")]
    Taken(#[from] LockError),
    /// The disk does not do what it is asked.
    #[error("cannot {what} {}; choose another folder with spool.dir, or make room", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Its files were removed while it was in use: what they held is lost, and nobody would find what is written now.
    #[error("the spool {} was removed while it was in use; start the collector again, it makes a new one", folder.display())]
    Gone {
        /// Where it was.
        folder: PathBuf,
    },
}

impl SpoolError {
    fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source))
    }

    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

/// The disk has no room, or this user may not have more of it.
fn is_full(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    kinds.contains(&error.kind())
}

/// Held back for the next start: with a full disk it could not begin, and so not send what would make room.
const RESERVE_BYTES: usize = 64 << 10;

/// The folder with all epochs.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    max_bytes: u64,
    /// Kept open: a file that is cut and written again would go to the disk each time.
    last_seen: File,
    /// Earlier runs, oldest first, then this one.
    epochs: Mutex<Vec<Arc<Epoch>>>,
    _lock: Arc<Lock>,
}

impl Spool {
    /// Takes the folder, for as long as the answer is there: nothing in it is read or written before.
    pub(crate) fn take(folder: &Path) -> Result<Arc<Lock>, SpoolError> {
        let lock = Lock::acquire(&folder.join("collector.lock"), "a collector")?;
        Ok(Arc::new(lock))
    }

    /// Takes the folder and opens what earlier runs left in it.
    pub fn open(folder: &Path, max_bytes: u64) -> Result<Self, SpoolError> {
        Self::open_taken(Self::take(folder)?, folder, max_bytes)
    }

    /// Opens what earlier runs left in a folder that is taken.
    pub(crate) fn open_taken(
        lock: Arc<Lock>,
        folder: &Path,
        max_bytes: u64,
    ) -> Result<Self, SpoolError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).map_err(SpoolError::io("list", folder))? {
            let entry = entry.map_err(SpoolError::io("list", folder))?;
            if entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with("epoch-"))
            {
                let made = entry.metadata().and_then(|meta| meta.modified()).ok();
                found.push((made, entry.path()));
            }
        }
        found.sort();
        let mut epochs = Vec::new();
        for (_, path) in found {
            match Epoch::open(&path, roll_bytes(max_bytes)) {
                Ok(epoch) if epoch.unacked() == 0 => epoch.remove()?,
                Ok(epoch) => epochs.push(Arc::new(epoch)),
                Err(error) => {
                    // Its batches cannot be sent without knowing whose they are; somebody may want to look.
                    metrics::CORRUPT.add(1);
                    tracing::error!(
                        path = %path.display(),
                        error = &error as &dyn std::error::Error,
                        "an earlier run's folder is unreadable and left alone"
                    );
                }
            }
        }
        let path = folder.join("last_seen");
        let last_seen = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(SpoolError::io("open", &path))?;
        let spool = Self {
            folder: folder.to_owned(),
            max_bytes,
            last_seen,
            epochs: Mutex::new(epochs),
            _lock: lock,
        };
        spool.bound()?;
        Ok(spool)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Epoch>>> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts this run's epoch.
    pub fn start(&self, origin: &Origin) -> Result<Arc<Epoch>, SpoolError> {
        let folder = self
            .folder
            .join(format!("epoch-{:016x}", origin.source.epoch));
        let create = || {
            let made = Epoch::create(&folder, origin.clone(), roll_bytes(self.max_bytes));
            made.inspect_err(|_| {
                // Half a folder would be taken for a damaged one. The error is told.
                let _ = fs::remove_dir_all(&folder);
            })
        };
        let epoch = create().or_else(|error| {
            let is_given_back = error.is_full() && fs::remove_file(self.reserve()).is_ok();
            if is_given_back { create() } else { Err(error) }
        })?;
        let epoch = Arc::new(epoch);
        self.lock().push(epoch.clone());
        self.hold_back();
        Ok(epoch)
    }

    fn reserve(&self) -> PathBuf {
        self.folder.join("reserve")
    }

    /// Holds room back for the next start, if there is any.
    fn hold_back(&self) {
        let path = self.reserve();
        let has = fs::metadata(&path).is_ok_and(|meta| meta.len() == RESERVE_BYTES as u64);
        if !has && let Err(error) = fs::write(&path, vec![0xff; RESERVE_BYTES]) {
            let _ = fs::remove_file(&path); // half of it is no use
            tracing::debug!(%error, "no room held back");
        }
    }

    /// Earlier runs with unacked batches, oldest first, and this one once it has started.
    pub fn epochs(&self) -> Vec<Arc<Epoch>> {
        self.lock().clone()
    }

    /// Everything of this epoch is committed: its folder goes.
    pub fn retire(&self, epoch: &Arc<Epoch>) -> Result<(), SpoolError> {
        self.lock().retain(|one| !Arc::ptr_eq(one, epoch));
        epoch.remove()
    }

    /// Bytes of all epochs.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().iter().map(|epoch| epoch.bytes()).sum()
    }

    /// Unacked batches of all epochs but this one.
    pub(crate) fn earlier_unacked(&self, but: &Arc<Epoch>) -> u64 {
        let epochs = self.lock();
        let others = epochs.iter().filter(|one| !Arc::ptr_eq(one, but));
        others.map(|epoch| epoch.unacked()).sum()
    }

    /// Gives samples up until the bound holds, the oldest first; then side-band that no sample needs.
    pub fn bound(&self) -> Result<(), SpoolError> {
        if self
            .last_seen
            .metadata()
            .is_ok_and(|meta| meta.nlink() == 0)
        {
            let folder = self.folder.clone();
            return Err(SpoolError::Gone { folder });
        }
        let epochs = self.lock().clone();
        let mut bytes: u64 = epochs.iter().map(|epoch| epoch.bytes()).sum();
        for epoch in &epochs {
            while bytes > self.max_bytes {
                let before = epoch.bytes();
                if !epoch.give_up_oldest()? {
                    break;
                }
                bytes -= before - epoch.bytes();
            }
        }
        for epoch in &epochs {
            if bytes > self.max_bytes {
                let before = epoch.bytes();
                epoch.strip_side_band()?;
                bytes -= before.saturating_sub(epoch.bytes());
            }
        }
        metrics::SPOOL_BYTES.set(bytes);
        Ok(())
    }

    /// Remembers that somebody looks, for the next run's blind time.
    pub(crate) fn seen(&self, boot: &[u8; 16], wall_ns: u64) {
        let mut text = boot.to_vec();
        text.extend_from_slice(&wall_ns.to_le_bytes());
        if let Err(error) = self.last_seen.write_all_at(&text, 0) {
            tracing::debug!(%error, "time of the last batch not remembered");
        }
    }

    /// When an earlier run last wrote a batch in this boot.
    pub(crate) fn last_seen(&self, boot: &[u8; 16]) -> Option<u64> {
        let (mut before, mut wall) = ([0; 16], [0; 8]);
        self.last_seen.read_exact_at(&mut before, 0).ok()?;
        self.last_seen.read_exact_at(&mut wall, 16).ok()?;
        (before == *boot).then_some(u64::from_le_bytes(wall))
    }
}

/// Samples are given up in grains of at most a sixteenth of the bound.
fn roll_bytes(max_bytes: u64) -> Option<u64> {
    (max_bytes < 16 * (8 << 20)).then_some((max_bytes / 16).max(1))
}

#[cfg(test)]
mod tests;
